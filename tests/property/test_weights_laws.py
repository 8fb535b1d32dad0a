"""Laws of weight bytes: totals, published sizes, monotonicity, time."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specmemo_sim.errors import ModelConfigError
from specmemo_sim.inputs.dtypes import DType
from specmemo_sim.inputs.model import Role
from specmemo_sim.inputs.quantization import cast_format, parse_quantization, uniform_format
from specmemo_sim.memory.weights import (
    tensor_bytes,
    weight_bytes,
)

from model_inventories import llama_spec, matrix, moe_spec

PLAIN = parse_quantization(None)
GIB = 2**30
LLAMA_70B = llama_spec(hidden=8192, layers=80, heads=64, kv_heads=8, inner=28672)
CONFIGS = {
    "awq": {"quant_method": "awq", "bits": 4},
    "gptq": {"quant_method": "gptq", "bits": 4, "group_size": 64},
    "nf4": {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"},
    "int8": {"quant_method": "bitsandbytes", "load_in_8bit": True},
    "fp8": {"quant_method": "fp8", "weight_block_size": [128, 128]},
    "fp8 tensor": {"quant_method": "fp8"},
    "fbgemm": {"quant_method": "fbgemm_fp8"},
    "mxfp4": {"quant_method": "mxfp4"},
    "modelopt": {"quant_method": "modelopt", "quant_algo": "NVFP4"},
    "eetq": {"quant_method": "eetq"},
    "mlx": {"group_size": 64, "bits": 4},
    "auto-round": {"quant_method": "auto-round", "bits": 4},
}
FORMATS = {name: parse_quantization(config) for name, config in CONFIGS.items()} | {
    "plain": PLAIN,
    "uniform 8": uniform_format(8),
    "uniform 4": uniform_format(4),
    "fp32": cast_format(DType.FP32),
}


def matrix_size(config, rows, columns):
    tensor = matrix("mlp.up_proj", rows, columns, Role.MLP)
    name = "model.layers.0.mlp.up_proj.weight"
    return tensor_bytes(tensor, parse_quantization(config), name, DType.BF16)


def test_vicuna_7b_in_fp16_is_its_published_size():
    assert weight_bytes(llama_spec(), PLAIN).total == 13_476_831_232


def test_llama_70b_at_4_bits_in_groups_of_128_is_34_10_gib():
    assert weight_bytes(LLAMA_70B, uniform_format(4)).total / GIB == pytest.approx(34.10, abs=0.005)


def test_llama_70b_in_nf4_is_36_84_gib():
    total = weight_bytes(LLAMA_70B, FORMATS["nf4"]).total
    assert total / GIB == pytest.approx(36.84, abs=0.005)


def test_llama_70b_in_fp16_is_128_479_gib():
    assert weight_bytes(LLAMA_70B, PLAIN).total / GIB == pytest.approx(128.479, abs=0.0005)


@pytest.mark.parametrize(
    ("name", "bits"),
    [
        ("awq", 4 + (16 + 4) / 128),
        ("uniform 4", 4 + (16 + 4) / 128),
        ("nf4", 4 + 32 / 64 + 16 * 32 / 2**24),
        ("fp8", 8 + 32 / 128**2),
        ("int8", 8 + 32 / 4096),
        ("mlx", 4 + (16 + 16) / 64),
        ("auto-round", 4 + (16 + 4) / 128),
        ("uniform 8", 8 + 16 / 4096),
        ("modelopt", 4 + 8 / 16 + 64 / 2**24),
    ],
)
def test_bits_per_element_are_payload_plus_scales_over_their_block(name, bits):
    tensor = matrix("mlp.up_proj", 4096, 4096, Role.MLP)
    size = tensor_bytes(tensor, FORMATS[name], "model.layers.0.mlp.up_proj", DType.BF16)
    assert size * 8 / 4096**2 == pytest.approx(bits, rel=1e-12)


def test_double_quantisation_saves_what_the_qlora_paper_says():
    """0.373 bits per parameter: 32/64 down to 8/64 + 32/(64*256), arXiv:2305.14314, section 3."""
    config = CONFIGS["nf4"]
    saved = matrix_size(config, 8192, 8192) - matrix_size(
        {**config, "bnb_4bit_use_double_quant": True}, 8192, 8192
    )
    assert saved * 8 / 8192**2 == pytest.approx(0.373, abs=0.0005)


SIZES = st.integers(1, 40).map(lambda n: 8 * n)


@given(rows=SIZES, columns=SIZES, group=st.sampled_from([-1, 8, 32, 64, 128]))
def test_more_bits_never_take_fewer_bytes(rows, columns, group):
    sizes = [
        matrix_size({"quant_method": "gptq", "bits": b, "group_size": group}, rows, columns)
        for b in (2, 3, 4, 8)
    ]
    assert sizes == sorted(sizes)


@given(rows=SIZES, columns=SIZES, bits=st.sampled_from([2, 3, 4, 8]))
def test_more_groups_never_take_fewer_bytes(rows, columns, bits):
    sizes = [
        matrix_size({"quant_method": "gptq", "bits": bits, "group_size": group}, rows, columns)
        for group in (-1, 256, 128, 64, 32, 8, 1)
    ]
    assert sizes == sorted(sizes)


@given(rows=SIZES, columns=SIZES, count=st.integers(1, 5), name=st.sampled_from(sorted(FORMATS)))
def test_equal_matrices_take_equal_bytes(rows, columns, count, name):
    rows, columns = rows * 8, columns * 16
    one = matrix("mlp.experts.*.up_proj", rows, columns, Role.EXPERT)
    path = "model.layers.3.mlp.experts.*.up_proj"
    single = tensor_bytes(one, FORMATS[name], path, DType.BF16)
    many = tensor_bytes(one.replace(count=count), FORMATS[name], path, DType.BF16)
    assert many == count * single


@given(
    layers=st.integers(1, 5),
    experts=st.integers(2, 6),
    name=st.sampled_from(sorted(FORMATS)),
)
@settings(max_examples=60)
def test_the_total_is_what_a_loop_over_every_single_matrix_adds_up(layers, experts, name):
    """Each matrix of each expert of each layer is asked for alone, under its full name."""
    model = moe_spec(layers=layers, experts=experts)
    total = 0
    places = [(t, t.name) for t in model.outer]
    for number, layer in enumerate(model.layer_sequence()):
        places += [(t, f"model.layers.{number}.{t.name}") for t in layer.tensors]
    for tensor, path in places:
        for copy in range(tensor.count):
            single = tensor.replace(count=1)
            total += tensor_bytes(single, FORMATS[name], path.replace("*", str(copy)), model.dtype)
    assert weight_bytes(model, FORMATS[name]).total == total


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_roles_add_up_and_every_quantised_format_saves(name):
    model = moe_spec(mtp=(moe_spec().layers[0],), tower=(matrix("v.fc", 64, 64, Role.OTHER),))
    result = weight_bytes(model, FORMATS[name])
    assert result.total == sum(result.role_bytes(role) for role in Role)
    assert result.bits_per_weight == pytest.approx(result.total * 8 / model.num_parameters)
    assert result.role_bytes(Role.ROUTER) == 2 * 3 * 8 * 256 * (2 if name == "fp32" else 1)
    assert result.mtp_bytes > 0
    assert result.tower_bytes > 0
    quantised = bool(FORMATS[name].rules)
    assert (result.quantized_parameters > 0) == quantised
    assert (result.total < weight_bytes(model, PLAIN).total) == quantised


def test_towers_and_mtp_layers_are_not_in_the_total():
    plain = moe_spec()
    more = moe_spec(mtp=plain.layers, tower=(matrix("visual.fc", 64, 64, Role.OTHER),))
    assert weight_bytes(more, FORMATS["fp8"]).total == weight_bytes(plain, FORMATS["fp8"]).total


@pytest.mark.parametrize("name", ["gptq", "uniform 4", "uniform 8"])
def test_formats_of_decoder_layers_leave_a_tower_alone(name):
    model = moe_spec(tower=(matrix("visual.fc", 30, 50, Role.OTHER),))
    assert weight_bytes(model, FORMATS[name]).tower_bytes == 2 * 30 * 50


def test_a_tower_named_below_the_root_module_is_skipped():
    config = {**CONFIGS["int8"], "llm_int8_skip_modules": ["visual"]}
    model = moe_spec(tower=(matrix("model.visual.fc", 30, 50, Role.OTHER),))
    assert weight_bytes(model, parse_quantization(config)).tower_bytes == 2 * 30 * 50


def test_sizes_that_a_layout_cannot_hold_are_refused():
    with pytest.raises(ModelConfigError, match="multiples of 8 and 128"):
        matrix_size({"quant_method": "awq"}, 64, 200)
