"""MLX and AutoRound: bytes their packages make, published files, and choices per module."""

import pytest

from specmemo_sim.inputs.dtypes import DType
from specmemo_sim.inputs.model import Role
from specmemo_sim.inputs.model_source import load_model
from specmemo_sim.inputs.quantization import parse_quantization
from specmemo_sim.memory.weights import tensor_bytes, weight_bytes

from model_inventories import matrix

MLX = {"group_size": 64, "bits": 4}
AUTO_ROUND = {"quant_method": "auto-round", "bits": 4, "group_size": 128}
PACKED_BY_MLX = [  # MLX 0.32.4, Linear and Embedding in bf16: rows, columns, bits, group, bytes
    (256, 11008, 2, 32, 1056768),
    (256, 11008, 3, 64, 1232896),
    (256, 11008, 4, 64, 1585152),
    (256, 11008, 5, 128, 1849344),
    (2880, 2880, 6, 64, 6739200),
    (2880, 2880, 8, 32, 9331200),
    (100, 320, 3, 32, 16000),
    (7, 128, 5, 64, 616),
    (7, 128, 8, 128, 924),
]


def stored(config, path, rows=256, columns=512, role=Role.MLP):
    """Bytes of a matrix with this path from the root."""
    tensor = matrix(path.rpartition(".")[2], rows, columns, role)
    return tensor_bytes(tensor, parse_quantization(config), f"{path}.weight", DType.BF16)


@pytest.mark.parametrize("role", [Role.MLP, Role.EMBEDDING, Role.LM_HEAD, Role.EXPERT])
@pytest.mark.parametrize(("rows", "columns", "bits", "group", "size"), PACKED_BY_MLX)
def test_mlx_matrices_and_embeddings_have_the_bytes_that_mlx_makes(
    rows, columns, bits, group, size, role
):
    config = {"bits": bits, "group_size": group}
    assert stored(config, "model.x", rows, columns, role) == size


def test_llama_3_1_8b_of_mlx_is_4_52_gb_with_every_matrix_at_4_5_bits():
    """Published: 4.52 GB on the page of mlx-community/Meta-Llama-3.1-8B-Instruct-4bit."""
    stored_bytes = weight_bytes(load_model("meta-llama/Llama-3.1-8B"), parse_quantization(MLX))
    assert round(stored_bytes.total / 1e9, 2) == 4.52
    assert stored_bytes.role_bytes(Role.EMBEDDING) * 8 == 128256 * 4096 * 4.5


def test_mlx_leaves_a_matrix_that_its_groups_do_not_divide():
    assert stored(MLX, "model.x", 10, 96) == 2 * 10 * 96
    assert stored({"group_size": 32, "bits": 4}, "model.x", 10, 96) < 2 * 10 * 96


PLAIN, FOUR, EIGHT = 2 * 256 * 512, 256 * 512 * 9 // 16, 256 * 512 * 17 // 16
ENTRIES = [
    ("model.layers.1.mlp.down_proj", False, "model.layers.1.mlp.down_proj", PLAIN),
    ("model.layers.1.mlp.down_proj", True, "model.layers.1.mlp.down_proj", FOUR),
    ("model.layers.1.mlp.down_proj", {"bits": 8}, "model.layers.1.mlp.down_proj", EIGHT),
    ("model.layers.1.mlp.down_proj", {"bits": 8}, "model.layers.11.mlp.down_proj", FOUR),
    ("language_model.lm_head", {"bits": 8}, "lm_head", EIGHT),
    ("model.language_model.layers.1.mlp.x", {"bits": 8}, "model.layers.1.mlp.x", EIGHT),
    ("model.layers.1.mlp.switch_mlp.x", {"bits": 8}, "model.layers.1.mlp.experts.7.x", EIGHT),
    (
        "model.layers.1.block_sparse_moe.switch_mlp.up_proj",
        {"bits": 8},
        "model.layers.1.block_sparse_moe.experts.7.w3",
        EIGHT,
    ),
]


@pytest.mark.parametrize(("key", "entry", "path", "size"), ENTRIES)
def test_an_entry_of_mlx_decides_for_the_module_it_names_and_no_other(key, entry, path, size):
    assert stored({**MLX, key: entry}, path) == size


def test_mlx_quantises_a_router_only_where_an_entry_names_it():
    gate = "model.layers.0.mlp.gate"
    assert stored(MLX, gate, role=Role.ROUTER) == PLAIN
    assert stored({**MLX, gate: {"group_size": 64, "bits": 8}}, gate, role=Role.ROUTER) == EIGHT


@pytest.mark.parametrize("spelling", ["auto-round", "intel/auto-round"])
@pytest.mark.parametrize(
    ("packing", "twin"),
    [
        ({"packing_format": "auto_round:auto_awq"}, "awq"),
        ({"packing_format": "auto_gptq"}, "gptq"),
        ({"packing_format": "auto_round:gptqmodel"}, "gptq"),
    ],
)
def test_auto_round_stores_as_the_packing_it_names(spelling, packing, twin):
    config = {**AUTO_ROUND, "quant_method": spelling, **packing}
    other = {"quant_method": twin, "bits": 4, "group_size": 128}
    assert stored(config, "model.layers.0.x") == stored(other, "model.layers.0.x")


@pytest.mark.parametrize(
    "packing",
    [{}, {"packing_format": "auto_round:auto_gptq"}, {"backend": "auto_round:gptq:exllamav2"}],
)
def test_the_own_format_of_auto_round_has_no_group_index(packing):
    """AutoRound 0.16 registers it for GPTQ's exporters only: 4 bytes per input feature less."""
    gptq = {"quant_method": "gptq", "bits": 4, "group_size": 128}
    own = stored({**AUTO_ROUND, **packing}, "model.layers.0.x")
    assert stored(gptq, "model.layers.0.x") - own == 4 * 512


@pytest.mark.parametrize("path", ["model.layers.0.x", "lm_head"])
def test_an_entry_of_auto_round_keeps_or_quantises_its_module(path):
    role = Role.LM_HEAD if path == "lm_head" else Role.MLP
    kept = {**AUTO_ROUND, "extra_config": {path: {"bits": 16, "data_type": "fp"}}}
    eight = {**AUTO_ROUND, "extra_config": {path: {"bits": 8}}}
    assert stored(kept, path, role=role) == PLAIN
    assert stored(eight, path, role=role) == stored({**AUTO_ROUND, "bits": 8}, "model.layers.0.x")
    assert stored(AUTO_ROUND, "lm_head", role=Role.LM_HEAD) == PLAIN
