"""``specmemo plan``: options in, a plan out."""

from pathlib import Path

import click

from specmemo_sim.cli.output import JSON_OPTION, print_json
from specmemo_sim.cli.plan_options import PlanOptions, plan_options
from specmemo_sim.cli.plan_report import print_obstacle, print_plan
from specmemo_sim.cli.plan_request import build_request
from specmemo_sim.planner.explain import explain
from specmemo_sim.planner.make_plan import make_plan
from specmemo_sim.planner.plan import plan_document, write_plan
from specmemo_sim.planner.report_data import (
    alternative_rows,
    comparison_rows,
    obstacle_document,
    summary,
)
from specmemo_sim.planner.search import SearchStatus, plan_search

_DOES_NOT_FIT = 3


@click.command(
    "plan",
    epilog="Example: specmemo plan lmsys/vicuna-7b-v1.3 --device nvidia-titan-rtx --turns 20 "
    "-o plan.json",
)
@click.argument("model")
@plan_options
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Write the plan file (nothing is written when it does not fit).",
)
@JSON_OPTION
def command(model: str, output: Path | None, as_json: bool, **options: object) -> int:
    """Find the fastest configuration of MODEL that fits a device.

    MODEL is a bundled id (see specmemo models), a config.json, a model folder, or a safetensors
    index beside its config.json.
    """
    request = build_request(model, PlanOptions(**options))  # type: ignore[arg-type]
    result = plan_search(request)
    plan = make_plan(result)
    if result.status is SearchStatus.DOES_NOT_FIT:
        obstacle = explain(result)
        if as_json:
            print_json(obstacle_document(result, plan, obstacle))
        else:
            print_obstacle(result, plan, obstacle)
        return _DOES_NOT_FIT
    if output is not None:
        write_plan(plan, output)
    if as_json:
        document = plan_document(plan)
        print_json(
            {
                **summary(result),
                "plan": document,
                "comparison": comparison_rows(result),
                "other_precisions": alternative_rows(result),
            }
        )
    else:
        print_plan(result, plan)
    if output is not None:
        click.echo(f"plan written to {output}", err=True)
    return 0
