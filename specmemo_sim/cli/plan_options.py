"""The options of ``specmemo plan``, as click declares them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from specmemo_sim.inputs.workload import (
    DEFAULT_OUTPUT_TOKENS,
    DEFAULT_PROMPT_TOKENS,
)
from specmemo_sim.memory.buffers import BufferModel
from specmemo_sim.planner.drafting import DrafterChoice
from specmemo_sim.planner.precision import KvPrecision, PrecisionPolicy
from specmemo_sim.planner.request import DEFAULT_MAX_HEADS, DEFAULT_MAX_NODES

F = TypeVar("F", bound=Callable[..., Any])

PRECISIONS = {
    "auto": PrecisionPolicy.AUTO,
    "any": PrecisionPolicy.ANY,
    "16bit": PrecisionPolicy.SIXTEEN_BIT,
    "fp16": PrecisionPolicy.SIXTEEN_BIT,
    "bf16": PrecisionPolicy.SIXTEEN_BIT,
    "int8": PrecisionPolicy.INT8,
    "int4": PrecisionPolicy.INT4,
}
MAX_NODES = 1024
"""Largest tree a plan may consider."""


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """The options as click parsed them."""

    device: str
    memory: str | None
    reserved: str | None
    turns: int | None
    prompt_tokens: int | None
    output_tokens: int | None
    batch: int
    context: int | None
    prefill_chunk: int
    precision: str
    kv_precision: str
    drafter: str
    drafter_model: str | None
    acceptance_rate: float | None
    profile: str | None
    max_heads: int | None
    max_nodes: int | None
    tree: str | None
    buffers: str
    kv_cache: str
    mla_cache: str
    tower: bool
    dtype: str | None


_OPTIONS = (
    click.option("-d", "--device", required=True, help="Device id, or a TOML file of your own."),
    click.option("--memory", help='Usable memory instead of the device\'s own, such as "7.6 GiB".'),
    click.option("--reserved", help='Memory other programs hold, such as "600 MiB".'),
    click.option("--turns", type=int, help="Chat turns that stay in the cache."),
    click.option(
        "--prompt-tokens",
        type=int,
        help=f"New prompt tokens per turn (default {DEFAULT_PROMPT_TOKENS}).",
    ),
    click.option(
        "--output-tokens",
        type=int,
        help=f"Generated tokens per turn (default {DEFAULT_OUTPUT_TOKENS}).",
    ),
    click.option("--batch", type=int, default=1, show_default=True, help="Sequences at once."),
    click.option(
        "--context",
        type=int,
        help="Tokens the cache is limited to; without --turns, exactly that many.",
    ),
    click.option(
        "--prefill-chunk",
        type=int,
        default=2048,
        show_default=True,
        help="Most prompt tokens processed in one pass.",
    ),
    click.option(
        "--precision",
        type=click.Choice(list(PRECISIONS)),
        default="auto",
        show_default=True,
        help="Weights: auto lowers only to fit, any lets every precision compete on speed.",
    ),
    click.option(
        "--kv-precision",
        type=click.Choice([choice.value for choice in KvPrecision]),
        default="auto",
        show_default=True,
        help="KV cache: auto lowers only to fit.",
    ),
    click.option(
        "--drafter",
        type=click.Choice([choice.value for choice in DrafterChoice]),
        default="auto",
        show_default=True,
        help="What proposes tokens; auto is Medusa heads; none is chosen where it is faster.",
    ),
    click.option("--drafter-model", help="Draft model or EAGLE head: an id or a config.json."),
    click.option(
        "--acceptance-rate",
        type=float,
        help="Probability that a drafted token is accepted, for chain drafters.",
    ),
    click.option("--profile", help="Acceptance profile of the heads (default: the model's own)."),
    click.option("--max-heads", type=int, help=f"Most Medusa heads (default {DEFAULT_MAX_HEADS})."),
    click.option(
        "--max-nodes",
        type=int,
        help=f"Largest tree considered, root included (default {DEFAULT_MAX_NODES}, "
        f"at most {MAX_NODES}).",
    ),
    click.option("--tree", help="Use this tree (bundled name or TOML file) instead of searching."),
    click.option(
        "--buffers",
        type=click.Choice([model.value for model in BufferModel]),
        default=BufferModel.BY_NODE.value,
        show_default=True,
        help="Verification buffers: by node, the paper's Eq. 3, or the reference code's.",
    ),
    click.option(
        "--kv-cache",
        type=click.Choice(["full", "window"]),
        default="full",
        show_default=True,
        help="Sliding-window layers keep every token, or their window only.",
    ),
    click.option(
        "--mla-cache",
        type=click.Choice(["latent", "expanded"]),
        default="latent",
        show_default=True,
        help="MLA layers keep the compressed latent, or expanded heads.",
    ),
    click.option(
        "--tower/--no-tower", default=True, help="Load the vision or audio tower (default: yes)."
    ),
    click.option(
        "--dtype", help="16-bit type of weights and activations, if not the checkpoint's."
    ),
)


def plan_options(command: F) -> F:
    """Add the options of a plan to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
