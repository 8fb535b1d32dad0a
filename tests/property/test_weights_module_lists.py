"""Each method reads its lists of modules in its own way, per layer and per expert."""

import pytest

from specmemo_sim.inputs.model import Role
from specmemo_sim.inputs.quantization import parse_quantization
from specmemo_sim.memory.weights import weight_bytes

from model_inventories import moe_spec

FP8_CONFIG = {"quant_method": "fp8", "weight_block_size": [128, 128]}
GPTQ_CONFIG = {"quant_method": "gptq", "bits": 4, "group_size": 64}
MODELOPT_CONFIG = {"quant_method": "modelopt", "quant_algo": "NVFP4"}


def quantised(config, **sizes):
    return weight_bytes(moe_spec(**sizes), parse_quantization(config)).quantized_parameters


INT8_GROUP = {"weights": {"num_bits": 8, "strategy": "channel"}, "format": "int-quantized"}


def compressed(ignore=(), **targets):
    groups = {name: {**INT8_GROUP, "targets": list(t)} for name, t in targets.items()}
    return {"quant_method": "compressed-tensors", "config_groups": groups, "ignore": list(ignore)}


ATTENTION = 2 * 256 * 256 + 2 * 128 * 256
HEAD = 1024 * 256
EXPERT = 3 * 128 * 256
ALL = 13 * ATTENTION + 12 * 8 * EXPERT + EXPERT


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({**FP8_CONFIG}, ALL),
        ({**FP8_CONFIG, "modules_to_not_convert": []}, ALL + HEAD),
        ({**FP8_CONFIG, "modules_to_not_convert": ["lm_head"]}, ALL),
        (
            {**FP8_CONFIG, "modules_to_not_convert": ["lm_head", "model.layers.1"]},
            ALL - ATTENTION - 8 * EXPERT,
        ),
        (
            {**FP8_CONFIG, "modules_to_not_convert": ["lm_head", "model.layers.1.mlp"]},
            ALL - 8 * EXPERT,
        ),
        ({**FP8_CONFIG, "ignored_layers": ["lm_head", "q_proj"]}, ALL - 13 * 256 * 256),
        (
            {**FP8_CONFIG, "modules_to_not_convert": ["lm_head", r".*experts\.[0-3]\."]},
            ALL - 48 * EXPERT,
        ),
        (
            {**FP8_CONFIG, "modules_to_not_convert": ["lm_head", "1.self_attn.q_proj"]},
            ALL - 2 * 256 * 256,
        ),
        (
            {**FP8_CONFIG, "modules_to_not_convert": ["lm_head", "mlp.experts"]},
            ALL - 12 * 8 * EXPERT,
        ),
        ({"quant_method": "mxfp4"}, 12 * 8 * EXPERT),
        (
            {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.1.mlp"]},
            11 * 8 * EXPERT,
        ),
        ({"quant_method": "awq", "modules_to_not_convert": ["self_attn"]}, ALL),
        ({**GPTQ_CONFIG, "lm_head": True}, ALL + HEAD),
        ({**GPTQ_CONFIG, "dynamic": {r"-:.*self_attn": {}}}, ALL - 13 * ATTENTION),
        (
            {**GPTQ_CONFIG, "modules_in_block_to_quantize": [["self_attn.q_proj"]]},
            13 * 256 * 256,
        ),
        (compressed(all=["Linear"]), ALL + HEAD),
        (compressed(["lm_head"], all=["Linear"]), ALL),
        (compressed(["lm_head", "re:.*self_attn.*"], all=["Linear"]), ALL - 13 * ATTENTION),
        (
            compressed(["lm_head", r"re:.*layers\.(0|1)\..*"], all=["Linear"]),
            ALL - 2 * ATTENTION - 9 * EXPERT,
        ),
        (compressed(["lm_head", "model.layers.1.self_attn"], all=["Linear"]), ALL),
        (compressed(a=[r"re:.*experts\.\d+\.up_proj$"]), 12 * 8 * EXPERT // 3),
        (compressed(a=["model.layers.12.self_attn.q_proj"]), 256 * 256),
        (compressed(a=["Embedding"]), HEAD),
        ({**MODELOPT_CONFIG, "ignore": ["lm_head"]}, ALL),
        (
            {**MODELOPT_CONFIG, "ignore": ["lm_head", "model.layers.1"]},
            ALL - ATTENTION - 8 * EXPERT,
        ),
        (
            {**MODELOPT_CONFIG, "ignore": ["lm_head", "model.layers.1*"]},
            ALL - 4 * ATTENTION - 32 * EXPERT,
        ),
        ({**MODELOPT_CONFIG, "ignore": ["*self_attn*"]}, ALL + HEAD - 13 * ATTENTION),
    ],
)
def test_each_method_reads_its_module_lists_in_its_own_way(config, expected):
    """Thirteen layers, so that layer 1 must not be taken for layers 10 to 12."""
    assert quantised(config, layers=13) == expected


def test_a_group_named_more_exactly_wins():
    int4 = {"num_bits": 4, "strategy": "channel"}
    config = compressed(["lm_head"], all=["Linear"])
    config["config_groups"]["z"] = {
        "targets": ["re:.*experts.*"],
        "format": "pack-quantized",
        "weights": int4,
    }
    model = moe_spec()
    fmt = parse_quantization(config)
    assert weight_bytes(model, fmt).role_bytes(Role.EXPERT) < 3 * 8 * EXPERT * 0.6
    assert weight_bytes(model, fmt).role_bytes(Role.MLP) > EXPERT
