"""What stands in the way of a plan, and the smallest change of each kind that would help."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from specmemo_sim.errors import SpecMemoError
from specmemo_sim.inputs.catalog import load_devices, load_model_entry, model_ids
from specmemo_sim.inputs.device import DeviceSpec
from specmemo_sim.inputs.drafter import NoDrafter
from specmemo_sim.inputs.model import ModelSpec
from specmemo_sim.inputs.model_source import model_from_entry
from specmemo_sim.memory.breakdown import PLAIN, MemoryBreakdown, MemoryModel, Setup
from specmemo_sim.memory.kv_cache import CachePolicy
from specmemo_sim.memory.weights import weight_bytes
from specmemo_sim.planner.drafting import DrafterChoice
from specmemo_sim.planner.precision import (
    KvPrecision,
    PrecisionPolicy,
    Tier,
    activation_dtype,
    tiers,
)
from specmemo_sim.planner.request import PlanRequest
from specmemo_sim.planner.search import SearchResult
from specmemo_sim.units import format_bytes

_NUM_DEVICES = 3


@dataclass(frozen=True, slots=True)
class Remedy:
    """One change that would make the request fit."""

    kind: str
    """turns, context, batch, precision, speculation, model or device."""
    change: str
    """What to change, ready to read."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why a request does not fit."""

    needed_bytes: int
    usable_bytes: int
    constraint: str
    """The binding part, as a sentence."""
    remedies: tuple[Remedy, ...]


def explain(result: SearchResult) -> Obstacle:
    """The obstacle of a search that found nothing, with remedies that were each checked to fit."""
    memory = result.best.memory
    return Obstacle(
        needed_bytes=memory.high_bytes,
        usable_bytes=result.usable_bytes,
        constraint=binding_constraint(memory, result.usable_bytes, result.best.tier.label),
        remedies=tuple(_remedies(result.request)),
    )


def binding_constraint(memory: MemoryBreakdown, usable_bytes: int, tier_label: str) -> str:
    """The part without which the rest would fit, or the first that alone passes what is usable."""
    fixed = sum(
        memory.part(key).high_bytes for key in ("device_context", "allocator_slack", "reserved")
    )
    weights = sum(
        memory.part(key).high_bytes for key in ("target_weights", "tower_weights", "draft_weights")
    )
    if fixed > usable_bytes:
        return f"context, allocator and other programs alone take {format_bytes(fixed)}"
    if fixed + weights > usable_bytes:
        return f"the weights alone take {format_bytes(weights)} ({tier_label})"
    parts = [part for part in memory.parts if part.key not in ("target_weights", "draft_weights")]
    largest = max(parts, key=lambda part: part.high_bytes)
    where = f" ({largest.detail})" if largest.detail else ""
    return f"the {largest.label}{where} takes {format_bytes(largest.high_bytes)} beside the weights"


def least_memory(request: PlanRequest) -> MemoryBreakdown:
    """The least memory any allowed precision needs without speculation.

    Raises:
        InputError: the device states no rate in any usable type.
    """
    dtype, _ = activation_dtype(request.model, request.device)
    allowed = tiers(request.model, request.precision, request.kv_precision, dtype)
    options = [_plain_memory(request, tier) for tier in allowed]
    return min(options, key=lambda memory: memory.high_bytes)


def fits(request: PlanRequest) -> bool:
    """Whether plain decoding fits in some allowed precision."""
    return least_memory(request).high_bytes <= request.device.usable_bytes


def most_turns(request: PlanRequest) -> int | None:
    """Largest number of turns that fits without speculation; None without turns or if none does."""
    turns = request.workload.turns
    if turns is None:
        return None
    return _largest(turns, lambda count: _with(request, turns=count))


def _plain_memory(request: PlanRequest, tier: Tier) -> MemoryBreakdown:
    dtype, _ = activation_dtype(request.model, request.device)
    weights = weight_bytes(request.model, tier.format)
    policy = CachePolicy(tier.kv_dtype, request.drop_outside_window, request.expand_latent)
    return MemoryModel(
        Setup(
            model=request.model,
            device=request.device,
            drafter=NoDrafter(),
            workload=request.workload,
            weight_bytes=weights.total,
            tower_bytes=weights.tower_bytes if request.with_tower else 0,
            activation_dtype=dtype,
            cache=policy,
            draft_cache=policy,
            buffers=request.buffers,
            reserved_bytes=request.reserved_bytes,
        )
    ).at(PLAIN)


def _remedies(request: PlanRequest) -> list[Remedy]:
    checks = (
        _without_speculation,
        _fewer_turns,
        _shorter_context,
        _smaller_batch,
        _lower_precision,
        _smaller_model,
        _next_devices,
    )
    return [remedy for check in checks if (remedy := check(request)) is not None]


def _without_speculation(request: PlanRequest) -> Remedy | None:
    forced = request.tree is not None or request.drafter not in (
        DrafterChoice.AUTO,
        DrafterChoice.NONE,
    )
    if forced and fits(request):
        return Remedy("speculation", "no speculation, or a smaller tree: drop --tree and --drafter")
    return None


def _fewer_turns(request: PlanRequest) -> Remedy | None:
    turns = request.workload.turns
    most = most_turns(request)
    if turns is None or most is None or most >= turns:
        return None
    return Remedy("turns", f"{most} turns instead of {turns}: --turns {most}")


def _shorter_context(request: PlanRequest) -> Remedy | None:
    workload = request.workload
    if workload.context is None or workload.turns is not None:
        return None
    most = _largest(workload.context, lambda tokens: _with(request, context=tokens))
    if most is None or most >= workload.context:
        return None
    return Remedy("context", f"{most:,} tokens of context: --context {most}")


def _smaller_batch(request: PlanRequest) -> Remedy | None:
    batch = request.workload.batch
    most = _largest(batch, lambda count: _with(request, batch=count))
    if most is None or most >= batch:
        return None
    return Remedy("batch", f"a batch of {most} instead of {batch}: --batch {most}")


def _lower_precision(request: PlanRequest) -> Remedy | None:
    if request.model.quantization is not None and request.kv_precision is KvPrecision.AUTO:
        return None
    wider = replace(request, kv_precision=KvPrecision.AUTO)
    if request.model.quantization is None:
        wider = replace(wider, precision=PrecisionPolicy.AUTO)
    dtype, _ = activation_dtype(request.model, request.device)
    for tier in tiers(wider.model, wider.precision, wider.kv_precision, dtype):
        if _plain_memory(wider, tier).high_bytes <= request.device.usable_bytes:
            return Remedy(
                "precision", f"{tier.label}: leave --precision and --kv-precision at auto"
            )
    return None


def _smaller_model(request: PlanRequest) -> Remedy | None:
    """The largest bundled model of the same family name that fits."""
    best: ModelSpec | None = None
    for model_id in _relatives(request.model.name):
        try:
            model = model_from_entry(load_model_entry(model_id))
        except SpecMemoError:
            continue  # an entry whose facts are incomplete cannot be recommended
        smaller = model.num_parameters < request.model.num_parameters
        larger_than_best = best is None or model.num_parameters > best.num_parameters
        if smaller and larger_than_best and fits(replace(request, model=model, tree=None)):
            best = model
    if best is None:
        return None
    return Remedy("model", f"a smaller model: {best.name} ({best.num_parameters / 1e9:.1f} B)")


def _relatives(name: str) -> list[str]:
    """Bundled models whose short name starts with the same word."""
    word = _family_word(name)
    return [entry for entry in model_ids() if word and _family_word(entry) == word]


def _family_word(name: str) -> str:
    match = re.match(r"[A-Za-z]+", name.split("/")[-1].removeprefix("Meta-"))
    return match.group().lower() if match else ""


def _next_devices(request: PlanRequest) -> Remedy | None:
    """The smallest catalogue devices on which the request fits."""
    found: list[DeviceSpec] = []
    for device in sorted(load_devices(), key=lambda entry: entry.usable_bytes):
        if len(found) == _NUM_DEVICES:
            break
        try:
            if fits(replace(request, device=device)):
                found.append(device)
        except SpecMemoError:
            continue  # no known arithmetic rate: nothing could be predicted there
    if not found:
        return None
    names = ", ".join(f"{d.id} ({format_bytes(d.usable_bytes)})" for d in found)
    return Remedy("device", f"a larger device: {names}")


def _largest(limit: int, changed: Callable[[int], PlanRequest]) -> int | None:
    """Largest number in [1, limit] whose request fits; memory never falls as it grows."""
    if not fits(changed(1)):
        return None
    low, high = 1, limit
    while low < high:
        middle = (low + high + 1) // 2
        if fits(changed(middle)):
            low = middle
        else:
            high = middle - 1
    return low


def _with(request: PlanRequest, **changes: int) -> PlanRequest:
    return replace(request, workload=request.workload.replace(**changes))
