"""``specmemo show``: a plan file, checked and printed."""

import click

from specmemo_sim.cli.output import JSON_OPTION, print_json, screen
from specmemo_sim.cli.plan_report import print_body, print_notes
from specmemo_sim.planner.plan import plan_document, read_plan


@click.command("show", epilog="Example: specmemo show plan.json")
@click.argument("plan_file")
@JSON_OPTION
def command(plan_file: str, as_json: bool) -> int:
    """Check PLAN_FILE (version, keys, sums, digest) and print it."""
    plan = read_plan(plan_file)
    if as_json:
        print_json(plan_document(plan))
        return 0
    with screen() as out:
        print_body(out, plan)
        print_notes(out, plan)
    return 0
