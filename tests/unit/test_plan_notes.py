"""What a plan says beside its numbers: lowered precision, dropped turns, windows, checkpoints."""

import pytest

from specmemo_sim.inputs.catalog import load_device
from specmemo_sim.inputs.device import with_memory
from specmemo_sim.inputs.drafter import MtpLayers, eagle_like
from specmemo_sim.inputs.dtypes import DType
from specmemo_sim.inputs.model_source import load_model
from specmemo_sim.inputs.workload import Workload
from specmemo_sim.planner.drafting import DrafterChoice
from specmemo_sim.planner.explain import explain
from specmemo_sim.planner.make_plan import make_plan
from specmemo_sim.planner.precision import KvPrecision, PrecisionPolicy
from specmemo_sim.planner.report_data import room_for_turns
from specmemo_sim.planner.request import PlanRequest
from specmemo_sim.planner.search import SearchStatus, plan_search

from model_inventories import llama_spec

GIB = 2**30


def plan_of(model, device="nvidia-titan-rtx", memory=None, workload=None, **fields):
    device = load_device(device)
    if memory is not None:
        device = with_memory(device, memory)
    model = load_model(model) if isinstance(model, str) else model
    request = PlanRequest(
        model=model, device=device, workload=workload or Workload(turns=2), **fields
    )
    return plan_search(request)


def notes(result):
    return " | ".join(make_plan(result).notes)


def test_lowered_weights_are_said():
    result = plan_of("lmsys/vicuna-7b-v1.3", memory=8 * GIB)
    assert result.lowered
    assert "nothing fits in a higher precision" in notes(result)


def test_an_fp8_cache_on_a_device_without_fp8_is_said():
    result = plan_of(
        "lmsys/vicuna-7b-v1.3",
        workload=Workload(context=30_000),
        kv_precision=KvPrecision.FP8,
        precision=PrecisionPolicy.SIXTEEN_BIT,
    )
    assert "has no fp8 arithmetic" in notes(result)
    hopper = plan_of("lmsys/vicuna-7b-v1.3", "nvidia-h100-sxm", kv_precision=KvPrecision.FP8)
    assert "fp8 arithmetic" not in notes(hopper)


def test_dropped_turns_and_a_stretched_context_are_said():
    assert "the oldest are dropped" in notes(
        plan_of("lmsys/vicuna-7b-v1.3", workload=Workload(turns=20))
    )
    assert "positions the model was made for" in notes(
        plan_of("lmsys/vicuna-7b-v1.3", workload=Workload(context=4096))
    )


def test_both_sizes_of_a_windowed_cache_are_said():
    result = plan_of("google/gemma-2-9b", "nvidia-h100-sxm", workload=Workload(context=8192))
    assert "2.625 GiB" in notes(result)
    assert "1.969 GiB" in notes(result)
    small = plan_of("google/gemma-2-9b", "nvidia-h100-sxm", workload=Workload(context=512))
    assert "windows only" not in notes(small)


def test_speculation_that_does_not_fit_is_said():
    """Plain decoding fits with a byte to spare, so every drafter is left out for want of memory."""
    plain = plan_of("lmsys/vicuna-7b-v1.3", drafter=DrafterChoice.NONE)
    tight = plan_of(
        "lmsys/vicuna-7b-v1.3",
        memory=plain.best.memory.high_bytes,
        precision=PrecisionPolicy.SIXTEEN_BIT,
        kv_precision=KvPrecision.SIXTEEN_BIT,
    )
    assert tight.status is SearchStatus.FITS
    assert not tight.best.speculative
    assert "speculation would be faster but does not fit" in notes(tight)


def test_a_checkpoint_of_another_size_is_said_and_a_matching_one_is_not():
    model = load_model("lmsys/vicuna-7b-v1.3")
    right = model.replace(checkpoint_bytes=13_476_831_232)
    assert "checkpoint's files" not in notes(plan_of(right))
    assert "checkpoint's files" not in notes(plan_of(right, precision=PrecisionPolicy.INT8))
    assert "checkpoint's files" in notes(plan_of(model.replace(checkpoint_bytes=9 * GIB)))


def test_an_mtp_layer_that_is_not_loaded_is_said():
    model = llama_spec(layers=2)
    with_mtp = model.replace(mtp=(model.layers[0],))
    assert "MTP layer is not loaded" in notes(plan_of(with_mtp))
    loaded = plan_of(with_mtp, drafter=DrafterChoice.MTP, acceptance_rate=0.9)
    assert isinstance(loaded.best.drafter, MtpLayers)
    assert "MTP layer is not loaded" not in notes(loaded)


def test_a_missing_tower_and_a_slow_type_are_said():
    model = llama_spec(layers=2).replace(tower_missing="unknown type of vision model")
    assert "tower not counted" in notes(plan_of(model))
    assert "computes in fp16" in notes(plan_of("meta-llama/Llama-3.1-8B-Instruct"))


def test_the_room_for_turns_ends_where_memory_does():
    """The last turn that is said to fit does, and one more does not."""
    model = llama_spec()  # states no positions, so memory is the only limit
    result = plan_of(model, workload=Workload(turns=2))
    room = room_for_turns(result)
    for turns, fits in ((room, True), (room + 1, False)):
        longer = result.request.workload.replace(turns=turns)
        memory = result.models.memory_model(result.best.drafter, workload=longer)
        assert (memory.at(result.best.shape).high_bytes <= result.usable_bytes) == fits


def test_no_room_is_named_where_the_context_ends_first():
    assert room_for_turns(plan_of("lmsys/vicuna-7b-v1.3")) is None


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"drafter": DrafterChoice.MEDUSA, "reserved_bytes": 20 * GIB}, "reserved"),
        ({"precision": PrecisionPolicy.SIXTEEN_BIT, "memory": 9 * GIB}, "precision"),
        ({"memory": 3 * GIB, "workload": Workload(turns=2, batch=64)}, "device"),
        ({"workload": Workload(turns=2, batch=4096)}, "batch"),
    ],
)
def test_each_kind_of_remedy_is_offered_where_it_helps(fields, kind):
    result = plan_of("lmsys/vicuna-7b-v1.3", **fields)
    assert result.status is SearchStatus.DOES_NOT_FIT
    assert kind in {remedy.kind for remedy in explain(result).remedies}


def test_a_given_tree_that_is_too_large_can_be_left_out():
    from specmemo_sim.tree.tree_file import load_tree

    roomy = plan_of("lmsys/vicuna-7b-v1.3", precision=PrecisionPolicy.INT4)
    result = plan_of(
        "lmsys/vicuna-7b-v1.3",
        memory=roomy.best.memory.high_bytes,
        precision=PrecisionPolicy.INT4,
        kv_precision=KvPrecision.SIXTEEN_BIT,
        tree=load_tree("mc_sim_7b_63"),
    )
    kinds = {remedy.kind for remedy in explain(result).remedies}
    assert {"speculation", "tree"} <= kinds


def test_remedies_never_name_the_device_that_failed_or_a_smaller_one():
    result = plan_of("meta-llama/Llama-2-70b-chat-hf", "nvidia-rtx-4090")
    (remedy,) = [r for r in explain(result).remedies if r.kind == "device"]
    named = [word for word in remedy.change.replace("(", " ").split() if "-" in word]
    assert named
    for device_id in named:
        assert load_device(device_id).usable_bytes > result.usable_bytes


def test_the_reserved_remedy_fits_when_it_is_followed():
    """The size it names fits, to the MiB that it is written in."""
    result = plan_of("lmsys/vicuna-7b-v1.3", reserved_bytes=20 * GIB)
    (remedy,) = [r for r in explain(result).remedies if r.kind == "reserved"]
    mebibytes = int(remedy.change.split('"')[1].removesuffix(" MiB"))
    fitting = plan_of("lmsys/vicuna-7b-v1.3", reserved_bytes=mebibytes * 2**20)
    assert fitting.status is SearchStatus.FITS
    more = plan_of("lmsys/vicuna-7b-v1.3", reserved_bytes=(mebibytes + 1) * 2**20)
    assert more.status is SearchStatus.DOES_NOT_FIT


def test_no_other_model_is_named_for_a_head_that_is_tied_to_its_target():
    model = load_model("lmsys/vicuna-13b-v1.3")
    result = plan_of(
        model,
        precision=PrecisionPolicy.SIXTEEN_BIT,
        drafter=DrafterChoice.EAGLE,
        head=eagle_like(model, "eagle"),
        acceptance_rate=0.7,
    )
    assert "model" not in {remedy.kind for remedy in explain(result).remedies}


def test_other_programs_are_named_when_they_take_the_room():
    result = plan_of(
        "lmsys/vicuna-7b-v1.3", reserved_bytes=15 * GIB, precision=PrecisionPolicy.SIXTEEN_BIT
    )
    assert "other programs" in explain(result).constraint
    alone = plan_of("meta-llama/Llama-2-70b-chat-hf")
    assert "other programs" not in explain(alone).constraint


def test_an_fp8_checkpoint_on_a_device_without_fp8_is_said():
    """Counted at about 8 bits a weight, and the device's lack of kernels is named."""
    fp8 = load_model("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic")
    old = plan_of(fp8, "amd-mi250-card")
    assert "no fp8 arithmetic" in notes(old)
    assert old.models.weights.bits_per_weight == pytest.approx(8.4, abs=0.3)
    assert "no fp8 arithmetic" not in notes(plan_of(fp8, "nvidia-h200-sxm"))


def test_a_bundled_model_with_a_tower_says_that_it_is_not_counted():
    assert "vision tower" in load_model("google/gemma-3-4b-it").tower_missing
    assert load_model("google/gemma-3-1b-it").tower_missing == ""


def test_an_fp32_checkpoint_says_that_it_is_cast():
    assert "cast to fp16" in notes(plan_of(llama_spec(dtype=DType.FP32, layers=2)))


@pytest.mark.parametrize(("kind", "said"), [("int", False), ("float", True)])
def test_only_floats_in_low_bits_need_fp8_arithmetic(kind, said):
    """A compressed-tensors checkpoint in int8 runs on an A100 as it is, one in fp8 does not."""
    weights = {"num_bits": 8, "type": kind, "strategy": "channel", "symmetric": True}
    groups = {"group_0": {"targets": ["Linear"], "weights": weights}}
    settings = {
        "quant_method": "compressed-tensors",
        "format": f"{kind}-quantized",
        "config_groups": groups,
        "ignore": ["lm_head"],
    }
    result = plan_of(llama_spec(quantization=settings), "nvidia-a100-sxm-80gb")
    assert ("no fp8 arithmetic" in notes(result)) == said


def test_a_named_drafter_that_loses_to_plain_decoding_is_said():
    result = plan_of(
        "meta-llama/Llama-3.1-8B-Instruct",
        "nvidia-h100-sxm",
        drafter=DrafterChoice.DRAFT_MODEL,
        draft_model=load_model("meta-llama/Llama-3.2-3B"),
        acceptance_rate=0.05,
    )
    assert not result.best.speculative
    assert "faster than --drafter draft-model" in notes(result)


def test_the_listed_precisions_all_fit_and_differ_from_the_chosen_one():
    result = plan_of("lmsys/vicuna-7b-v1.3")
    names = {candidate.tier.weights.value for candidate in result.alternatives}
    assert names == {"int8", "int4"}
    assert all(c.memory.high_bytes <= result.usable_bytes for c in result.alternatives)
