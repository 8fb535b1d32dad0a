"""Latency: never below a roofline bound, never falling with work, no gain without acceptance."""

from hypothesis import given
from hypothesis import strategies as st

from specmemo_sim.inputs.drafter import MedusaHeads, NgramDrafter
from specmemo_sim.inputs.dtypes import DType
from specmemo_sim.inputs.quantization import cast_format, uniform_format
from specmemo_sim.latency.roofline import StepWork, roofline_seconds
from specmemo_sim.latency.step import SpeedModel, SpeedSetup
from specmemo_sim.memory.kv_cache import CachePolicy
from specmemo_sim.memory.weights import weight_stream

from strategies import devices, models

positive = st.floats(1.0, 1e15)
shares = st.floats(0, 1)


@st.composite
def speed_models(draw):
    policy = CachePolicy(DType.FP16)
    model, low_bit = draw(models()), draw(st.booleans())
    return SpeedModel(
        SpeedSetup(
            model=model,
            device=draw(devices()),
            weights=weight_stream(model, uniform_format(8) if low_bit else cast_format(DType.FP16)),
            low_bit=low_bit,
            compute_dtype=DType.FP16,
            cache=policy,
            draft_cache=policy,
            batch=draw(st.integers(1, 16)),
            mean_context=draw(st.integers(1, 5000)),
        )
    )


def seconds(work, overlap=1.0, fixed=0.0):
    return roofline_seconds(
        work, bytes_per_s=1e9, flop_per_s=1e12, fixed_s_per_layer=fixed, overlap=overlap
    )


@given(positive, positive, shares)
def test_a_pass_is_never_faster_than_memory_or_arithmetic_allow(moved, flop, overlap):
    """The slower bound holds from below, and their sum from above."""
    took = seconds(StepWork(moved, flop, 0), overlap)
    assert took >= moved / 1e9 * (1 - 1e-12)
    assert took >= flop / 1e12 * (1 - 1e-12)
    assert took <= (moved / 1e9 + flop / 1e12) * (1 + 1e-12)


def test_the_ridge_is_where_both_bounds_meet():
    """At 1 GB/s and 1 TFLOP/s the ridge is 1000 FLOP a byte; past it arithmetic decides."""
    assert seconds(StepWork(1e9, 1e12, 0)) == 1.0
    assert seconds(StepWork(1e9, 2e12, 0)) == 2.0
    assert seconds(StepWork(2e9, 1e12, 0)) == 2.0
    assert seconds(StepWork(1e9, 1e12, 10), fixed=0.1) == 2.0


@given(speed_models(), st.integers(1, 60), st.integers(1, 60))
def test_verifying_more_nodes_never_takes_less_time(speed, nodes, more):
    drafter = NgramDrafter()
    small = speed.at(drafter, nodes, 0, 1.0).step_s
    large = speed.at(drafter, nodes + more, 0, 1.0).step_s
    for end in ("low", "typical", "high"):
        assert getattr(small, end) <= getattr(large, end)


@given(speed_models(), st.integers(2, 60), st.floats(1, 6))
def test_intervals_are_ordered_and_tokens_per_s_follow_the_step(speed, nodes, tokens):
    result = speed.at(NgramDrafter(), nodes, 3, tokens)
    assert 0 < result.step_s.low <= result.step_s.typical <= result.step_s.high
    rate = result.tokens_per_s
    assert rate.low <= rate.typical <= rate.high
    produced = speed.setup.batch * tokens
    assert rate.typical * result.step_s.typical <= produced * (1 + 1e-9)
    assert rate.typical * result.step_s.typical >= produced * (1 - 1e-9)


@given(speed_models(), st.integers(2, 60))
def test_a_tree_that_is_never_accepted_is_slower_than_plain_decoding(speed, nodes):
    """One token a step with more nodes and heads to run cannot beat one token a step without."""
    heads = MedusaHeads(num_heads=2, dtype=DType.FP16)
    useless = speed.at(heads, nodes, 2, 1.0).tokens_per_s.typical
    assert useless < speed.plain().tokens_per_s.typical


@given(speed_models())
def test_plain_decoding_is_one_node_without_a_drafter(speed):
    assert speed.plain() == speed.at(NgramDrafter(), 1, 0, 1.0)
