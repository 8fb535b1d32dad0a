"""What a pass moves and computes: hand-counted cases and limits."""

import pytest

from specmemo_sim.inputs.drafter import DraftModel, EagleHead, MedusaHeads, MtpLayers, NgramDrafter
from specmemo_sim.inputs.dtypes import DType
from specmemo_sim.inputs.model import LatentCache
from specmemo_sim.inputs.quantization import cast_format
from specmemo_sim.latency.drafting import draft_work, mtp_model
from specmemo_sim.latency.roofline import Pass, target_work
from specmemo_sim.memory.kv_cache import CachePolicy
from specmemo_sim.memory.weights import weight_stream

from model_inventories import llama_spec, moe_spec

FP16 = CachePolicy(DType.FP16)


def work(model, nodes=1, context=0, batch=1, rows=None, policy=FP16):
    weights = weight_stream(model, cast_format(DType.FP16))
    return target_work(model, weights, policy, Pass(nodes, context, batch, rows or nodes))


def drafting(drafter, target, context=10, batch=1, depth=1):
    return draft_work(drafter, target, FP16, DType.FP16, Pass(1, context, batch, 1), depth=depth)


def test_a_7b_decode_step_reads_its_weights_once_and_computes_twice_per_weight():
    """6,738,415,616 parameters less the 31,999 embedding rows that are not looked up."""
    step = work(llama_spec())
    matrices = 32 * (4 * 4096 * 4096 + 3 * 4096 * 11008) + 32000 * 4096
    token = 32 * 2 * 4096 * 2  # the keys and values written
    assert step.moved_bytes == (6_738_415_616 - 31_999 * 4096) * 2 + token
    assert step.work_flop == pytest.approx(2 * matrices, rel=1e-3)
    assert step.num_layers == 32


def test_context_adds_its_keys_and_values():
    model = llama_spec()
    assert work(model, context=1000).moved_bytes - work(model).moved_bytes == 1000 * 524_288


def test_a_window_limits_what_is_read_and_computed():
    """Behind a window of 16, a context of 5,000 costs what one of 500 does."""
    model = llama_spec(vocab=64, hidden=64, layers=3, heads=4, kv_heads=2, inner=32)
    layer = model.layers[0]
    window = layer.caches[0].replace(window=16)
    model = model.replace(layers=(layer.replace(caches=(window,)),))
    assert work(model, context=500) == work(model, context=5000)


def test_prefill_computes_one_row_of_logits():
    model = llama_spec()
    one, every = work(model, nodes=100, rows=1), work(model, nodes=100)
    assert every.work_flop - one.work_flop == 2 * 99 * 32000 * 4096


def test_absorbed_latent_attention_trades_bytes_for_flop():
    """DeepSeek-V2-Lite's 16 heads: 2*16*(576+512) FLOP against 2*16*(192+128) per visible token."""
    latent = LatentCache(
        latent_dim=512, rope_dim=64, num_heads=16, key_head_dim=192, value_head_dim=128
    )
    model = llama_spec(vocab=64, hidden=2048, layers=1, heads=16, kv_heads=16, inner=32)
    layer = model.layers[0].replace(caches=(latent,), head_dim=192)
    model = model.replace(layers=(layer,))
    expanded = CachePolicy(DType.FP16, expand_latent=True)
    flop = [
        work(model, context=1000, policy=p).work_flop - work(model, policy=p).work_flop
        for p in (FP16, expanded)
    ]
    assert flop == [1000 * 34_816, 1000 * 10_240]
    moved = [work(model, context=1000, policy=p).moved_bytes for p in (FP16, expanded)]
    assert moved[0] < moved[1]


def test_medusa_heads_are_read_once_however_deep_the_tree():
    heads = MedusaHeads(num_heads=4, dtype=DType.FP16)
    assert drafting(heads, llama_spec(), depth=4).moved_bytes == 4 * 295_706_624
    assert drafting(heads, llama_spec(), depth=2).moved_bytes == 2 * 295_706_624


def test_a_draft_model_runs_once_per_level():
    small = llama_spec(layers=2, inner=512, hidden=512, heads=8, kv_heads=8)
    drafter = DraftModel(model=small)
    one, five = (drafting(drafter, llama_spec(), depth=d) for d in (1, 5))
    assert five.moved_bytes == 5 * one.moved_bytes
    assert five.num_layers == 10


def test_look_up_costs_nothing():
    assert drafting(NgramDrafter(), llama_spec(), depth=5).moved_bytes == 0


def test_an_eagle_head_reads_its_cache_and_an_lm_head():
    shape = {
        "kind": "eagle", "hidden_size": 64, "target_hidden_size": 64, "intermediate_size": 128,
        "num_heads": 4, "num_kv_heads": 2, "head_dim": 16, "vocab_size": 500,
        "draft_vocab_size": 500, "dtype": DType.FP16,
    }  # fmt: skip
    target = llama_spec(vocab=500, hidden=64, heads=4, kv_heads=2, inner=128, layers=2)
    near, far = (drafting(EagleHead(**shape), target, context=c, batch=3) for c in (10, 1010))
    assert far.moved_bytes - near.moved_bytes == 3 * 1000 * 2 * 2 * 16 * 2
    borrowing = drafting(EagleHead(**shape, own_lm_head=False), target, context=10, batch=3)
    assert borrowing.moved_bytes == near.moved_bytes


def test_an_mtp_pass_reads_one_layer_its_chosen_experts_and_the_lm_head():
    """A target whose MTP layer equals its routed layer: as one layer of it with the LM head."""
    target = moe_spec(layers=4, dense_layers=0)
    with_mtp = target.replace(mtp=(target.layers[-1],))
    one = mtp_model(with_mtp)
    assert one.num_layers == 1
    step = drafting(MtpLayers(), with_mtp)
    kind = target.layers[-1]
    dense = sum(t.num_elements for t in kind.tensors if t.role.value != "expert")
    experts = sum(t.num_elements for t in kind.tensors if t.role.value == "expert")
    head = target.vocab_size * target.hidden_size
    share = kind.experts_per_token / kind.num_experts
    cache = kind.caches[0]
    token = cache.num_kv_heads * (cache.key_head_dim + cache.value_head_dim) * 2
    assert step.moved_bytes == 2 * (dense + experts * share + head) + 11 * token
