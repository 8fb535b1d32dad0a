"""What stands in the way of a plan, and the smallest change of each kind that would help."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from specmemo_sim.errors import SpecMemoError
from specmemo_sim.inputs.catalog import load_devices, load_model_entry, model_ids
from specmemo_sim.inputs.device import DeviceSpec
from specmemo_sim.inputs.model import ModelSpec
from specmemo_sim.inputs.model_source import model_from_entry
from specmemo_sim.memory.breakdown import MemoryBreakdown
from specmemo_sim.planner.drafting import DrafterChoice
from specmemo_sim.planner.precision import KvPrecision, PrecisionPolicy
from specmemo_sim.planner.request import PlanRequest
from specmemo_sim.planner.search import SearchResult, SearchStatus, least_memory, plan_search
from specmemo_sim.units import format_bytes

_NUM_DEVICES = 3


@dataclass(frozen=True, slots=True)
class Remedy:
    """One change that would make the request fit."""

    kind: str
    """speculation, tree, turns, context, batch, precision, model, device or reserved."""
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
    """The first part that cannot fit with what must be there before it, as a sentence."""
    size = {part.key: part.high_bytes for part in memory.parts}
    fixed = size["device_context"] + size["allocator_slack"] + size["reserved"]
    if fixed > usable_bytes:
        others = ", allocator and other programs" if size["reserved"] else " and allocator"
        return f"device context{others} alone take {format_bytes(fixed)}"
    weights = size["target_weights"] + size["tower_weights"]
    others = ", allocator and other programs" if size["reserved"] else " and allocator"
    room = f"of the {format_bytes(usable_bytes - fixed)} beside context{others}"
    if fixed + weights > usable_bytes:
        return f"the weights alone take {format_bytes(weights)} {room} ({tier_label})"
    if fixed + weights + size["draft_weights"] > usable_bytes:
        both = f"{format_bytes(weights)} and {format_bytes(size['draft_weights'])}"
        return f"the weights of target and drafter take {both} {room} ({tier_label})"
    skipped = ("target_weights", "tower_weights", "draft_weights")
    rest = [part for part in memory.parts if part.key not in skipped]
    largest = max(rest, key=lambda part: part.high_bytes)
    where = f" ({largest.detail})" if largest.detail else ""
    return f"the {largest.label}{where} takes {format_bytes(largest.high_bytes)} beside the weights"


def fits(request: PlanRequest) -> bool:
    """Whether some allowed precision fits, with the drafter or tree the request insists on."""
    return least_memory(request).high_bytes <= request.device.usable_bytes


def most_turns(request: PlanRequest) -> int | None:
    """Largest number of turns that fits; None without turns, or if not even one fits."""
    turns = request.workload.turns
    if turns is None:
        return None
    return _largest(turns, lambda count: _with(request, turns=count))


def _remedies(request: PlanRequest) -> list[Remedy]:
    checks = (
        _without_speculation,
        _smaller_tree,
        _fewer_turns,
        _shorter_context,
        _smaller_batch,
        _lower_precision,
        _smaller_model,
        _next_devices,
        _less_reserved,
    )
    return [remedy for check in checks if (remedy := check(request)) is not None]


def _without_speculation(request: PlanRequest) -> Remedy | None:
    plain = replace(request, drafter=DrafterChoice.NONE, tree=None)
    if plain == request or not fits(plain):
        return None
    return Remedy("speculation", "no speculation: --drafter none, without --tree")


def _smaller_tree(request: PlanRequest) -> Remedy | None:
    if request.tree is None:
        return None
    result = plan_search(replace(request, tree=None))
    if result.status is not SearchStatus.FITS or not result.best.speculative:
        return None
    nodes = result.best.shape.num_nodes
    return Remedy("tree", f"a tree of {nodes} nodes: leave out --tree")


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
    # A prompt and an answer are a token each at least, and a stated prompt stays as it is.
    least = (workload.prompt_tokens or 1) + (workload.output_tokens or 1)
    most = _largest(workload.context, lambda tokens: _with(request, context=tokens), least)
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
    wider = replace(request, kv_precision=KvPrecision.AUTO)
    if request.model.quantization is None:
        wider = replace(wider, precision=PrecisionPolicy.AUTO)
    unchanged = (wider.kv_precision, wider.precision) == (request.kv_precision, request.precision)
    if unchanged or request.precision is PrecisionPolicy.ANY:
        return None
    result = plan_search(wider)
    if result.status is not SearchStatus.FITS:
        return None
    label = result.best.tier.label
    return Remedy("precision", f"{label}: leave --precision and --kv-precision at auto")


def _smaller_model(request: PlanRequest) -> Remedy | None:
    """The largest bundled model of the same family name that fits; a head is tied to its target."""
    if request.head is not None:
        return None
    best: ModelSpec | None = None
    for model_id in _relatives(request.model.name):
        try:
            model = model_from_entry(load_model_entry(model_id))
        except SpecMemoError:
            continue  # an entry whose facts are incomplete cannot be recommended
        smaller = model.num_parameters < request.model.num_parameters
        larger_than_best = best is None or model.num_parameters > best.num_parameters
        if smaller and larger_than_best and _fits_somehow(replace(request, model=model)):
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
    """The smallest catalogue devices with more usable memory on which the request fits."""
    found: list[DeviceSpec] = []
    for device in sorted(load_devices(), key=lambda entry: entry.usable_bytes):
        if len(found) == _NUM_DEVICES:
            break
        larger = device.usable_bytes > request.device.usable_bytes
        if larger and _fits_somehow(replace(request, device=device)):
            found.append(device)
    if not found:
        return None
    names = ", ".join(f"{d.id} ({format_bytes(d.usable_bytes)})" for d in found)
    return Remedy("device", f"a larger device: {names}")


def _less_reserved(request: PlanRequest) -> Remedy | None:
    least = least_memory(request).high_bytes - request.reserved_bytes
    left = request.device.usable_bytes - least
    if not 0 <= left < request.reserved_bytes:
        return None
    whole = left // 2**20
    return Remedy("reserved", f'other programs may hold less: --reserved "{whole} MiB"')


def _fits_somehow(request: PlanRequest) -> bool:
    """Whether a request for another model or device fits; one that cannot be planned does not."""
    try:
        return fits(request)
    except SpecMemoError:
        return False


def _largest(limit: int, changed: Callable[[int], PlanRequest], least: int = 1) -> int | None:
    """Largest number in [least, limit] whose request fits; memory never falls as it grows."""
    if least > limit or not fits(changed(least)):
        return None
    low, high = least, limit
    while low < high:
        middle = (low + high + 1) // 2
        if fits(changed(middle)):
            low = middle
        else:
            high = middle - 1
    return low


def _with(request: PlanRequest, **changes: int) -> PlanRequest:
    return replace(request, workload=request.workload.replace(**changes))
