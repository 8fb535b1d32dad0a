"""``make_plan``: a ``Plan`` from what the search found."""

from specmemo_sim import __version__
from specmemo_sim.inputs.drafter import MtpLayers
from specmemo_sim.inputs.dtypes import DType
from specmemo_sim.inputs.quantization import parse_quantization
from specmemo_sim.latency.step import Estimate, Speed
from specmemo_sim.memory.breakdown import MemoryBreakdown
from specmemo_sim.memory.kv_cache import (
    CachePolicy,
    has_windows,
    kv_bytes,
    kv_bytes_per_token,
)
from specmemo_sim.memory.weights import weight_bytes
from specmemo_sim.planner.drafting import DrafterChoice
from specmemo_sim.planner.plan import (
    KvBudget,
    Plan,
    PlannedMemory,
    PlannedPart,
    PlannedSpeed,
    Precision,
    Span,
)
from specmemo_sim.planner.search import SearchResult, SearchStatus
from specmemo_sim.units import format_bytes

_NOT_MODELLED = (
    "CUDA graphs and compiled kernels' own buffers",
    "quality loss of a lower precision",
    "acceptance that changes with the text, the temperature or the quantisation of the target",
)


def make_plan(result: SearchResult) -> Plan:
    """The plan of the best candidate; when nothing fits, of the one that needs least memory."""
    best, request = result.best, result.request
    models = result.models
    budget = models.budget
    tree = best.tree()
    return Plan(
        specmemo_version=__version__,
        fits=result.status is SearchStatus.FITS,
        model=request.model,
        device=request.device,
        workload=request.workload,
        drafter=best.drafter,
        tree=tree.paths(),
        precision=Precision(
            weights=best.tier.weights,
            effective_bits_per_weight=models.weights.bits_per_weight,
            kv_cache=models.cache.dtype,
            draft_kv_cache=models.draft_cache.dtype,
            activations=result.compute_dtype,
        ),
        kv_budget=KvBudget(
            tokens=budget.tokens,
            tree_slots=tree.num_nodes if tree.num_nodes > 1 else 0,
            turns_held=budget.turns_held,
            truncated=budget.truncated,
            bytes_per_token=kv_bytes_per_token(request.model, models.cache),
            drop_outside_window=request.drop_outside_window,
            expand_latent=request.expand_latent,
        ),
        memory=_planned_memory(best.memory, result),
        speed=_planned_speed(result),
        not_modelled=_NOT_MODELLED,
        notes=_notes(result, budget.truncated),
    )


def speedup(best: Speed, plain: Speed) -> Estimate:
    """Speed-up of ``best`` over ``plain``, each end of the priors compared with itself."""
    ratios = sorted(
        getattr(best.tokens_per_s, end) / getattr(plain.tokens_per_s, end)
        for end in ("low", "typical", "high")
    )
    typical = best.tokens_per_s.typical / plain.tokens_per_s.typical
    return Estimate(ratios[0], typical, ratios[-1])


def _planned_memory(memory: MemoryBreakdown, result: SearchResult) -> PlannedMemory:
    return PlannedMemory(
        parts={
            part.key: PlannedPart(
                label=part.label,
                low_bytes=part.low_bytes,
                typical_bytes=part.typical_bytes,
                high_bytes=part.high_bytes,
                basis=part.basis,
                detail=part.detail,
            )
            for part in memory.parts
        },
        total_low_bytes=memory.low_bytes,
        total_typical_bytes=memory.typical_bytes,
        total_high_bytes=memory.high_bytes,
        usable_bytes=result.usable_bytes,
        margin_bytes=result.margin_bytes,
        buffer_model=result.request.buffers,
        verification_buffer_bytes=memory.verification_buffer_bytes,
        prefill_peak_bytes=memory.prefill_peak_bytes,
        verification_peak_bytes=memory.verification_peak_bytes,
    )


def _planned_speed(result: SearchResult) -> PlannedSpeed | None:
    best, plain, models = result.best, result.plain.speed, result.models
    if best.speed is None or plain is None or best.tokens_per_step is None:
        return None
    chunk = result.request.workload.prefill_chunk
    return PlannedSpeed(
        tokens_per_step=best.tokens_per_step,
        tokens_per_step_measured_ranks=result.tokens_from_measured_ranks(best),
        acceptance_basis=best.acceptance_basis,
        step_s=_span(best.speed.step_s),
        tokens_per_s=_span(best.speed.tokens_per_s),
        plain_tokens_per_s=_span(plain.tokens_per_s),
        speedup=_span(speedup(best.speed, plain)),
        prefill_s=_span(models.speed.prefill_s(models.budget.prompt_tokens, chunk)),
        compute_bound=best.speed.compute_bound,
        efficiency_class=models.speed.efficiency.device_class,
    )


def _span(estimate: Estimate) -> Span:
    return Span(low=estimate.low, typical=estimate.typical, high=estimate.high)


def _notes(result: SearchResult, truncated: bool) -> tuple[str, ...]:
    request, model = result.request, result.request.model
    notes = [*_precision_notes(result), *result.notes, *model.notes, *result.best.tier.format.notes]
    if truncated:
        limit = result.models.budget.limit_tokens
        notes.insert(0, f"the turns pass the context of {limit:,} tokens: the oldest are dropped")
    stated = request.workload.context
    if stated and model.max_position_embeddings and stated > model.max_position_embeddings:
        notes.insert(
            0,
            f"--context {stated:,} is more than the {model.max_position_embeddings:,} positions "
            "the model was made for",
        )
    if has_windows(model):
        notes += _window_note(result)
    if result.best.tier.kv_dtype is DType.FP8 and request.device.dense_rate(DType.FP8) is None:
        notes.append(
            f"{request.device.name} has no fp8 arithmetic: an fp8 KV cache needs kernels that "
            "convert it, at a cost that is not modelled"
        )
    notes += _format_notes(result)
    if model.tower_missing:
        notes.append(f"tower not counted: {model.tower_missing}")
    if model.mtp and not isinstance(result.best.drafter, MtpLayers):
        notes.append("the checkpoint's MTP layer is not loaded (--drafter mtp loads it)")
    notes += _checkpoint_note(result)
    return tuple(dict.fromkeys(notes))


def _format_notes(result: SearchResult) -> list[str]:
    """What a quantised checkpoint asks for that the device or the plan does not give."""
    device, used = result.request.device, result.best.tier.format
    notes = []
    if used.stores_floats and device.dense_rate(DType.FP8) is None:
        notes.append(
            f"{device.name} has no fp8 arithmetic: an engine without kernels for {used.method} "
            "weights expands them to 16 bits, up to twice or four times the bytes"
        )
    wanted = used.kv_cache_dtype
    if wanted is not None and wanted.bits < result.best.tier.kv_dtype.bits:
        notes.append(f"the checkpoint asks for an {wanted.value} KV cache: --kv-precision fp8")
    return notes


def _precision_notes(result: SearchResult) -> list[str]:
    """A word when precision was lowered to fit, or speculation left out for want of memory."""
    notes = []
    if result.lowered:
        notes.append(f"{result.best.tier.label}: nothing fits in a higher precision")
    wanted = result.request.drafter
    named = wanted not in (DrafterChoice.AUTO, DrafterChoice.NONE)
    if named and not result.best.speculative and result.left_out is None:
        notes.append(f"plain decoding is predicted faster than --drafter {wanted.value}")
    if result.left_out is not None and result.status is SearchStatus.FITS:
        needed = format_bytes(result.left_out.memory.high_bytes)
        kind = result.left_out.drafter.kind.replace("_", "-")
        notes.append(
            f"speculation would be faster but does not fit: {kind} with "
            f"{result.left_out.shape.num_nodes} nodes needs {needed}"
        )
    return notes


def _window_note(result: SearchResult) -> list[str]:
    """Both sizes of a cache with windows, since engines differ in what they keep."""
    request, dtype = result.request, result.best.tier.kv_dtype
    sizes = (
        kv_bytes(request.model, result.tokens, request.workload.batch, CachePolicy(dtype, drop))
        for drop in (False, True)
    )
    full, windowed = (format_bytes(size, 3) for size in sizes)
    if full == windowed:
        return []
    kept = "only their window" if request.drop_outside_window else "every token"
    return [
        f"sliding-window layers keep {kept} here; the KV cache is {full} with every token kept "
        f"and {windowed} with windows only (--kv-cache full or window)"
    ]


def _checkpoint_note(result: SearchResult) -> list[str]:
    """A word when the checkpoint's files hold clearly more or less than its own format says."""
    model = result.request.model
    if model.checkpoint_bytes is None:
        return []
    own = weight_bytes(model, parse_quantization(model.quantization))
    computed = own.total + own.mtp_bytes + own.tower_bytes
    if abs(model.checkpoint_bytes - computed) <= 0.01 * computed:
        return []
    return [
        f"the checkpoint's files hold {model.checkpoint_bytes:,} B, its configuration says "
        f"{computed:,} B: some tensors are not modelled, or stored in another type"
    ]
