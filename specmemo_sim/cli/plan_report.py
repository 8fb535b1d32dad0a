"""A plan for people: verdict first, memory by part, tree and speed, what is not modelled."""

from typing import Any

from rich.console import Console
from rich.table import Table

from specmemo_sim.cli.memory_table import drafter_words, memory_table
from specmemo_sim.cli.output import NARROW, plain, screen, times_sign
from specmemo_sim.inputs.workload import turn_tokens
from specmemo_sim.planner.explain import Obstacle
from specmemo_sim.planner.plan import Plan, PlannedMemory, PlannedSpeed, Span
from specmemo_sim.planner.report_data import alternative_rows, comparison_rows, room_for_turns
from specmemo_sim.planner.search import SearchResult
from specmemo_sim.units import format_bytes, format_seconds


def print_plan(result: SearchResult, plan: Plan) -> None:
    """Print the plan of a search that found one."""
    with screen() as out:
        print_body(out, plan)
        _print_comparison(out, result)
        _print_alternatives(out, result)
        print_notes(out, plan)


def print_obstacle(result: SearchResult, plan: Plan, obstacle: Obstacle) -> None:
    """Print why nothing fits, the least that was needed, and what would fit."""
    with screen() as out:
        out.print(_verdict(plan))
        missing = obstacle.needed_bytes - obstacle.usable_bytes
        rows = [
            (
                "needs",
                f"{format_bytes(obstacle.needed_bytes)} at least ({result.best.tier.label}), "
                f"{format_bytes(obstacle.usable_bytes)} usable: short by {format_bytes(missing)}",
            ),
            ("binding", obstacle.constraint),
            ("workload", _workload(plan)),
        ]
        _print_pairs(out, rows)
        out.print()
        out.print(memory_table(plan, out.width))
        out.print("\n[bold]What would fit[/] (each change alone)")
        _print_pairs(out, [(f"  {r.kind}", r.change) for r in obstacle.remedies])
        if not obstacle.remedies:
            out.print("  no single change of workload, precision, model or device is enough")
        print_notes(out, plan)


def print_body(out: Console, plan: Plan) -> None:
    """Print verdict, memory, tree and speed of a plan."""
    out.print(f"{_verdict(plan)}: {plain(_speed_words(plan))}")
    _print_pairs(
        out,
        [
            ("needs", _memory_words(plan.memory, plan.device.usable_basis)),
            ("workload", _workload(plan)),
        ],
    )
    out.print()
    out.print(memory_table(plan, out.width))
    out.print()
    _print_pairs(out, [("[bold]Tree[/]", _tree_words(plan)), *_speed_rows(plan)])


def print_notes(out: Console, plan: Plan) -> None:
    """Print the notes, then what the plan leaves out."""
    out.print()
    rows = [("[dim]note[/]", note) for note in plan.notes]
    _print_pairs(out, [*rows, ("[dim]not modelled[/]", "; ".join(plan.not_modelled))])


def _verdict(plan: Plan) -> str:
    verdict = "[bold green]FITS[/]" if plan.fits else "[bold red]DOES NOT FIT[/]"
    return f"{verdict}  {plain(plan.model.name)} on {plain(plan.device.name)}"


def _speed_words(plan: Plan) -> str:
    precision = plan.precision
    lowered = [
        f"{precision.weights.value} weights"
        if precision.weights.value in ("int8", "int4", "fp32")
        else "",
        f"{precision.kv_cache.value} KV" if precision.kv_cache.bits < 16 else "",
    ]
    how = " and ".join(words for words in lowered if words)
    how = f", with {how}" if how else ""
    if plan.speed is None:
        return f"speed unknown, no acceptance data{how}"
    speed, batch = plan.speed, plan.workload.batch
    total = f" over {batch} sequences" if batch > 1 else ""
    words = f"{speed.tokens_per_s.typical:,.1f} tokens/s predicted{total}"
    if not plan.tree:
        return f"{words}, plain decoding{how}"
    words += f", {speed.speedup.typical:.2f}{times_sign()} plain decoding"
    if speed.acceptance_basis.startswith("borrowed"):
        words += " if heads were trained for it"
    return words + how


def _memory_words(memory: PlannedMemory, usable_basis: str) -> str:
    low, high = format_bytes(memory.total_low_bytes), format_bytes(memory.total_high_bytes)
    margin = format_bytes(abs(memory.margin_bytes))
    state = f"margin {margin}" if memory.margin_bytes >= 0 else f"short by {margin}"
    usable = format_bytes(memory.usable_bytes)
    return f"{low} to {high} of {usable} usable ({usable_basis}): {state}"


def _workload(plan: Plan) -> str:
    workload, budget = plan.workload, plan.kv_budget
    prompt, output = turn_tokens(workload, plan.model.max_position_embeddings)
    batch = f", {workload.batch} sequences at once" if workload.batch > 1 else ""
    if workload.turns is None and workload.context is not None:
        return f"a context of {workload.context:,} tokens, {output:,} of them generated{batch}"
    turns = workload.turns or 1
    words = f"{turns:,} turn{'s' if turns > 1 else ''} of {prompt:,} + {output:,} tokens{batch}"
    if budget.truncated:
        words += f"; the context holds {budget.turns_held}, older turns are dropped"
    return words


def _tree_words(plan: Plan) -> str:
    if not plan.tree:
        return "none: plain decoding"
    tree = plan.token_tree()
    levels = "-".join(str(count) for count in tree.nodes_per_level)
    leaves = f"{tree.num_leaves} {'leaf' if tree.num_leaves == 1 else 'leaves'}"
    return (
        f"{tree.num_nodes} nodes (root included), {leaves}, levels {levels}, {drafter_words(plan)}"
    )


def _speed_rows(plan: Plan) -> list[tuple[str, str]]:
    speed = plan.speed
    if speed is None:
        return [("[bold]Speed[/]", "unknown: give --acceptance-rate to predict it")]
    bound = "arithmetic" if speed.compute_bound else "memory bandwidth"
    return [
        ("[bold]Speed[/]", f"{_tokens(speed)} ({speed.acceptance_basis})"),
        (
            "",
            f"{_span(speed.tokens_per_s)} tokens/s; plain {_span(speed.plain_tokens_per_s)}; "
            f"speed-up {_span(speed.speedup, 2)}",
        ),
        ("", f"step {_duration(speed.step_s)}, bound by {bound}"),
        ("", f"prefill {_duration(speed.prefill_s)}; priors of class {speed.efficiency_class}"),
    ]


def _tokens(speed: PlannedSpeed) -> str:
    measured = speed.tokens_per_step_measured_ranks
    lower = "" if measured is None else f", {measured:.3f} from measured ranks alone"
    return f"{speed.tokens_per_step:.3f} tokens/step{lower}"


def _span(span: Span, digits: int = 1) -> str:
    return f"{span.typical:,.{digits}f} ({span.low:,.{digits}f} to {span.high:,.{digits}f})"


def _duration(span: Span) -> str:
    low, high = format_seconds(span.low), format_seconds(span.high)
    return f"{format_seconds(span.typical)} ({low} to {high})"


def _print_pairs(out: Console, rows: list[tuple[str, str]]) -> None:
    """Print labels with text that wraps beside them; labels are markup, texts are not."""
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for label, text in rows:
        table.add_row(label, plain(text))
    out.print(table)


def _print_comparison(out: Console, result: SearchResult) -> None:
    rows = comparison_rows(result)
    out.print()
    if out.width < NARROW:
        # A table would cut names or numbers: one paragraph a row instead.
        _print_pairs(out, [("[dim]side by side[/]", "")])
        for row in rows:
            out.print(f"[bold]{plain(row['name'])}[/]")
            cells = dict(zip(_columns(), _cells(row), strict=True))
            words = ", ".join(f"{name} {value}" for name, value in cells.items())
            _print_pairs(out, [(" ", words)])
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("side by side")
    for name in _columns():
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(plain(row["name"]), *_cells(row))
    out.print(table)


def _columns() -> tuple[str, ...]:
    return (
        "nodes", "tok/step", "buffers", "by Eq. 3", "total high", "tokens/s", times_sign(), "fits"
    )  # fmt: skip


def _cells(row: dict[str, Any]) -> list[str]:
    return [
        str(row["num_nodes"]),
        _number(row["tokens_per_step"], 3),
        format_bytes(row["buffer_bytes"]),
        format_bytes(row["paper_eq3_bytes"]) if row["paper_eq3_bytes"] else "-",
        format_bytes(row["total_high_bytes"]),
        _number(row["tokens_per_s"], 1),
        _number(row["speedup"], 2),
        "yes" if row["fits"] else "no",
    ]


def _number(value: float | None, digits: int) -> str:
    return "?" if value is None else f"{value:,.{digits}f}"


def _print_alternatives(out: Console, result: SearchResult) -> None:
    room = room_for_turns(result)
    rows = [("[dim]room[/]", f"{room:,} turns of this size fit with this plan")] if room else []
    for row in alternative_rows(result):
        speed = _number(row["tokens_per_s"], 1)
        size = format_bytes(row["total_high_bytes"])
        rows.append(("[dim]else[/]", f"{row['precision']}: {speed} tokens/s, {size}"))
    if rows:
        out.print()
        _print_pairs(out, rows)
