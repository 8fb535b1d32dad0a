"""What the planner decides: compute type, tiers, profiles, drafters, obstacles."""

from dataclasses import replace

import pytest

from specmemo_sim.errors import InputError
from specmemo_sim.inputs.catalog import load_device
from specmemo_sim.inputs.dtypes import DType
from specmemo_sim.inputs.model_source import load_model
from specmemo_sim.inputs.workload import Workload
from specmemo_sim.planner.drafting import (
    DrafterChoice,
    acceptance_basis,
    chain_drafter,
    chain_proposal,
    medusa_proposals,
    profile_for,
)
from specmemo_sim.planner.explain import explain
from specmemo_sim.planner.precision import (
    KvPrecision,
    PrecisionPolicy,
    WeightPrecision,
    activation_dtype,
    tiers,
)
from specmemo_sim.planner.request import PlanRequest
from specmemo_sim.planner.search import SearchStatus, plan_search

from model_inventories import llama_spec

VICUNA = "lmsys/vicuna-7b-v1.3"


def request(model=VICUNA, device="nvidia-titan-rtx", **fields):
    workload = Workload(**fields.pop("workload", {"turns": 2}))
    return PlanRequest(
        model=load_model(model), device=load_device(device), workload=workload, **fields
    )


@pytest.mark.parametrize(
    ("device", "own", "chosen"),
    [
        ("nvidia-h100-sxm", DType.BF16, DType.BF16),
        ("nvidia-t4", DType.BF16, DType.FP16),  # emulated: 2.3 against 42 TFLOP/s measured
        ("nvidia-titan-rtx", DType.BF16, DType.FP16),
        ("nvidia-titan-rtx", DType.FP16, DType.FP16),
        ("cpu-desktop-ddr5-5600", DType.BF16, DType.FP32),
        ("nvidia-h100-sxm", DType.FP32, DType.FP16),
    ],
)
def test_emulated_types_are_avoided(device, own, chosen):
    dtype, note = activation_dtype(llama_spec(dtype=own), load_device(device))
    assert dtype is chosen
    assert bool(note) == (chosen is not own)


def test_automatic_tiers_go_from_faithful_to_lossy():
    chosen = tiers(llama_spec(), PrecisionPolicy.AUTO, KvPrecision.AUTO, DType.FP16)
    assert [(tier.weights.value, tier.kv_dtype.value) for tier in chosen] == [
        ("16bit", "fp16"), ("16bit", "fp8"), ("int8", "fp16"), ("int8", "fp8"),
        ("int4", "fp16"), ("int4", "fp8"),
    ]  # fmt: skip


def test_a_quantised_checkpoint_keeps_its_format():
    awq = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}
    model = llama_spec(quantization=awq)
    (tier,) = tiers(model, PrecisionPolicy.AUTO, KvPrecision.SIXTEEN_BIT, DType.FP16)
    assert tier.weights is WeightPrecision.CHECKPOINT
    with pytest.raises(InputError, match="already quantised"):
        tiers(model, PrecisionPolicy.INT8, KvPrecision.AUTO, DType.FP16)


def test_a_model_gets_its_own_profile_and_others_borrow_the_nearest_in_size():
    assert profile_for(load_model(VICUNA), None).name == "medusa-vicuna-7b"
    assert profile_for(load_model("lmsys/vicuna-33b-v1.3"), None).name == "medusa-vicuna-33b"
    llama = load_model("meta-llama/Llama-2-13b-chat-hf")
    borrowed = profile_for(llama, None)
    assert borrowed.name == "medusa-vicuna-13b"
    assert acceptance_basis(borrowed, llama).startswith("borrowed")
    assert acceptance_basis(borrowed, load_model("lmsys/vicuna-13b-v1.3")).startswith("measured")
    assert profile_for(llama, "medusa-vicuna-33b").name == "medusa-vicuna-33b"


def test_more_heads_never_accept_less():
    proposals = medusa_proposals(
        profile_for(load_model(VICUNA), None), llama_spec(), DType.FP16, max_heads=5, max_nodes=11
    )
    tokens = [proposal.growth.at(11).tokens_per_step for proposal in proposals]
    assert len(tokens) == 5
    assert tokens == sorted(tokens)


def test_recurrent_targets_get_chains_only():
    """A state cannot hold two branches, so every tree offered is a chain."""
    mamba = load_model_with_state()
    profile = profile_for(mamba, None)
    for proposal in medusa_proposals(profile, mamba, DType.FP16, max_heads=5, max_nodes=64):
        assert all(point.num_leaves == 1 for point in proposal.growth.points)


def load_model_with_state():
    from specmemo_sim.inputs.model import StateCache

    model = llama_spec()
    layer = model.layers[0]
    state = StateCache(conv_elements=4, state_elements=16)
    return model.replace(layers=(layer.replace(caches=(state,)),))


def test_a_chain_accepts_the_geometric_sum():
    """Leviathan et al. 2023, eq. 1, at rate 0.7 and 4 tokens: 2.7731 tokens a step."""
    proposal = chain_proposal(
        chain_drafter(DrafterChoice.NGRAM, llama_spec(), None, None), 0.7, max_nodes=5
    )
    assert proposal.growth.at(5).tokens_per_step == pytest.approx(2.7731, abs=5e-5)


def test_a_draft_model_of_another_vocabulary_is_refused():
    with pytest.raises(InputError, match="vocabulary"):
        chain_drafter(
            DrafterChoice.DRAFT_MODEL, llama_spec(), None, load_model("openai-community/gpt2")
        )


def test_padded_vocabularies_of_one_tokenizer_are_accepted():
    small = load_model("Qwen/Qwen2.5-0.5B-Instruct")
    assert chain_drafter(
        DrafterChoice.DRAFT_MODEL, load_model("Qwen/Qwen2.5-7B-Instruct"), None, small
    ).model is small  # fmt: skip


def test_the_binding_part_is_named():
    """Weights when they alone are too much; the cache when the weights still fit."""
    heavy = explain(plan_search(request("meta-llama/Llama-2-70b-chat-hf", "nvidia-rtx-4090")))
    assert "weights alone" in heavy.constraint
    wide = request(VICUNA, "nvidia-rtx-4090", workload={"context": 60_000, "batch": 4})
    long = explain(plan_search(wide))
    assert "KV cache" in long.constraint
    kinds = {remedy.kind for remedy in long.remedies}
    assert {"context", "batch", "device"} <= kinds


def test_every_remedy_of_a_long_chat_really_fits():
    wide = request(VICUNA, "nvidia-rtx-4090", workload={"context": 60_000, "batch": 4})
    remedies = {remedy.kind: remedy.change for remedy in explain(plan_search(wide)).remedies}
    batch = int(remedies["batch"].split("--batch ")[1])
    context = int(remedies["context"].split("--context ")[1])
    for changes in ({"batch": batch}, {"context": context}):
        fitting = replace(wide, workload=wide.workload.replace(**changes))
        assert plan_search(fitting).status is SearchStatus.FITS
    one_more = replace(wide, workload=wide.workload.replace(context=context + 1))
    assert plan_search(one_more).status is SearchStatus.DOES_NOT_FIT


def test_the_default_tree_with_the_papers_buffers_is_the_reference():
    result = plan_search(request())
    assert result.reference.shape.num_nodes == 64
    assert result.reference.memory.verification_buffer_bytes >= 57_856_000
    assert result.best.memory.verification_buffer_bytes < 57_856_000 / 10
    assert result.best.tokens_per_s >= result.reference.tokens_per_s
