"""Bad input gives one clear line and the right exit code; nothing is written."""

import json
import os

import pytest

LLAMA = {
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 256,
    "max_position_embeddings": 512, "torch_dtype": "float16",
}  # fmt: skip
DEVICE = "nvidia-titan-rtx"


def refused(result, code=1):
    """One line on stderr, nothing on stdout."""
    got, out, err = result
    assert got == code, (got, out, err)
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    assert len(err) < 600
    return err


def variant(**changes):
    return json.dumps({**LLAMA, **changes})


BAD_CONFIGS = {
    "truncated": (variant()[:-40], "JSON"),
    "empty": ("", "empty"),
    "not an object": ("[1, 2]", "object"),
    "unknown type": (variant(model_type="warpdrive"), "warpdrive"),
    "no type": (json.dumps({k: v for k, v in LLAMA.items() if k != "model_type"}), "model_type"),
    "type is a number": (variant(model_type=7), "model_type"),
    "negative size": (variant(hidden_size=-64), "hidden_size"),
    "zero layers": (variant(num_hidden_layers=0), "num_hidden_layers"),
    "text for a number": (variant(vocab_size="many"), "vocab_size"),
    "true for a number": (variant(vocab_size=True), "vocab_size"),
    "a fraction": (variant(hidden_size=64.5), "hidden_size"),
    "NaN": (variant().replace("64", "NaN", 1), "NaN"),
    "infinity": (variant().replace("64", "Infinity", 1), "hidden_size"),
    "huge integer": (variant(vocab_size=10**15), "vocab_size"),
    "absurd integer": (variant(vocab_size=0).replace(": 0", ": " + "9" * 5000), "whole number"),
    "too many layers": (variant(num_hidden_layers=10**6), "layers"),
    "heads do not divide": (variant(num_attention_heads=5), "num_attention_heads"),
    "kv heads do not divide": (variant(num_key_value_heads=3), "num_key_value_heads"),
    "missing dimension": (
        json.dumps({k: v for k, v in LLAMA.items() if k != "hidden_size"}),
        "hidden_size",
    ),
    "bad dtype": (variant(torch_dtype="float3"), "float3"),
    "bad layer types": (
        variant(model_type="qwen2", use_sliding_window=True, layer_types=["full_attention"]),
        "layer_types",
    ),
    "quantization is a list": (variant(quantization_config=[1]), "quantization_config"),
    "unknown quantisation": (variant(quantization_config={"quant_method": "magic"}), "magic"),
    "impossible bits": (
        variant(quantization_config={"quant_method": "gptq", "bits": 77, "group_size": 128}),
        "bits",
    ),
    "deep nesting": ("[" * 100_000 + "]" * 100_000, ""),
}


@pytest.mark.parametrize("case", BAD_CONFIGS)
def test_a_bad_config_is_refused_in_one_line(case, specmemo, tmp_path):
    text, word = BAD_CONFIGS[case]
    config = tmp_path / "config.json"
    config.write_text(text)
    target = tmp_path / "plan.json"
    err = refused(specmemo("plan", config, "-d", DEVICE, "-o", target))
    assert word in err
    assert not target.exists()


@pytest.mark.parametrize("content", [b"\xff\xfe\x00{", b"\x00" * 100, b'{"a": "\xc3\x28"}'])
def test_bytes_that_are_no_text_are_refused(content, specmemo, tmp_path):
    config = tmp_path / "config.json"
    config.write_bytes(content)
    refused(specmemo("plan", config, "-d", DEVICE))


def test_a_folder_without_config_a_missing_file_and_an_unknown_id_are_refused(specmemo, tmp_path):
    assert "config.json" in refused(specmemo("plan", tmp_path, "-d", DEVICE))
    assert "no such file" in refused(specmemo("plan", tmp_path / "x.json", "-d", DEVICE))
    err = refused(specmemo("plan", "lmsys/vicuna-7b-v1.4", "-d", DEVICE))
    assert "lmsys/vicuna-7b-v1.3" in err


def test_a_device_without_bandwidth_is_refused(specmemo, tmp_path):
    device = tmp_path / "slow.toml"
    device.write_text(
        'schema_version = 1\nid = "x"\nname = "X"\nvendor = "nvidia"\nkind = "desktop"\n'
        '[memory]\ncapacity = "24 GiB"\nsource = "unverified"\n[compute]\nsource = "unverified"\n'
        '[compute.dense]\nfp16 = "100 TFLOP/s"\n[chip]\narch = "sm_89"\nsource = "unverified"\n'
    )
    assert "bandwidth" in refused(specmemo("plan", "lmsys/vicuna-7b-v1.3", "-d", device))


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--turns", "0"], "--turns"),
        (["--turns", "-3"], "--turns"),
        (["--turns", "99999999999999999999"], "--turns"),
        (["--batch", "0"], "--batch"),
        (["--prompt-tokens", "0"], "--prompt-tokens"),
        (["--context", "-1"], "--context"),
        (["--prefill-chunk", "0"], "--prefill-chunk"),
        (["--max-nodes", "1"], "--max-nodes"),
        (["--max-heads", "0"], "--max-heads"),
        (["--memory", "7.6"], "unit"),
        (["--memory", "-1 GiB"], "-1 GiB"),
        (["--memory", "nan GiB"], "nan"),
        (["--memory", "900 GiB"], "GiB"),
        (["--reserved", "lots"], "lots"),
        (["--profile", "nobody"], "nobody"),
        (["--tree", "nothing"], "nothing"),
        (["--drafter", "draft-model"], "--drafter-model"),
        (["--drafter", "mtp"], "multi-token"),
        (["--drafter", "eagle", "--acceptance-rate", "1.5"], "1.5"),
        (["--drafter", "eagle", "--acceptance-rate", "nan"], "nan"),
        (["--acceptance-rate", "0.5"], "--acceptance-rate"),
        (["--drafter-model", "gpt2"], "--drafter-model"),
        (["--dtype", "fp5"], "fp5"),
        (["-d", "A100"], "a100"),
        (["--dtype", "int4"], "int4"),
        (
            ["--drafter", "draft-model", "--drafter-model", "yuhuili/EAGLE-Vicuna-7B-v1.3"],
            "draft head",
        ),
        (["--dtype", "fp32"], "fp32"),
        (["--dtype", "bf16", "--precision", "fp16"], "contradicts"),
        (["--tree", "mc_sim_7b_63", "--max-heads", "2"], "--max-heads"),
        (["--tree", "mc_sim_7b_63", "--max-nodes", "9"], "--max-nodes"),
        (["--drafter", "none", "--max-heads", "2"], "--max-heads"),
        (["--drafter", "eagle", "--profile", "medusa-vicuna-7b"], "--profile"),
        (["--tree", "mc_sim_7b_63", "--drafter", "eagle"], "--tree"),
        (
            ["--context", "100", "--turns", "3", "--prompt-tokens", "50", "--output-tokens", "51"],
            "one turn",
        ),
        (["--context", "4096", "--prompt-tokens", "5000"], "one turn"),
        (
            ["--drafter", "eagle", "--drafter-model", "yuhuili/EAGLE-Vicuna-13B-v1.3"],
            "wide",
        ),
        (
            ["--drafter", "eagle", "--drafter-model", "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B"],
            "eagle3",
        ),
        (
            ["--drafter", "eagle3", "--drafter-model", "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B"],
            "vocabulary",
        ),
    ],
)
def test_bad_values_are_refused_in_one_line(options, word, specmemo, tmp_path):
    target = tmp_path / "plan.json"
    err = refused(specmemo("plan", "lmsys/vicuna-7b-v1.3", "-d", DEVICE, "-o", target, *options))
    assert word in err
    assert not target.exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["plan"],
        ["plan", "x"],
        ["plan", "x", "--device"],
        ["plan", "x", "-d", "y", "--turns", "many"],
        ["plan", "x", "-d", "y", "--nonsense"],
        ["plan", "x", "-d", "y", "--precision", "int3"],
        ["dance"],
    ],
)
def test_wrong_usage_returns_2_in_one_line(arguments, specmemo):
    assert "--help" in refused(specmemo(*arguments), code=2)


def test_an_unwritable_plan_path_is_refused_and_leaves_nothing(specmemo, tmp_path):
    missing = tmp_path / "no" / "plan.json"
    refused(specmemo("plan", "lmsys/vicuna-7b-v1.3", "-d", DEVICE, "-o", missing))
    refused(specmemo("plan", "lmsys/vicuna-7b-v1.3", "-d", DEVICE, "-o", tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_filters_that_leave_nothing_are_refused(specmemo):
    refused(specmemo("devices", "--min-memory", "900 TiB"))
    refused(specmemo("devices", "--min-memory", "16"))
    refused(specmemo("devices", "nvidia-rtx-9999"))
    refused(specmemo("models", "--search", "no such model"))
    refused(specmemo("models", "lmsys/vicuna-7b-v1.3", "--context", "0"))


def test_a_draft_head_is_no_model(specmemo):
    assert "draft head" in refused(specmemo("plan", "yuhuili/EAGLE-Vicuna-7B-v1.3", "-d", DEVICE))


def test_a_measured_rate_far_above_the_peak_is_refused(specmemo, tmp_path):
    """A slipped decimal in a device file is named, not crashed on."""
    device = tmp_path / "typo.toml"
    device.write_text(
        'schema_version = 1\nid = "x"\nname = "X"\nvendor = "nvidia"\nkind = "desktop"\n'
        '[memory]\ncapacity = "24 GiB"\nbandwidth = "900 GB/s"\nsource = "unverified"\n'
        '[compute]\nsource = "unverified"\nmeasured_source = "unverified"\n'
        '[compute.measured_gemm_fp16]\nlow = "160 TFLOP/s"\nhigh = "165 TFLOP/s"\n'
        '[compute.dense]\nfp16 = "16.5 TFLOP/s"\n[chip]\narch = "sm_89"\nsource = "unverified"\n'
    )
    assert "measured_gemm_fp16" in refused(specmemo("devices", device))


def test_options_that_have_no_effect_are_refused(specmemo):
    refused(specmemo("devices", "nvidia-t4", "--kind", "laptop"))
    refused(specmemo("models", "gpt2", "--families"))
    refused(specmemo("devices", "--search", "no such device", "--json"))


def test_a_pipe_in_a_model_folder_is_refused_at_once(specmemo, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    os.mkfifo(tmp_path / "model.safetensors")
    assert "regular file" in refused(specmemo("models", tmp_path))


@pytest.mark.parametrize("text", ["[/]", "[red]x[/red]", "a\x1b[31mb", "a\u202eb", "a\x00b"])
def test_strings_from_outside_neither_style_nor_break_the_output(text, specmemo, tmp_path):
    """Markup is printed as it stands, control and direction characters as question marks."""
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"model_type": text, "text_config": LLAMA}))
    code, out, _ = specmemo("models", config)
    assert code == 0
    assert "\x1b" not in out
    assert "\u202e" not in out
    if text.startswith("["):
        assert text in out


def test_an_error_line_is_short_however_long_the_value(specmemo, tmp_path):
    plan = tmp_path / "plan.json"
    plan.write_text(
        json.dumps({"kind": "specmemo-plan", "schema_version": 1, "drafter": {"kind": "A" * 10**5}})
    )
    assert len(refused(specmemo("show", plan))) < 700


def test_lists_of_module_names_are_bounded(specmemo, tmp_path):
    config = tmp_path / "config.json"
    names = [f"model.layers.{number}.mlp.up_proj" for number in range(4000)]
    awq = {"quant_method": "awq", "bits": 4, "group_size": 16, "modules_to_not_convert": names}
    deep = {**LLAMA, "num_hidden_layers": 2048, "quantization_config": awq}
    config.write_text(json.dumps(deep))
    assert "too many" in refused(specmemo("plan", config, "-d", DEVICE))


def test_learned_positions_end_the_context(specmemo):
    """GPT-2 has a table of 1,024 positions; a rotary model may be stretched, with a note."""
    err = refused(specmemo("plan", "openai-community/gpt2", "-d", DEVICE, "--context", "8192"))
    assert "1,024" in err
    assert specmemo("plan", "lmsys/vicuna-7b-v1.3", "-d", DEVICE, "--context", "4096")[0] == 0


def test_an_incomplete_entry_of_the_catalogue_says_so(specmemo):
    assert "catalogue" in refused(specmemo("plan", "Qwen/Qwen3.5-9B", "-d", DEVICE))


def test_an_eagle_3_configuration_is_no_model(specmemo, tmp_path):
    config = tmp_path / "config.json"
    head = {**LLAMA, "num_hidden_layers": 1, "draft_vocab_size": 128}
    config.write_text(json.dumps({**head, "architectures": ["LlamaForCausalLMEagle3"]}))
    assert "draft head" in refused(specmemo("plan", config, "-d", DEVICE))
