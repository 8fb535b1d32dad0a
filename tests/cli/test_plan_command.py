"""``specmemo plan`` and ``specmemo show``: what they print, write and return."""

import json

import pytest

VICUNA = "lmsys/vicuna-7b-v1.3"
TITAN = "nvidia-titan-rtx"


def document(out):
    return json.loads(out)


def test_the_main_job_prints_a_verdict_first_and_writes_the_plan(specmemo, tmp_path):
    target = tmp_path / "plan.json"
    code, out, err = specmemo("plan", VICUNA, "--device", TITAN, "--turns", 20, "-o", target)
    assert code == 0
    assert out.startswith("FITS")
    assert out.count("\n") < 45  # one screen
    assert "12.55 GiB" in out
    assert "55.18 MiB" in out  # the paper's buffers beside the total
    assert "not modelled" in out
    assert str(target) in err
    assert json.loads(target.read_text())["kind"] == "specmemo-plan"


def test_json_carries_the_exact_bytes(specmemo):
    code, out, err = specmemo("plan", VICUNA, "--device", TITAN, "--turns", 20, "--json")
    assert (code, err) == (0, "")
    result = document(out)
    assert result["num_parameters"] == 6_738_415_616
    parts = result["plan"]["memory"]["parts"]
    assert parts["target_weights"]["high_bytes"] == 13_476_831_232
    assert result["kv_cache_bytes"]["per_token"] == 524_288
    assert parts["kv_target"]["high_bytes"] == 2048 * 524_288
    reference = result["comparison"][1]
    assert reference["paper_eq3_bytes"] == 57_856_000
    assert reference["num_nodes"] == 64
    assert round(reference["tokens_per_step"], 3) == 2.487
    assert round(reference["tokens_per_step_measured_ranks"], 3) == 2.340


def test_a_written_plan_is_the_printed_one_and_show_reads_it(specmemo, tmp_path):
    target = tmp_path / "plan.json"
    _, out, _ = specmemo("plan", VICUNA, "-d", TITAN, "--turns", 3, "-o", target, "--json")
    assert document(out)["plan"] == json.loads(target.read_text())
    code, shown, _ = specmemo("show", target, "--json")
    assert code == 0
    assert document(shown) == json.loads(target.read_text())
    code, shown, _ = specmemo("show", target)
    assert code == 0
    assert shown.startswith("FITS")


def test_what_does_not_fit_returns_3_names_the_constraint_and_writes_nothing(specmemo, tmp_path):
    target = tmp_path / "plan.json"
    model = "meta-llama/Llama-2-70b-chat-hf"
    code, out, _ = specmemo("plan", model, "-d", "nvidia-rtx-4090", "-o", target)
    assert code == 3
    assert out.startswith("DOES NOT FIT")
    assert "the weights alone" in out
    assert "larger device" in out
    assert list(tmp_path.iterdir()) == []


def test_remedies_of_every_kind_are_offered(specmemo):
    code, out, _ = specmemo(
        "plan", "meta-llama/Llama-2-13b-chat-hf", "-d", "nvidia-rtx-4090", "--turns", 10,
        "--precision", "16bit", "--json",
    )  # fmt: skip
    assert code == 3
    kinds = {remedy["kind"] for remedy in document(out)["remedies"]}
    assert {"precision", "model", "device"} <= kinds


def test_no_speculation_is_chosen_where_it_is_faster(specmemo):
    """A batch of 256 on a laptop is past the ridge: every further node costs full arithmetic."""
    code, out, _ = specmemo(
        "plan", "Qwen/Qwen2.5-0.5B-Instruct", "-d", "nvidia-rtx-4060-laptop", "--turns", 1,
        "--batch", 256, "--json",
    )  # fmt: skip
    assert code == 0
    result = document(out)
    assert result["plan"]["drafter"] == {"kind": "none"}
    assert result["plan"]["tree"] == []
    assert result["plan"]["speed"]["speedup"]["typical"] == 1


def test_llama_3_8b_keeps_8_gib_of_keys_and_values(specmemo):
    code, out, _ = specmemo(
        "plan", "meta-llama/Meta-Llama-3-8B", "-d", "nvidia-h100-sxm", "--context", 8192,
        "--batch", 8, "--json",
    )  # fmt: skip
    assert code == 0
    assert document(out)["plan"]["memory"]["parts"]["kv_target"]["high_bytes"] == 8 * 2**30


def test_the_users_memory_replaces_the_devices(specmemo):
    code, out, _ = specmemo(
        "plan", VICUNA, "-d", TITAN, "--turns", 2, "--memory", "7.6 GiB", "--json"
    )
    assert code == 0
    result = document(out)
    assert result["usable_bytes"] == 8_160_437_862
    assert result["plan"]["precision"]["weights"] in ("int8", "int4")
    assert result["plan"]["memory"]["total_high_bytes"] <= 8_160_437_862


def test_a_users_own_device_file_is_planned_for(specmemo, tmp_path):
    mine = tmp_path / "mine.toml"
    mine.write_text(
        'schema_version = 1\nid = "mine"\nname = "My card"\nvendor = "nvidia"\nkind = "desktop"\n'
        '[memory]\ncapacity = "24 GiB"\nusable = "20 GiB"\nbandwidth = "900 GB/s"\n'
        'source = "unverified"\n[compute]\nsource = "unverified"\n'
        '[compute.dense]\nfp16 = "100 TFLOP/s"\n[chip]\narch = "sm_89"\nsource = "unverified"\n'
    )
    code, out, _ = specmemo("plan", VICUNA, "-d", mine, "--turns", 2, "--json")
    assert code == 0
    assert document(out)["usable_bytes"] == 20 * 2**30


@pytest.mark.parametrize(
    ("drafter", "extra"),
    [
        ("eagle", ["--acceptance-rate", "0.7"]),
        ("eagle3", []),
        ("ngram", ["--acceptance-rate", "0.3"]),
        ("draft-model", ["--drafter-model", "TinyLlama/TinyLlama-1.1B-Chat-v1.0"]),
        ("none", []),
    ],
)
def test_every_drafter_can_be_planned(specmemo, drafter, extra):
    code, out, _ = specmemo(
        "plan", "meta-llama/Llama-2-7b-chat-hf", "-d", "nvidia-rtx-4090", "--turns", 4,
        "--drafter", drafter, "--json", *extra,
    )  # fmt: skip
    assert code == 0
    plan = document(out)["plan"]
    if "--acceptance-rate" not in extra and drafter != "none":
        assert plan["speed"] is None
        assert plan["drafter"]["kind"] == drafter.replace("-", "_")
    draft_bytes = plan["memory"]["parts"]["draft_weights"]["high_bytes"]
    assert (draft_bytes > 0) == (plan["drafter"]["kind"] not in ("none", "ngram"))


def test_a_given_tree_is_used_as_it_is(specmemo):
    code, out, _ = specmemo(
        "plan", VICUNA, "-d", TITAN, "--turns", 2, "--tree", "mc_sim_7b_63", "--buffers", "paper",
        "--json",
    )  # fmt: skip
    assert code == 0
    plan = document(out)["plan"]
    assert len(plan["tree"]) == 63
    assert plan["kv_budget"]["tree_slots"] == 64
    assert plan["memory"]["buffer_model"] == "paper"
    assert plan["memory"]["verification_buffer_bytes"] > 57_856_000


def test_turns_beyond_the_context_are_said(specmemo):
    _, out, _ = specmemo("plan", VICUNA, "-d", TITAN, "--turns", 20)
    assert "the context holds 6, older turns are dropped" in " ".join(out.split())
    _, out, _ = specmemo("plan", VICUNA, "-d", TITAN, "--turns", 5)
    assert "older turns" not in out
