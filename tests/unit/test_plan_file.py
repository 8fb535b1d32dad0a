"""The plan file: round trip, version, unknown keys, digest, sums."""

import json

import pytest

from specmemo_sim.errors import PlanFileError
from specmemo_sim.inputs.catalog import load_device
from specmemo_sim.inputs.model_source import load_model
from specmemo_sim.inputs.workload import Workload
from specmemo_sim.planner.make_plan import make_plan
from specmemo_sim.planner.plan import Plan, plan_document, read_plan, write_plan
from specmemo_sim.planner.request import PlanRequest
from specmemo_sim.planner.search import plan_search


@pytest.fixture(scope="module")
def plan():
    request = PlanRequest(
        model=load_model("lmsys/vicuna-7b-v1.3"),
        device=load_device("nvidia-titan-rtx"),
        workload=Workload(turns=4),
    )
    return make_plan(plan_search(request))


def altered(path, change):
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    return path


@pytest.fixture
def file(plan, tmp_path):
    path = tmp_path / "plan.json"
    write_plan(plan, path)
    return path


def test_what_is_read_is_what_was_written(plan, file):
    assert read_plan(file) == plan


def test_writing_twice_gives_the_same_bytes(plan, file, tmp_path):
    again = tmp_path / "again.json"
    write_plan(read_plan(file), again)
    assert again.read_bytes() == file.read_bytes()


def test_the_plan_is_self_contained(plan):
    """Model, device and tree stand in the file: nothing is looked up when it is read."""
    document = plan_document(plan)
    rebuilt = Plan.model_validate({k: v for k, v in document.items() if k != "digest"})
    assert rebuilt.model.num_parameters == 6_738_415_616
    assert rebuilt.token_tree() == plan.token_tree()
    assert rebuilt.device.usable_bytes == plan.device.usable_bytes


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda d: d.update(schema_version=2), "version"),
        (lambda d: d.update(schema_version=True), "version"),
        (lambda d: d.pop("schema_version"), "version"),
        (lambda d: d.update(kind="recipe"), "not a SpecMemo plan"),
        (lambda d: d.update(colour="red"), "colour"),
        (lambda d: d["memory"].update(colour="red"), "colour"),
        (lambda d: d["kv_budget"].update(tokens=-1), "tokens"),
        (lambda d: d["kv_budget"].update(tokens=d["kv_budget"]["tokens"] + 1), "tokens"),
        (lambda d: d["precision"].update(kv_cache="fp8"), "digest"),
        (lambda d: d["model"].update(hidden_size=4097), "digest"),
        (lambda d: d.update(digest="sha256:0"), "digest"),
        (lambda d: d.pop("digest"), "digest"),
        (lambda d: d["tree"].append([9, 9, 9, 9]), ""),
        (lambda d: d["memory"].update(total_high_bytes=1), "add up"),
        (lambda d: d.update(fits=False), "fits"),
        (lambda d: d["speed"]["step_s"].update(low=9e9), "low"),
        (lambda d: d["speed"].update(tokens_per_step="many"), "tokens_per_step"),
        (lambda d: d["speed"].update(tokens_per_step=400), "tokens a step"),
        (lambda d: d.update(drafter={"kind": "none"}), "without drafter"),
        (lambda d: d["drafter"].update(num_heads=1), "heads"),
        (lambda d: d.update(drafter={"kind": "mtp"}), "MTP"),
        (lambda d: d["kv_budget"].update(tree_slots=3), "tree_slots"),
        (lambda d: d["workload"].update(turns=5), "kv_budget.tokens"),
        (lambda d: d["memory"]["parts"].pop("reserved"), "memory.parts"),
        (lambda d: d["device"]["memory"].update(reported=2**34), "usable_bytes"),
        (lambda d: d["memory"]["parts"]["kv_target"].update(low_bytes=2**60), "low_bytes"),
    ],
)
def test_an_altered_plan_is_refused_in_one_line(change, word, file):
    with pytest.raises(PlanFileError) as caught:
        read_plan(altered(file, change))
    assert word in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"a": NaN}', "{}"])
def test_what_is_no_plan_is_refused(text, tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(text)
    with pytest.raises(PlanFileError):
        read_plan(path)
