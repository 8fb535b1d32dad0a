"""The figures of a search as plain data, the same for JSON and for the screen."""

from typing import Any

from specmemo_sim.memory.buffers import TreeShape, paper_buffer_bytes
from specmemo_sim.memory.kv_cache import CachePolicy, kv_bytes, kv_bytes_per_token
from specmemo_sim.planner.candidates import Candidate
from specmemo_sim.planner.explain import Obstacle
from specmemo_sim.planner.make_plan import speedup
from specmemo_sim.planner.plan import Plan, plan_document
from specmemo_sim.planner.search import SearchResult

_MAX_TURNS = 10**6


def summary(result: SearchResult) -> dict[str, Any]:
    """The verdict with the headline figures."""
    best, fits = result.best, result.margin_bytes >= 0
    return {
        "verdict": result.status.value,
        "fits": fits,
        "total_bytes": best.memory.typical_bytes,
        "total_high_bytes": best.memory.high_bytes,
        "usable_bytes": result.usable_bytes,
        "usable_basis": result.request.device.usable_basis,
        "margin_bytes": result.margin_bytes,
        "room_for_turns": room_for_turns(result),
        "tokens_per_s": best.speed.tokens_per_s.typical if best.speed and fits else None,
        "num_parameters": result.request.model.num_parameters,
        "kv_cache_bytes": _kv_both_ways(result),
        "num_evaluated": result.num_evaluated,
    }


def room_for_turns(result: SearchResult) -> int | None:
    """Most turns the chosen configuration has memory for.

    None without turns, when nothing fits, or when the context limit ends a chat before memory does.
    """
    workload, best = result.request.workload, result.best
    if workload.turns is None or result.margin_bytes < 0:
        return None

    def fits(turns: int) -> bool:
        longer = workload.replace(turns=turns)
        memory = result.models.memory_model(best.drafter, workload=longer).at(best.shape)
        return memory.high_bytes <= result.usable_bytes

    low, high = workload.turns, _MAX_TURNS
    if fits(high):
        return None
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _kv_both_ways(result: SearchResult) -> dict[str, int]:
    """KV bytes of the target for every way an engine may keep it."""
    request, dtype = result.request, result.best.tier.kv_dtype
    tokens = result.tokens
    ways = {
        "full": CachePolicy(dtype, expand_latent=request.expand_latent),
        "windowed": CachePolicy(
            dtype, drop_outside_window=True, expand_latent=request.expand_latent
        ),
        "latent_expanded": CachePolicy(dtype, expand_latent=True),
    }
    sizes = {
        name: kv_bytes(request.model, tokens, request.workload.batch, policy)
        for name, policy in ways.items()
    }
    return {"per_token": kv_bytes_per_token(request.model, ways["full"]), **sizes}


def comparison_rows(result: SearchResult) -> list[dict[str, Any]]:
    """Plain decoding, Medusa's default tree as the paper runs it, and the plan, side by side."""
    rows = [_row("plain decoding", result.plain, result)]
    if result.reference is not None:
        rows.append(_row("Medusa default tree, paper buffers", result.reference, result))
    rows.append(_row("this plan", result.best, result))
    return rows


def alternative_rows(result: SearchResult) -> list[dict[str, Any]]:
    """The best of the other precisions."""
    return [_row(candidate.tier.label, candidate, result) for candidate in result.alternatives]


def _row(name: str, candidate: Candidate, result: SearchResult) -> dict[str, Any]:
    shape, plain = candidate.shape, result.plain.speed
    gain = speedup(candidate.speed, plain).typical if candidate.speed and plain else None
    return {
        "name": name,
        "precision": candidate.tier.label,
        "drafter": candidate.drafter.kind,
        "num_nodes": shape.num_nodes,
        "num_leaves": shape.num_leaves,
        "depth": shape.depth,
        "tokens_per_step": candidate.tokens_per_step,
        "tokens_per_step_measured_ranks": result.tokens_from_measured_ranks(candidate),
        "buffer_bytes": candidate.memory.verification_buffer_bytes,
        "paper_eq3_bytes": _paper_bytes(shape, result),
        "total_bytes": candidate.memory.typical_bytes,
        "total_high_bytes": candidate.memory.high_bytes,
        "fits": candidate.memory.high_bytes <= result.usable_bytes,
        "tokens_per_s": candidate.tokens_per_s if candidate.speed else None,
        "speedup": gain,
    }


def _paper_bytes(shape: TreeShape, result: SearchResult) -> int:
    """Buffers by Eq. 3 for this shape; 0 without a tree."""
    if shape.num_nodes == 1:
        return 0
    element_bytes = result.compute_dtype.bits // 8
    request = result.request
    return paper_buffer_bytes(
        shape, request.model.vocab_size, element_bytes, request.workload.batch
    )


def obstacle_document(result: SearchResult, plan: Plan, obstacle: Obstacle) -> dict[str, Any]:
    """What does not fit and what would, as JSON."""
    return {
        **summary(result),
        "needed_bytes": obstacle.needed_bytes,
        "binding_constraint": obstacle.constraint,
        "remedies": [{"kind": r.kind, "change": r.change} for r in obstacle.remedies],
        "smallest": plan_document(plan),
    }
