"""A plan for people: verdict first, memory by part, tree and speed, what is not modelled."""

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from specmemo_sim.cli.output import bar, console
from specmemo_sim.planner.explain import Obstacle
from specmemo_sim.planner.plan import Plan, PlannedMemory, Span
from specmemo_sim.planner.report_data import alternative_rows, comparison_rows, summary
from specmemo_sim.planner.search import SearchResult
from specmemo_sim.units import format_bytes, format_count, format_seconds

_BAR_WIDTH = 18


def print_plan(result: SearchResult, plan: Plan) -> None:
    """Print the plan of a search that found one."""
    out = console()
    print_plan_body(out, plan, _headline(result, plan))
    _print_comparison(out, result)
    _print_alternatives(out, result)
    print_notes(out, plan)


def print_plan_body(out: Console, plan: Plan, headline: str) -> None:
    """Print verdict, memory, tree and speed of a plan."""
    out.print(headline)
    out.print(_memory_line(plan.memory, plan.device.usable_basis))
    out.print()
    out.print(_memory_table(plan))
    _print_tree(out, plan)


def print_obstacle(result: SearchResult, plan: Plan, obstacle: Obstacle) -> None:
    """Print why nothing fits, the least that was needed, and what would fit."""
    out = console()
    name = f"{escape(plan.model.name)} on {escape(plan.device.name)}"
    out.print(f"[bold red]DOES NOT FIT[/]  {name}")
    missing = obstacle.needed_bytes - obstacle.usable_bytes
    out.print(
        f"needs {format_bytes(obstacle.needed_bytes)} at least ({result.best.tier.label}), "
        f"{format_bytes(obstacle.usable_bytes)} usable: short by {format_bytes(missing)}"
    )
    out.print(f"binding: {escape(obstacle.constraint)}")
    out.print()
    out.print(_memory_table(plan))
    out.print("[bold]What would fit[/] (each change alone)")
    for remedy in obstacle.remedies:
        out.print(f"  {remedy.kind:<12} {escape(remedy.change)}")
    if not obstacle.remedies:
        out.print("  no single change of turns, batch, precision, model or device is enough")
    print_notes(out, plan)


def headline_of(plan: Plan) -> str:
    """The verdict of a plan file in one line."""
    name = f"{escape(plan.model.name)} on {escape(plan.device.name)}"
    verdict = "[bold green]FITS[/]" if plan.fits else "[bold red]DOES NOT FIT[/]"
    if plan.speed is None:
        return f"{verdict}  {name}: speed unknown ({escape('no acceptance data')})"
    speed = plan.speed
    how = (
        f"{speed.speedup.typical:.2f}× plain decoding"
        if plan.tree
        else "plain decoding, no tree is faster"
    )
    if plan.tree and speed.acceptance_basis.startswith("borrowed"):
        how += " if heads were trained for it"
    return f"{verdict}  {name}: {speed.tokens_per_s.typical:,.1f} tokens/s predicted, {how}"


def _headline(result: SearchResult, plan: Plan) -> str:
    line = headline_of(plan)
    most = summary(result)["most_turns"]
    turns = result.request.workload.turns
    if turns is not None and most is not None and plan.kv_budget.truncated:
        held = plan.kv_budget.turns_held
        line += f"\n{turns} turns asked, the context holds {held}: older turns are dropped"
    return line


def _memory_line(memory: PlannedMemory, usable_basis: str) -> str:
    low, high = format_bytes(memory.total_low_bytes), format_bytes(memory.total_high_bytes)
    margin = format_bytes(abs(memory.margin_bytes))
    state = f"margin {margin}" if memory.margin_bytes >= 0 else f"short by {margin}"
    return (
        f"needs {low} to {high} of {format_bytes(memory.usable_bytes)} usable "
        f"({escape(usable_basis)}): {state}"
    )


def _memory_table(plan: Plan) -> Table:
    memory = plan.memory
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True, min_width=20)
    table.add_column(justify="right", no_wrap=True, min_width=10)
    table.add_column(no_wrap=True, min_width=_BAR_WIDTH)
    table.add_column(overflow="fold")
    scale = max(memory.usable_bytes, memory.total_high_bytes, 1)
    for key, part in memory.parts.items():
        if not part.high_bytes:
            continue
        size = format_bytes(part.typical_bytes)
        table.add_row(
            part.label,
            size,
            bar(part.typical_bytes / scale, _BAR_WIDTH),
            f"[dim]{escape(_part_detail(key, part, plan))}[/]",
        )
    share = bar(memory.total_typical_bytes / scale, _BAR_WIDTH)
    percent = 100 * memory.total_typical_bytes / memory.usable_bytes
    total = format_bytes(memory.total_typical_bytes)
    table.add_row(
        "[bold]total[/]", f"[bold]{total}[/]", share, f"[dim]{percent:.0f} % of usable[/]"
    )
    return table


def _part_detail(key: str, part: Any, plan: Plan) -> str:
    if part.low_bytes != part.high_bytes:
        return f"estimate, {format_bytes(part.low_bytes)} to {format_bytes(part.high_bytes)}"
    details = {
        "target_weights": f"{format_count(plan.model.num_parameters)} parameters × "
        f"{plan.precision.effective_bits_per_weight:.2f} bits",
        "draft_weights": _drafter_words(plan),
        "kv_target": f"{part.detail} × {format_bytes(plan.kv_budget.bytes_per_token)}, "
        f"{plan.precision.kv_cache.value}",
        "activations": f"prefill {format_bytes(plan.memory.prefill_peak_bytes)}, "
        f"verify {format_bytes(plan.memory.verification_peak_bytes)}",
    }
    return (
        f"{part.basis.value}: {details.get(key) or part.detail or part.basis.value}".removesuffix(
            f": {part.basis.value}"
        )
    )


def _drafter_words(plan: Plan) -> str:
    drafter = plan.drafter
    if drafter.kind == "medusa":
        plural = "s" if drafter.num_heads > 1 else ""
        return f"{drafter.num_heads} Medusa head{plural}, {drafter.dtype.value}"
    if drafter.kind == "draft_model":
        return drafter.model.name
    return drafter.kind


def _print_tree(out: Console, plan: Plan) -> None:
    tree, speed = plan.token_tree(), plan.speed
    out.print()
    if plan.tree:
        levels = "-".join(str(count) for count in tree.nodes_per_level)
        out.print(
            f"[bold]Tree[/]   {tree.num_nodes} nodes (root included), {tree.num_leaves} leaves, "
            f"levels {levels}, {escape(_drafter_words(plan))}"
        )
    else:
        out.print("[bold]Tree[/]   none: plain decoding")
    if speed is None:
        out.print("[bold]Speed[/]  unknown: give --acceptance-rate to predict it")
        return
    out.print(
        f"[bold]Speed[/]  {speed.tokens_per_step:.3f} tokens/step "
        f"({escape(speed.acceptance_basis)})"
    )
    out.print(
        f"       {_span(speed.tokens_per_s)} tokens/s; plain {_span(speed.plain_tokens_per_s)}; "
        f"speed-up {_span(speed.speedup, 2)}"
    )
    bound = "arithmetic" if speed.compute_bound else "memory bandwidth"
    out.print(
        f"       step {format_seconds(speed.step_s.typical)}, bound by {bound}; "
        f"prefill {format_seconds(speed.prefill_s.typical)} "
        f"[dim](priors: {speed.efficiency_class})[/]"
    )


def _span(span: Span, digits: int = 1) -> str:
    return f"{span.typical:,.{digits}f} ({span.low:,.{digits}f} to {span.high:,.{digits}f})"


def _print_comparison(out: Console, result: SearchResult) -> None:
    rows = comparison_rows(result)
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("side by side")
    columns = ("nodes", "tokens/step", "buffers", "by Eq. 3", "total, high end", "tokens/s", "×")
    for name in columns:
        table.add_column(name, justify="right")
    for row in rows:
        fits = "" if row["fits"] else " [red]does not fit[/]"
        table.add_row(
            escape(row["name"]),
            str(row["num_nodes"]),
            _number(row["tokens_per_step"], 3),
            format_bytes(row["buffer_bytes"]),
            format_bytes(row["paper_eq3_bytes"]) if row["paper_eq3_bytes"] else "-",
            format_bytes(row["total_high_bytes"]) + fits,
            _number(row["tokens_per_s"], 1),
            _number(row["speedup"], 2),
        )
    out.print()
    out.print(table)


def _number(value: float | None, digits: int) -> str:
    return "?" if value is None else f"{value:,.{digits}f}"


def _print_alternatives(out: Console, result: SearchResult) -> None:
    words = [
        f"{row['precision']} {_number(row['tokens_per_s'], 1)} tokens/s, "
        f"{format_bytes(row['total_high_bytes'])}"
        for row in alternative_rows(result)
    ]
    if words:
        out.print()
        out.print("[dim]other precisions (--precision any lets them compete):[/]")
        for line in words:
            out.print(f"  {escape(line)}")


def print_notes(out: Console, plan: Plan) -> None:
    """Print the notes, then what the plan leaves out."""
    out.print()
    for note in plan.notes:
        out.print(Padding(f"[dim]note:[/] {escape(note)}", (0, 0, 0, 0)))
    out.print(f"[dim]not modelled: {escape('; '.join(plan.not_modelled))}[/]")
