"""First plan: one model on one device, as the turns of a chat grow. Run: marimo edit or python."""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium")


@app.cell
def _():
    import marimo as mo

    from specmemo_sim.inputs.catalog import load_device
    from specmemo_sim.inputs.model_source import load_model
    from specmemo_sim.inputs.workload import Workload
    from specmemo_sim.planner.request import PlanRequest
    from specmemo_sim.planner.search import plan_search
    from specmemo_sim.units import format_bytes

    return PlanRequest, Workload, format_bytes, load_device, load_model, mo, plan_search


@app.cell
def _(mo):
    turns = mo.ui.slider(1, 20, value=6, label="turns")
    batch = mo.ui.slider(1, 16, value=1, label="batch")
    mo.hstack([turns, batch])
    return batch, turns


@app.cell
def _(PlanRequest, Workload, load_device, load_model, plan_search):
    def plan(turns, batch):
        return plan_search(
            PlanRequest(
                model=load_model("lmsys/vicuna-7b-v1.3"),
                device=load_device("nvidia-titan-rtx"),
                workload=Workload(turns=turns, batch=batch),
            )
        )

    return (plan,)


@app.cell
def _(batch, format_bytes, mo, plan, turns):
    result = plan(turns.value, batch.value)
    rows = [
        {"part": part.label, "typical": format_bytes(part.typical_bytes), "basis": part.basis.value}
        for part in result.best.memory.parts
        if part.high_bytes
    ]
    mo.vstack(
        [
            mo.md(
                f"**{result.status.value}**: {result.best.tokens_per_s:.0f} tokens/s, "
                f"{format_bytes(result.best.memory.high_bytes)} at the high end of "
                f"{format_bytes(result.usable_bytes)}"
            ),
            mo.ui.table(rows, selection=None),
        ]
    )
    return


@app.cell
def _(plan):
    # The headline numbers of this notebook; running it headless checks them.
    one = plan(1, 1)
    assert one.best.memory.part("target_weights").high_bytes == 13_476_831_232
    assert one.best.memory.part("kv_target").high_bytes == 320 * 524_288
    assert one.margin_bytes > 0
    return


if __name__ == "__main__":
    app.run()
