"""Stored bytes against the code that stores them.

What cannot be installed together with the test environment was measured once: the tables hold the
bytes of all tensors that the named package made for a real matrix [rows, columns].
"""

from types import SimpleNamespace

import pytest
import torch
from transformers.integrations.eetq import EetqLinear
from transformers.integrations.fbgemm_fp8 import FbgemmFp8Linear
from transformers.integrations.finegrained_fp8 import FP8Experts, FP8Linear
from transformers.integrations.mxfp4 import Mxfp4GptOssExperts

from specmemo_sim.inputs.dtypes import DType
from specmemo_sim.inputs.model import Role
from specmemo_sim.inputs.quantization import parse_quantization
from specmemo_sim.memory.weights import tensor_bytes

from model_inventories import matrix

SHAPES = [(256, 11008), (2880, 2880), (100, 300), (7, 129)]


def predicted(config, rows, columns, role=Role.MLP, count=1):
    tensor = matrix("up_proj", rows, columns, role, count=count)
    name = "model.layers.0.mlp.up_proj.weight"
    return tensor_bytes(tensor, parse_quantization(config), name, DType.BF16)


def module_bytes(module):
    return sum(t.numel() * t.element_size() for t in module.state_dict().values())


@pytest.mark.parametrize(("rows", "columns"), SHAPES)
@pytest.mark.parametrize("scheme", ["dynamic", "static"])
@pytest.mark.parametrize("scales", ["float", "ue8m0"])
@pytest.mark.parametrize("block", [(128, 128), (64, 32), None])
def test_fp8_is_what_transformers_allocates(rows, columns, block, scales, scheme):
    with torch.device("meta"):
        module = FP8Linear(columns, rows, block, activation_scheme=scheme, scale_fmt=scales)
    config = {
        "quant_method": "fp8",
        "weight_block_size": block,
        "scale_fmt": scales,
        "activation_scheme": scheme,
    }
    assert predicted(config, rows, columns) == module_bytes(module)


@pytest.mark.parametrize("expert_dtype", ["fp8", "fp4"])
def test_fp8_experts_are_what_transformers_allocates(expert_dtype):
    """Sizes that the block divides, as transformers fuses gate and up into one matrix."""
    config = SimpleNamespace(
        hidden_size=512, num_experts=3, moe_intermediate_size=256, hidden_act="silu"
    )
    with torch.device("meta"):
        module = FP8Experts(config, block_size=(128, 128), expert_dtype=expert_dtype)
    spec = {"quant_method": "fp8", "weight_block_size": [128, 128], "expert_dtype": expert_dtype}
    up = predicted(spec, 256, 512, Role.EXPERT, count=3)
    down = predicted(spec, 512, 256, Role.EXPERT, count=3)
    assert 2 * up + down == module_bytes(module)


@pytest.mark.parametrize(("rows", "columns"), SHAPES)
def test_fbgemm_fp8_is_what_transformers_allocates(rows, columns):
    with torch.device("meta"):
        module = FbgemmFp8Linear(columns, rows, bias=False)
    assert predicted({"quant_method": "fbgemm_fp8"}, rows, columns) == module_bytes(module)


@pytest.mark.parametrize(("rows", "columns"), SHAPES)
def test_eetq_is_what_transformers_allocates(rows, columns):
    with torch.device("meta"):
        module = EetqLinear(columns, rows)
    assert predicted({"quant_method": "eetq"}, rows, columns) == module_bytes(module)


def test_mxfp4_elements_are_what_transformers_allocates():
    """The module registers the elements; their scales come with the checkpoint, 1 byte per 32."""
    config = SimpleNamespace(num_local_experts=4, intermediate_size=2880, hidden_size=2880)
    with torch.device("meta"):
        module = Mxfp4GptOssExperts(config)
    packed = module.gate_up_proj.numel() + module.down_proj.numel()
    scales = 4 * (2 * 2880 * 90 + 2880 * 90)
    spec = {"quant_method": "mxfp4"}
    gate_up = predicted(spec, 2 * 2880, 2880, Role.EXPERT, count=4)
    down = predicted(spec, 2880, 2880, Role.EXPERT, count=4)
    assert gate_up + down == packed + scales


AWQ = [  # AutoAWQ 0.2.9: version, group size, rows, columns, bytes
    ("gemm", 128, 256, 11008, 1464064),
    ("gemm", 128, 96, 384, 19152),
    ("gemm", 64, 96, 384, 19872),
    ("gemm", 32, 1024, 8192, 4849664),
    ("gemm", -1, 96, 384, 18672),
    ("gemv", 128, 256, 11008, 1465344),
    ("gemv", 64, 96, 384, 22272),
    ("gemv", 32, 96, 384, 26112),
    ("gemv", -1, 256, 11008, 1414144),
    ("gemv_fast", 128, 256, 11008, 1499136),
    ("gemv_fast", 64, 96, 384, 24576),
    ("gemv_fast", 32, 256, 11008, 1769472),
    ("gemv_fast", -1, 1024, 8192, 4227072),
]


@pytest.mark.parametrize(("version", "group", "rows", "columns", "size"), AWQ)
def test_awq_is_what_autoawq_registers(version, group, rows, columns, size):
    config = {"quant_method": "awq", "bits": 4, "group_size": group, "version": version}
    assert predicted(config, rows, columns) == size


GPTQ = [  # GPTQModel 7.7.0: bits, group size, rows, columns, bytes
    (2, 128, 256, 11008, 798080),
    (2, 32, 20, 200, 2176),
    (3, 128, 96, 384, 16044),
    (3, 32, 20, 200, 2656),
    (3, -1, 256, 11008, 1101408),
    (4, 128, 256, 11008, 1508096),
    (4, 128, 20, 200, 2904),
    (4, -1, 20, 200, 2852),
    (8, 128, 20, 200, 4920),
    (8, 32, 96, 384, 41856),
    (8, -1, 256, 11008, 2862848),
]


@pytest.mark.parametrize(("bits", "group", "rows", "columns", "size"), GPTQ)
def test_gptq_is_what_gptqmodel_registers(bits, group, rows, columns, size):
    config = {"quant_method": "gptq", "bits": bits, "group_size": group}
    assert predicted(config, rows, columns) == size


BITSANDBYTES = [  # bitsandbytes 0.50.2: double quantisation, rows, columns, bytes
    (False, 256, 11008, 1585216),
    (False, 24, 200, 2764),
    (False, 7, 130, 579),
    (True, 256, 11008, 1454832 + 4),
    (True, 96, 384, 20108 + 4),
    (True, 7, 130, 1562 + 4),
]
"""The 4 bytes are the fp32 offset, which the package keeps outside its list of tensors."""


@pytest.mark.parametrize("kind", ["nf4", "fp4"])
@pytest.mark.parametrize(("double", "rows", "columns", "size"), BITSANDBYTES)
def test_4_bits_are_what_bitsandbytes_packs(kind, double, rows, columns, size):
    config = {
        "load_in_4bit": True,
        "bnb_4bit_quant_type": kind,
        "bnb_4bit_use_double_quant": double,
    }
    assert predicted(config, rows, columns) == size


@pytest.mark.parametrize(("rows", "columns", "size"), [(256, 11008, 2819072), (7, 130, 938)])
def test_8_bits_are_what_bitsandbytes_packs(rows, columns, size):
    assert predicted({"load_in_8bit": True}, rows, columns) == size


def group(bits, strategy, *, kind="int", **extra):
    return {"num_bits": bits, "type": kind, "strategy": strategy, **extra}


TOKEN = group(8, "token", dynamic=True)
STATIC = group(8, "tensor", dynamic=False)
BY_32 = {"group_size": 32}
COMPRESSED = [  # compressed-tensors 0.20.1: format, weights, activations, rows, columns, bytes
    ("pack-quantized", group(4, "group", **BY_32), None, 24, 160, 2176),
    ("pack-quantized", group(8, "group", **BY_32), None, 24, 160, 4096),
    ("pack-quantized", group(3, "group", **BY_32), None, 24, 160, 1696),
    ("pack-quantized", group(4, "channel"), None, 24, 160, 1984),
    ("pack-quantized", group(4, "group", symmetric=False, **BY_32), None, 24, 160, 2236),
    ("pack-quantized", group(8, "group", symmetric=False, **BY_32), None, 24, 160, 4216),
    ("pack-quantized", group(3, "group", symmetric=False, **BY_32), None, 24, 160, 1756),
    ("pack-quantized", group(3, "group", symmetric=False, **BY_32), None, 256, 1408, 161936),
    ("pack-quantized", group(4, "channel", symmetric=False), None, 24, 160, 1996),
    ("int-quantized", group(8, "channel"), TOKEN, 24, 160, 3888),
    ("int-quantized", group(8, "channel", symmetric=False), TOKEN, 24, 160, 3912),
    ("int-quantized", group(8, "tensor"), STATIC, 24, 160, 3844),
    ("int-quantized", group(8, "tensor", symmetric=False), STATIC, 24, 160, 3845),
    ("float-quantized", group(8, "channel", kind="float"), TOKEN, 24, 160, 3888),
    ("float-quantized", group(8, "tensor", kind="float"), STATIC, 24, 160, 3844),
    (
        "float-quantized",
        group(8, "block", kind="float", block_structure=[128, 32]),
        None,
        256,
        1408,
        360624,
    ),
    ("naive-quantized", group(8, "tensor", kind="float"), None, 24, 160, 3842),
    (
        "nvfp4-pack-quantized",
        group(4, "tensor_group", kind="float", group_size=16),
        group(4, "tensor_group", kind="float", group_size=16, dynamic="local"),
        24,
        160,
        2168,
    ),
    ("mxfp4-pack-quantized", group(4, "group", kind="float", **BY_32), None, 24, 160, 2040),
    ("mxfp8-quantized", group(8, "group", kind="float", **BY_32), None, 24, 160, 3960),
]


@pytest.mark.parametrize(("form", "weights", "inputs", "rows", "columns", "size"), COMPRESSED)
def test_compressed_tensors_are_what_its_compressors_make(
    form, weights, inputs, rows, columns, size
):
    one = {"targets": ["Linear"], "weights": weights, "input_activations": inputs}
    config = {"quant_method": "compressed-tensors", "format": form, "config_groups": {"g": one}}
    assert predicted(config, rows, columns) == size


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize(("rows", "columns"), [(96, 384), (7, 130)])
def test_4_bits_are_what_an_installed_bitsandbytes_packs(double, rows, columns):
    bitsandbytes = pytest.importorskip("bitsandbytes")
    packed, state = bitsandbytes.functional.quantize_4bit(
        torch.ones(rows, columns), blocksize=64, compress_statistics=double, quant_type="nf4"
    )
    tensors = [packed, *(t for t in state.as_dict().values() if isinstance(t, torch.Tensor))]
    size = sum(t.numel() * t.element_size() for t in tensors) + (4 if double else 0)
    config = {"load_in_4bit": True, "bnb_4bit_use_double_quant": double}
    assert predicted(config, rows, columns) == size
