"""The planner: never above the budget, never below brute force, never hurt by more memory."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from specmemo_sim.acceptance.profile import load_profile
from specmemo_sim.inputs.device import with_memory
from specmemo_sim.inputs.drafter import MedusaHeads, NoDrafter, eagle_like
from specmemo_sim.inputs.dtypes import DType
from specmemo_sim.inputs.workload import Workload
from specmemo_sim.memory.breakdown import PLAIN
from specmemo_sim.memory.buffers import TreeShape
from specmemo_sim.planner.candidates import TierModels
from specmemo_sim.planner.drafting import DrafterChoice
from specmemo_sim.planner.explain import explain
from specmemo_sim.planner.make_plan import make_plan
from specmemo_sim.planner.precision import KvPrecision, PrecisionPolicy, tiers
from specmemo_sim.planner.request import PlanRequest
from specmemo_sim.planner.search import SearchStatus, least_memory, plan_search
from specmemo_sim.tree.optimize import best_first_sizes

from strategies import devices, models, workloads

PROFILE = "medusa-vicuna-7b"
MAX_NODES = 12
FEW = settings(max_examples=25, deadline=None)


@st.composite
def requests(draw):
    """Small requests on devices cut down to about what the model needs."""
    request = PlanRequest(
        model=draw(models()),
        device=draw(devices()),
        workload=draw(workloads()),
        profile=PROFILE,
        precision=draw(st.sampled_from(PrecisionPolicy)),
        kv_precision=draw(st.sampled_from(KvPrecision)),
        max_heads=draw(st.integers(1, 3)),
        max_nodes=draw(st.integers(2, MAX_NODES)),
        reserved_bytes=draw(st.integers(0, 2**20)),
    )
    need = plan_search(request).best.memory.high_bytes
    usable = max(2**20, round(need * draw(st.floats(0.97, 1.03))))
    return replace(request, device=with_memory(request.device, usable))


@FEW
@given(requests())
def test_what_is_called_fitting_stays_within_the_usable_memory(request):
    result = plan_search(request)
    if result.status is SearchStatus.FITS:
        assert result.best.memory.high_bytes <= request.device.usable_bytes
        assert all(c.memory.high_bytes <= result.usable_bytes for c in result.alternatives)
    else:
        assert result.best.memory.high_bytes > request.device.usable_bytes


@FEW
@given(requests())
def test_no_candidate_that_fits_is_faster_than_the_chosen_one(request):
    """Enumerates every allowed precision, head count and tree size with fresh models."""
    request = replace(request, precision=PrecisionPolicy.ANY)
    result = plan_search(request)
    fastest = 0.0
    table = load_profile(PROFILE).rank_probabilities(10)
    for tier in tiers(request.model, request.precision, request.kv_precision, DType.FP16):
        models_of_tier = TierModels(request, tier, DType.FP16)
        plain = models_of_tier.memory_model(NoDrafter()).at(PLAIN)
        if plain.high_bytes <= request.device.usable_bytes:
            fastest = max(fastest, models_of_tier.speed.plain().tokens_per_s.typical)
        for heads in range(1, request.max_heads + 1):
            drafter = MedusaHeads(num_heads=heads, dtype=DType.FP16)
            memory = models_of_tier.memory_model(drafter)
            growth = best_first_sizes(table[:heads], min(request.max_nodes, 11))
            for point in growth.points[1:]:
                shape = TreeShape(point.num_nodes, point.num_leaves, point.depth)
                if memory.at(shape).high_bytes > request.device.usable_bytes:
                    continue
                speed = models_of_tier.speed.at(
                    drafter, point.num_nodes, point.depth, point.tokens_per_step
                )
                fastest = max(fastest, speed.tokens_per_s.typical)
    found = result.best.tokens_per_s if result.status is SearchStatus.FITS else 0.0
    assert found >= fastest * (1 - 1e-12)


@FEW
@given(requests(), st.integers(0, 2**24))
def test_more_memory_never_makes_a_plan_slower(request, more):
    """Under ``any`` precision: the old plan still fits, so the new one is at least as fast."""
    request = replace(request, precision=PrecisionPolicy.ANY)
    before = plan_search(request)
    larger = with_memory(request.device, request.device.usable_bytes + more)
    after = plan_search(replace(request, device=larger))
    if before.status is SearchStatus.FITS:
        assert after.status is SearchStatus.FITS
        assert after.best.tokens_per_s >= before.best.tokens_per_s


@FEW
@given(requests())
def test_automatic_precision_is_lowered_only_when_nothing_fits_above(request):
    request = replace(request, precision=PrecisionPolicy.AUTO)
    result = plan_search(request)
    if result.status is SearchStatus.FITS and result.best.tier.weights.value != "16bit":
        higher = plan_search(replace(request, precision=PrecisionPolicy.SIXTEEN_BIT))
        assert higher.status is SearchStatus.DOES_NOT_FIT


@FEW
@given(requests())
def test_a_plan_file_says_what_the_search_found(request):
    result = plan_search(request)
    plan = make_plan(result)
    assert plan.fits == (result.status is SearchStatus.FITS)
    assert plan.token_tree().num_nodes == result.best.shape.num_nodes
    assert plan.memory.total_high_bytes == result.best.memory.high_bytes
    if plan.speed is not None:
        assert plan.speed.speedup.typical >= 1 or not plan.fits


@settings(max_examples=15, deadline=None)
@given(models(), devices(), st.integers(2, 60), st.sampled_from(DrafterChoice))
def test_the_turns_a_remedy_names_are_the_most_that_fit(model, device, turns, choice):
    """One byte less than the least that the chat needs: fewer turns fit, one turn more does not."""
    if choice in (DrafterChoice.MTP, DrafterChoice.DRAFT_MODEL, DrafterChoice.EAGLE3):
        choice = DrafterChoice.AUTO
    head = eagle_like(model, "eagle") if choice is DrafterChoice.EAGLE else None
    workload = Workload(turns=turns, prompt_tokens=400, output_tokens=400)
    request = PlanRequest(
        model=model, device=device, workload=workload, profile=PROFILE, drafter=choice, head=head
    )
    least = least_memory(request).high_bytes
    tight = replace(request, device=with_memory(device, least - 1))
    result = plan_search(tight)
    assert result.status is SearchStatus.DOES_NOT_FIT
    remedies = {remedy.kind: remedy.change for remedy in explain(result).remedies}
    most = int(remedies["turns"].split()[0])
    assert 1 <= most < turns
    fewer = replace(tight, workload=workload.replace(turns=most))
    assert plan_search(fewer).status is SearchStatus.FITS
    one_more = replace(tight, workload=workload.replace(turns=most + 1))
    assert plan_search(one_more).status is SearchStatus.DOES_NOT_FIT


@FEW
@given(requests())
def test_no_plan_is_below_the_least_memory_of_its_request(request):
    """``least_memory`` bounds every candidate from below, and decides whether anything fits."""
    result = plan_search(request)
    least = least_memory(request).high_bytes
    assert least <= result.best.memory.high_bytes
    assert (result.status is SearchStatus.FITS) == (least <= request.device.usable_bytes)
