"""The memory of a plan as a table with bars: one line a part."""

from rich.table import Table

from specmemo_sim.cli.output import NARROW, bar, plain, times_sign
from specmemo_sim.planner.plan import Plan, PlannedPart
from specmemo_sim.units import format_bytes, format_count

_BAR_WIDTH = 18
_NARROW_BAR = 8


def memory_table(plan: Plan, width: int) -> Table:
    """A line per part with size, bar and where the number comes from; the total at the end."""
    memory, bar_width = plan.memory, _BAR_WIDTH if width >= NARROW else _NARROW_BAR
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True, min_width=20)
    table.add_column(justify="right", no_wrap=True, min_width=10)
    table.add_column(no_wrap=True, min_width=bar_width)
    table.add_column(overflow="fold")
    scale = max(memory.usable_bytes, memory.total_high_bytes, 1)
    for key, part in memory.parts.items():
        if part.high_bytes:
            table.add_row(
                plain(part.label),
                format_bytes(part.typical_bytes),
                bar(part.typical_bytes / scale, bar_width),
                f"[dim]{plain(_basis(key, part, plan))}[/]",
            )
    total = memory.total_typical_bytes
    table.add_row(
        "[bold]total[/]",
        f"[bold]{format_bytes(total)}[/]",
        bar(total / scale, bar_width),
        f"[dim]{100 * total / memory.usable_bytes:,.0f} % of usable[/]",
    )
    return table


def _basis(key: str, part: PlannedPart, plan: Plan) -> str:
    """Where the number comes from: exact with its factors, computed, or an interval."""
    if part.low_bytes != part.high_bytes:
        return f"estimate, {format_bytes(part.low_bytes)} to {format_bytes(part.high_bytes)}"
    words = _factors(key, part, plan) or part.detail
    return f"{part.basis.value}: {words}" if words else part.basis.value


def _factors(key: str, part: PlannedPart, plan: Plan) -> str:
    sign = times_sign()
    if key == "target_weights":
        bits = plan.precision.effective_bits_per_weight
        upper = f"; {part.detail}" if part.detail else ""
        return f"{format_count(plan.model.num_parameters)} parameters {sign} {bits:.2f} bits{upper}"
    if key == "draft_weights":
        return drafter_words(plan)
    if key == "kv_target":
        return _kv_factors(part, plan)
    if key == "activations":
        prefill = format_bytes(plan.memory.prefill_peak_bytes)
        return f"prefill {prefill}, verify {format_bytes(plan.memory.verification_peak_bytes)}"
    return ""


def drafter_words(plan: Plan) -> str:
    """The drafter in a few words."""
    drafter = plan.drafter
    if drafter.kind == "medusa":
        plural = "s" if drafter.num_heads > 1 else ""
        return f"{drafter.num_heads} Medusa head{plural}, {drafter.dtype.value}"
    if drafter.kind == "draft_model":
        return drafter.model.name
    names = {"none": "none", "ngram": "n-gram look-up", "mtp": "MTP layer"}
    return names.get(drafter.kind) or f"{drafter.kind.upper()} head"


def _kv_factors(part: PlannedPart, plan: Plan) -> str:
    """Batch, tokens and bytes a token; what the product leaves out is named."""
    sign, budget, batch = times_sign(), plan.kv_budget, plan.workload.batch
    dtype = plan.precision.kv_cache.value
    product = batch * budget.tokens * budget.bytes_per_token
    sequences = f"{batch} {sign} " if batch > 1 else ""
    words = f"{sequences}{budget.tokens:,} tokens {sign} {format_bytes(budget.bytes_per_token)}"
    if part.high_bytes < product:
        words += ", windows only"
    elif part.high_bytes > product:
        words += f" + {format_bytes(part.high_bytes - product)} of states"
    return f"{words}, {dtype}"
