"""Laws of the bytes one step reads: dense once, experts as woken, look-up tables by row."""

from itertools import combinations, pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specmemo_sim.errors import InputError
from specmemo_sim.inputs.quantization import parse_quantization, uniform_format
from specmemo_sim.memory.weights import (
    expected_distinct_experts,
    streamed_weight_bytes,
    weight_bytes,
    weight_stream,
)

from model_inventories import llama_spec, moe_spec

PLAIN = parse_quantization(None)
FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}
FORMATS = {
    "plain": PLAIN,
    "fp8": parse_quantization(FP8),
    "mxfp4": parse_quantization({"quant_method": "mxfp4"}),
    "int4": uniform_format(4),
}
EXPERT = 3 * 128 * 256


@given(n=st.integers(1, 64), name=st.sampled_from(sorted(FORMATS)))
def test_a_step_reads_more_with_more_tokens_and_never_more_than_there_is(n, name):
    model = moe_spec()
    stream = weight_stream(model, FORMATS[name])
    total = weight_bytes(model, FORMATS[name]).total
    assert stream.read_bytes(n) <= stream.read_bytes(n + 1) <= total


def test_very_many_tokens_read_everything():
    model = moe_spec()
    assert streamed_weight_bytes(model, PLAIN, 10**6) == weight_bytes(model, PLAIN).total


def test_one_token_reads_its_experts_and_one_embedding_row():
    model = moe_spec()
    unread = 2 * (3 * 6 * EXPERT + 1023 * 256)
    assert streamed_weight_bytes(model, PLAIN, 1) == weight_bytes(model, PLAIN).total - unread


def test_a_tied_embedding_is_read_whole_as_the_head():
    model = llama_spec(vocab=512, hidden=64, layers=2, heads=4, kv_heads=4, inner=128, tied=True)
    assert streamed_weight_bytes(model, PLAIN, 1) == weight_bytes(model, PLAIN).total


def test_a_step_without_tokens_is_an_error():
    with pytest.raises(InputError, match="at least 1"):
        streamed_weight_bytes(moe_spec(), PLAIN, 0)


@pytest.mark.parametrize(("chosen", "tokens"), [(1, 1), (1, 4), (2, 2), (2, 3), (3, 3), (4, 2)])
def test_distinct_experts_are_the_mean_over_all_routings(chosen, tokens):
    """Every way that each token can choose among 4 experts, listed and counted."""
    choices = list(combinations(range(4), chosen))
    woken = [len(set().union(*routing)) for routing in product(choices, repeat=tokens)]
    assert expected_distinct_experts(4, chosen, tokens) == pytest.approx(sum(woken) / len(woken))


def test_longer_steps_wake_ever_fewer_new_experts():
    woken = [expected_distinct_experts(128, 8, n) for n in range(1, 60)]
    gains = [later - earlier for earlier, later in pairwise(woken)]
    assert gains == sorted(gains, reverse=True)
    assert woken[-1] < 128
