"""The token budget: what the turns add up to, and what the context allows."""

import pytest
from pydantic import ValidationError

from specmemo_sim.errors import InputError
from specmemo_sim.inputs.workload import Workload, mean_context, token_budget


def budget(positions=None, **fields):
    return token_budget(Workload(**fields), positions)


def test_turns_add_up_to_prompt_and_answer_each():
    result = budget(turns=3, prompt_tokens=10, output_tokens=40)
    assert (result.wanted_tokens, result.tokens, result.turns_held) == (150, 150, 3)
    assert not result.truncated


def test_the_models_positions_limit_what_is_kept():
    """20 turns of 100 tokens pass 1,050 positions: 10 whole turns are held."""
    result = budget(1050, turns=20, prompt_tokens=60, output_tokens=40)
    assert (result.wanted_tokens, result.tokens, result.turns_held) == (2000, 1050, 10)
    assert result.truncated


def test_a_stated_context_replaces_the_models_positions():
    assert budget(1050, turns=20, prompt_tokens=60, output_tokens=40, context=4000).tokens == 2000
    assert budget(1050, turns=20, prompt_tokens=60, output_tokens=40, context=500).tokens == 500


def test_a_turn_that_cannot_fit_is_refused():
    for fields in (
        {"turns": 3, "prompt_tokens": 60, "output_tokens": 41, "context": 100},
        {"context": 4096, "prompt_tokens": 5000},
        {"turns": 1, "prompt_tokens": 2000, "output_tokens": 100},
    ):
        with pytest.raises(InputError, match="one turn of"):
            budget(2048, **fields)


def test_a_given_prompt_is_honoured_with_a_context_alone():
    assert budget(context=4096, prompt_tokens=1000).prompt_tokens == 1000
    assert budget(context=100, prompt_tokens=99).prompt_tokens == 99


def test_defaults_shrink_to_a_small_model():
    """A model of 128 positions gets a turn of 64 + 64 tokens, not an error."""
    result = budget(128, turns=5)
    assert (result.tokens, result.prompt_tokens, result.turns_held) == (128, 64, 1)


def test_a_context_alone_is_filled_exactly_and_the_prompt_leaves_room_for_the_answer():
    result = budget(2048, context=8192, output_tokens=192)
    assert (result.tokens, result.prompt_tokens, result.turns_held) == (8192, 8000, None)


def test_without_turns_or_context_one_turn_is_kept():
    assert budget(prompt_tokens=7, output_tokens=5).tokens == 12


@pytest.mark.parametrize(
    "fields", [{"turns": 0}, {"batch": 0}, {"prompt_tokens": -1}, {"context": 2**40},
               {"turns": 1.5}, {"turns": True}, {"turns": "3"}, {"speed": 3}],
)  # fmt: skip
def test_impossible_workloads_are_refused(fields):
    with pytest.raises(ValidationError):
        Workload(**fields)


def test_the_mean_context_is_the_average_over_generated_tokens():
    """Brute force over every generated token of short chats, to half a token."""
    for turns, prompt, output, limit in [(1, 30, 4, None), (5, 6, 8, None), (7, 10, 6, 60)]:
        workload = Workload(turns=turns, prompt_tokens=prompt, output_tokens=output)
        budget_ = token_budget(workload, limit)
        seen = []
        for turn in range(turns):
            start = turn * (prompt + output) + prompt
            seen += [min(start + step, budget_.tokens) for step in range(output)]
        exact = sum(seen) / len(seen)
        assert abs(mean_context(workload, limit) - exact) <= 2


def test_a_filled_context_is_decoded_at_its_end():
    workload = Workload(context=131_072, output_tokens=256)
    assert mean_context(workload, None) == 131_072 - 128
