"""What ``parse_quantization`` accepts, refuses, and says."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specmemo_sim.errors import InputError, ModelConfigError
from specmemo_sim.inputs.dtypes import DType
from specmemo_sim.inputs.quantization import (
    METHODS,
    cast_format,
    parse_quantization,
    uniform_format,
)

NVFP4_GROUP = {
    "targets": ["Linear"],
    "weights": {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16},
}
INT4_GROUP = {
    "targets": ["Linear"],
    "weights": {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128},
}


def compressed(group, **extra):
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": group}, **extra}


VALID = [
    {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "GEMM"},
    {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "damp_percent": 0.1},
    {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"},
    {"quant_method": "bitsandbytes", "load_in_8bit": True},
    {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]},
    {"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0},
    {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]},
    compressed(INT4_GROUP, format="pack-quantized", ignore=["lm_head"]),
    compressed(NVFP4_GROUP, format="nvfp4-pack-quantized"),
    {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head", "*.mlp.gate"]},
    {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "fp8"}},
    {"quant_method": "eetq", "weights": "int8"},
    {"group_size": 64, "bits": 4, "mode": "affine", "lm_head": {"group_size": 64, "bits": 8}},
    {"quant_method": "mlx", "group_size": 64, "bits": 4},
    {
        "quant_method": "auto-round",
        "bits": 4,
        "group_size": 128,
        "packing_format": "auto_round:auto_gptq",
        "extra_config": {"model.layers.0.mlp.gate": {"bits": 16, "data_type": "float"}},
        "to_quant_block_names": [["model.layers.0", "model.layers.1"]],
    },
]

IMPOSSIBLE = [
    ({"quant_method": "awq", "bits": 5}, "bits: input should be 4"),
    ({"quant_method": "awq", "bits": True}, "bits: input should be 4"),
    ({"quant_method": "awq", "group_size": 0}, "-1 .* or 1 to"),
    ({"quant_method": "awq", "version": "gemv", "group_size": 16}, "no group_size 16"),
    ({"quant_method": "awq", "version": "marlin"}, "'gemm', 'gemv' or 'gemv_fast'"),
    ({"quant_method": "gptq"}, "bits is missing"),
    ({"quant_method": "gptq", "bits": 4, "group_size": -128}, "-1 .* or 1 to"),
    ({"quant_method": "gptq", "bits": 4, "group_size": float("nan")}, "group_size"),
    ({"quant_method": "gptq", "bits": 4, "group_size": True}, "group_size"),
    ({"quant_method": "gptq", "bits": 4, "checkpoint_format": "marlin"}, "checkpoint_format"),
    ({"quant_method": "gptq", "bits": 4, "dynamic": {"+:x": {"bits": 7}}}, "bits"),
    ({"quant_method": "bitsandbytes"}, "set exactly one"),
    ({"quant_method": "bitsandbytes", "load_in_4bit": "yes"}, "load_in_4bit"),
    ({"quant_method": "bitsandbytes", "load_in_4bit": True, "load_in_8bit": True}, "exactly one"),
    ({"quant_method": "fp8", "weight_block_size": [0, 128]}, "weight_block_size"),
    ({"quant_method": "fp8", "weight_block_size": [128]}, "weight_block_size"),
    ({"quant_method": "fp8", "dequantize": True}, "dequantize"),
    ({"quant_method": "fp8", "modules_to_convert": ["embed_tokens"]}, "modules_to_convert"),
    ({"quant_method": "fp8", "modules_to_not_convert": "lm_head"}, "modules_to_not_convert"),
    ({"quant_method": "fp8", "modules_to_not_convert": ["(a+)+$"]}, "repeats a group"),
    ({"quant_method": "fp8", "modules_to_not_convert": ["("]}, "no valid module pattern"),
    ({"quant_method": "fp8", "modules_to_not_convert": [".*" * 8 + "x"]}, "repeat too much"),
    ({"quant_method": "modelopt", "quant_algo": "W4A16_AWQ"}, "'W4A16_AWQ' is not one of FP8"),
    ({"quant_method": "modelopt", "quantization": 3}, "not a mapping"),
    (compressed(INT4_GROUP, format="marlin-24"), "format"),
    (compressed(INT4_GROUP), "state format"),
    (compressed(INT4_GROUP, format="float-quantized"), "does not hold 4-bit int"),
    (compressed({**NVFP4_GROUP, "targets": []}, format="nvfp4-pack-quantized"), "targets"),
    (
        compressed(INT4_GROUP, format="pack-quantized", sparsity_config={"format": "marlin-24"}),
        "sparsity format 'marlin-24' is not modelled",
    ),
    ({"group_size": 32, "bits": 4, "mode": "mxfp4"}, "mode: input should be 'affine'"),
    ({"group_size": 16, "bits": 4}, "group_size"),
    ({"group_size": 64, "bits": 7}, "bits"),
    ({"group_size": 64, "bits": 4, "a.b": {"mode": "nvfp4"}}, "module entry.: mode"),
    ({"group_size": 64, "bits": 4, "a.*.b": False}, "'a..*b' is no module path"),
    ({"quant_method": "mlx", "group_size": 64, "bits": 4, "a.b": 8}, "neither true, false nor"),
    ({"quant_method": "auto-round", "bits": 5}, "bits"),
    ({"quant_method": "auto-round", "bits": 4, "packing_format": "fp8"}, "'fp8' is not modelled"),
    ({"quant_method": "auto-round", "bits": 8, "packing_format": "awq"}, "packs 4 bits, not 8"),
    ({"quant_method": "auto-round", "bits": 4, "data_type": "mx_fp"}, "data_type"),
    (
        {"quant_method": "auto-round", "bits": 4, "extra_config": {".*gate": {"bits": 8}}},
        "'..gate' is no module path",
    ),
    (
        {"quant_method": "auto-round", "bits": 4, "to_quant_block_names": "visual.blocks,h"},
        "'visual.blocks' are not modelled",
    ),
    ({"quant_method": "aqlm"}, "'aqlm' is not modelled; supported are awq"),
    ({"quant_method": ["awq"]}, "is not modelled"),
    ({}, "ambiguous"),
    ({"bits": 4}, "ambiguous"),
    ("awq", "not a mapping"),
]


@pytest.mark.parametrize("config", VALID, ids=lambda c: str(c.get("quant_method")))
def test_every_supported_method_parses_what_its_tools_write(config):
    assert parse_quantization(json.loads(json.dumps(config))).rules


def test_every_supported_method_has_an_example_here():
    aliases = {"fine_grained_fp8", "modelopt_fp4", "intel/auto-round"}
    assert {str(c["quant_method"]) for c in VALID if "quant_method" in c} | aliases == set(METHODS)


@pytest.mark.parametrize(("config", "message"), IMPOSSIBLE)
def test_an_impossible_value_is_one_line_with_the_remedy(config, message):
    with pytest.raises(ModelConfigError, match=message) as caught:
        parse_quantization(config)
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 500
    assert "remove quantization_config" in text or "state quant_method" in text


def test_no_config_means_unquantised():
    assert parse_quantization(None).rules == ()


@pytest.mark.parametrize(
    ("config", "method"),
    [
        ({"load_in_8bit": True}, "bitsandbytes"),
        ({"bits": 4, "group_size": 128, "desc_act": True}, "gptq"),
        ({"w_bit": 4, "q_group_size": 128}, "awq"),
        ({"bits": 4, "zero_point": True, "version": "GEMM"}, "awq"),
        ({"group_size": 64, "bits": 4}, "mlx"),
        ({"group_size": 64, "bits": 4, "model.layers.0.mlp.gate": False}, "mlx"),
    ],
)
def test_old_files_without_a_method_are_recognised_by_keys_only_it_has(config, method):
    assert parse_quantization(config).method == method


@pytest.mark.parametrize("scheme", [{"num_bits": 8, "type": "float"}, {"num_bits": 8}])
def test_a_kv_cache_scheme_is_reported(scheme):
    config = compressed(INT4_GROUP, format="pack-quantized", kv_cache_scheme=scheme)
    expected = DType.FP8 if scheme.get("type") == "float" else DType.INT8
    assert parse_quantization(config).kv_cache_dtype is expected


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
        ),
        max_leaves=6,
    ),
    st.sampled_from([(c, k) for c in VALID for k in c if k != "quant_method"]),
)
def test_no_value_of_any_key_escapes_as_another_kind_of_error(value, place):
    config, key = place
    text = ""
    try:
        parse_quantization({**config, key: value})
    except ModelConfigError as error:
        text = str(error)
    assert "\n" not in text


@pytest.mark.parametrize("bits", [16, 3, True, 0])
def test_uniform_formats_exist_for_8_and_4_bits_only(bits):
    with pytest.raises(InputError, match="use 8 or 4"):
        uniform_format(bits)


@pytest.mark.parametrize("dtype", [DType.FP8, DType.INT8, DType.INT4])
def test_a_cast_needs_no_scales_and_so_at_least_16_bits(dtype):
    with pytest.raises(InputError, match="fp32, bf16 or fp16"):
        cast_format(dtype)
