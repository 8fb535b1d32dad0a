"""Memory: the parts add up, and each rises with what it depends on."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from specmemo_sim.inputs.drafter import MedusaHeads, NoDrafter
from specmemo_sim.inputs.dtypes import DType
from specmemo_sim.inputs.quantization import cast_format
from specmemo_sim.memory.breakdown import PLAIN, MemoryModel, Setup
from specmemo_sim.memory.buffers import BufferModel, TreeShape
from specmemo_sim.memory.kv_cache import CachePolicy, kv_bytes, tree_slot_bytes
from specmemo_sim.memory.weights import weight_bytes

from model_inventories import llama_spec
from strategies import devices, kv_dtypes, models, workloads

KEYS = (
    "target_weights", "tower_weights", "draft_weights", "kv_target", "kv_tree_slots", "kv_drafter",
    "activations", "tree_buffers", "device_context", "allocator_slack", "reserved",
)  # fmt: skip


@st.composite
def setups(draw):
    model = draw(models())
    dtype = DType.FP16
    heads = draw(st.integers(0, 4))
    drafter = MedusaHeads(num_heads=heads, dtype=dtype) if heads else NoDrafter()
    return Setup(
        model=model,
        device=draw(devices()),
        drafter=drafter,
        workload=draw(workloads()),
        weight_bytes=weight_bytes(model, cast_format(dtype)).total,
        tower_bytes=0,
        activation_dtype=dtype,
        cache=CachePolicy(draw(kv_dtypes())),
        draft_cache=CachePolicy(dtype),
        buffers=draw(st.sampled_from(BufferModel)),
        reserved_bytes=draw(st.integers(0, 10**6)),
    )


@st.composite
def shapes(draw):
    depth = draw(st.integers(1, 5))
    leaves = draw(st.integers(1, 20))
    return TreeShape(draw(st.integers(depth + leaves, 120)), leaves, depth)


def sizes(breakdown):
    return {part.key: part.high_bytes for part in breakdown.parts}


def never_smaller(before, after):
    first, second = sizes(before), sizes(after)
    assert all(first[key] <= second[key] for key in KEYS), (first, second)


@given(setups(), shapes())
def test_the_total_is_the_sum_of_the_parts_at_every_end(setup, shape):
    breakdown = MemoryModel(setup).at(shape)
    assert tuple(sizes(breakdown)) == KEYS
    for end in ("low_bytes", "typical_bytes", "high_bytes"):
        total = 0
        for part in breakdown.parts:
            total += getattr(part, end)
        assert getattr(breakdown, end) == total
    assert breakdown.low_bytes <= breakdown.typical_bytes <= breakdown.high_bytes


@given(setups(), shapes(), st.integers(1, 5))
def test_every_part_rises_with_the_batch(setup, shape, more):
    larger = setup.workload.replace(batch=setup.workload.batch + more)
    never_smaller(
        MemoryModel(setup).at(shape), MemoryModel(replace(setup, workload=larger)).at(shape)
    )


@given(setups(), shapes(), st.integers(1, 9))
def test_every_part_rises_with_the_turns(setup, shape, more):
    longer = setup.workload.replace(turns=setup.workload.turns + more)
    before, after = (
        MemoryModel(entry).at(shape) for entry in (setup, replace(setup, workload=longer))
    )
    never_smaller(before, after)
    assert before.part("kv_target").high_bytes < after.part("kv_target").high_bytes


@given(setups(), shapes(), st.integers(1, 400))
def test_every_part_rises_with_the_prompt(setup, shape, more):
    longer = setup.workload.replace(prompt_tokens=setup.workload.prompt_tokens + more)
    never_smaller(
        MemoryModel(setup).at(shape), MemoryModel(replace(setup, workload=longer)).at(shape)
    )


@given(setups(), shapes())
def test_every_part_rises_with_the_layers(setup, shape):
    model = setup.model
    deeper = model.replace(layer_order=(*model.layer_order, 0))
    weights = weight_bytes(deeper, cast_format(DType.FP16)).total
    after = MemoryModel(replace(setup, model=deeper, weight_bytes=weights)).at(shape)
    before = MemoryModel(setup).at(shape)
    never_smaller(before, after)
    for key in ("target_weights", "kv_target", "kv_tree_slots"):
        assert before.part(key).high_bytes < after.part(key).high_bytes


@given(setups(), shapes())
def test_every_part_rises_with_the_bits(setup, shape):
    """Activations and cache in fp32 never need less than in 16 or 8 bits."""
    wide = replace(
        setup,
        activation_dtype=DType.FP32,
        cache=CachePolicy(DType.FP32),
        weight_bytes=weight_bytes(setup.model, cast_format(DType.FP32)).total,
    )
    never_smaller(MemoryModel(setup).at(shape), MemoryModel(wide).at(shape))


@given(setups(), shapes(), st.integers(1, 40))
def test_every_part_rises_with_the_nodes(setup, shape, more):
    wider = TreeShape(shape.num_nodes + more, shape.num_leaves, shape.depth)
    model = MemoryModel(setup)
    never_smaller(model.at(shape), model.at(wider))
    assert (
        model.at(shape).part("kv_tree_slots").high_bytes
        < model.at(wider).part("kv_tree_slots").high_bytes
    )


@given(setups(), shapes())
def test_plain_decoding_has_no_tree_parts(setup, shape):
    plain = MemoryModel(setup).at(PLAIN)
    assert plain.part("kv_tree_slots").high_bytes == 0
    assert plain.part("tree_buffers").high_bytes == 0
    never_smaller(plain, MemoryModel(setup).at(shape))


@given(models(), st.integers(1, 300), st.integers(1, 9), kv_dtypes())
def test_doubling_batch_or_tokens_doubles_a_full_cache(model, tokens, batch, dtype):
    policy = CachePolicy(dtype)
    once = kv_bytes(model, tokens, batch, policy)
    assert kv_bytes(model, 2 * tokens, batch, policy) == 2 * once
    assert kv_bytes(model, tokens, 2 * batch, policy) == 2 * once


@given(models(), st.integers(1, 100), st.integers(1, 9), kv_dtypes())
def test_a_tree_slot_costs_what_a_token_costs(model, nodes, batch, dtype):
    policy = CachePolicy(dtype)
    assert tree_slot_bytes(model, nodes, batch, policy) == kv_bytes(model, nodes, batch, policy)


@given(st.integers(1, 50), st.integers(1, 400))
def test_a_window_caps_what_is_kept(window, tokens):
    """Dropping what is outside the window keeps the smaller of tokens and window."""
    model = llama_spec(vocab=64, hidden=64, layers=3, heads=4, kv_heads=2, inner=32)
    layer = model.layers[0]
    cache = layer.caches[0].replace(window=window)
    model = model.replace(layers=(layer.replace(caches=(cache,)),))
    dropping = CachePolicy(DType.FP16, drop_outside_window=True)
    kept = kv_bytes(model, min(tokens, window), 1, CachePolicy(DType.FP16))
    assert kv_bytes(model, tokens, 1, dropping) == kept
