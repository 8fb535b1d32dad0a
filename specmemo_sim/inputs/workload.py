"""``Workload``: the chat to be served, and the tokens its KV cache must hold at the end."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from specmemo_sim.errors import InputError
from specmemo_sim.spec import Spec

Tokens = Annotated[int, Field(ge=1, le=2**26, strict=True)]
"""Number of tokens, 1 to 67 million."""

DEFAULT_PROMPT_TOKENS = 64
DEFAULT_OUTPUT_TOKENS = 256
"""Tokens per turn when the user does not say: MT-Bench's questions and answers are of this size
(44,180 generated tokens over 160 turns in Medusa's 13B answer file, 276 a turn)."""


class Workload(Spec):
    """A conversation of equal turns, for a batch of independent sequences."""

    batch: Annotated[int, Field(ge=1, le=65_536, strict=True)] = 1
    """Sequences decoded together."""
    turns: Annotated[int, Field(ge=1, le=10**6, strict=True)] | None = None
    """Question-and-answer turns that stay in the cache; None when only ``context`` counts."""
    prompt_tokens: Tokens | None = None
    """New prompt tokens of each turn; None means 64, or what a context alone leaves to it."""
    output_tokens: Tokens | None = None
    """Generated tokens of each turn; None means 256, at most half of a small context."""
    context: Tokens | None = None
    """Tokens the cache is limited to; None means the model's own limit."""
    prefill_chunk: Tokens = 2048
    """Most prompt tokens processed in one pass."""


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """Tokens of one sequence at the end of its last turn."""

    wanted_tokens: int
    """What the turns add up to."""
    tokens: int
    """What the cache holds: the wanted tokens, or the limit when they pass it."""
    limit_tokens: int | None
    """``--context``, else the model's positions; None when neither is known."""
    prompt_tokens: int
    """Longest prompt that one turn adds."""
    turns_held: int | None
    """Whole turns the cache holds at once; None without turns."""

    @property
    def truncated(self) -> bool:
        """Whether the oldest turns must be dropped before the last one ends."""
        return self.tokens < self.wanted_tokens


def token_budget(workload: Workload, max_position_embeddings: int | None) -> TokenBudget:
    """Tokens each sequence keeps, from the turns and the context limit.

    With turns, the cache holds ``turns * (prompt + output)`` tokens, at most the limit. With a
    context alone, it holds exactly that many, and the prompt fills all but the answer.

    Args:
        workload: The conversation.
        max_position_embeddings: Tokens the model was made for, None when unknown.

    Raises:
        InputError: one turn alone passes the limit.
    """
    limit = workload.context or max_position_embeddings
    prompt, output = turn_tokens(workload, max_position_embeddings)
    if limit is not None and prompt + output > limit:
        whose = "--context" if workload.context else "the model's positions"
        raise InputError(
            f"one turn of {prompt:,} + {output:,} tokens does not fit {whose} of {limit:,}; "
            "lower --prompt-tokens or --output-tokens, or raise --context"
        )
    if workload.turns is None and workload.context is not None:
        return TokenBudget(workload.context, workload.context, workload.context, prompt, None)
    turns = workload.turns or 1
    per_turn = prompt + output
    wanted = turns * per_turn
    tokens = wanted if limit is None else min(wanted, limit)
    return TokenBudget(
        wanted_tokens=wanted,
        tokens=tokens,
        limit_tokens=limit,
        prompt_tokens=prompt,
        turns_held=min(turns, tokens // per_turn),
    )


def turn_tokens(workload: Workload, max_position_embeddings: int | None) -> tuple[int, int]:
    """(prompt, output) tokens of one turn, with what the user left open filled in.

    An open answer is 256 tokens, at most half of the limit. An open prompt is 64 tokens, at most
    the rest; a context without turns is filled by one prompt and its answer.
    """
    limit = workload.context or max_position_embeddings
    prompt, output = workload.prompt_tokens, workload.output_tokens
    if output is None:
        room = DEFAULT_OUTPUT_TOKENS if limit is None else min(DEFAULT_OUTPUT_TOKENS, limit // 2)
        output = max(1, room if prompt is None or limit is None else min(room, limit - prompt))
    if prompt is None:
        fills = workload.turns is None and workload.context is not None
        rest = DEFAULT_PROMPT_TOKENS if limit is None else max(1, limit - output)
        prompt = rest if fills else min(DEFAULT_PROMPT_TOKENS, rest)
    return prompt, output


def mean_context(workload: Workload, max_position_embeddings: int | None) -> int:
    """Tokens in the cache on average over the generated tokens, at least 1.

    Turn k of p + o tokens generates behind k*(p + o) + p tokens, half of its own answer included;
    past the limit the oldest tokens are dropped. With a context alone the answer ends it.
    """
    budget = token_budget(workload, max_position_embeddings)
    prompt, output = turn_tokens(workload, max_position_embeddings)
    answer = output // 2
    if workload.turns is None and workload.context is not None:
        return max(1, budget.tokens - answer)
    turns, per_turn = workload.turns or 1, prompt + output
    first = prompt + answer
    # Turns whose mean stays below what the cache holds; all later ones see a full cache.
    growing = min(turns, max(0, (budget.tokens - first) // per_turn + 1))
    total = growing * first + per_turn * (growing * (growing - 1) // 2)
    total += (turns - growing) * budget.tokens
    return max(1, total // turns)
