"""Where a model comes from: an id, a config.json, a folder, a safetensors index."""

import json
import struct

import pytest

from specmemo_sim.errors import InputError
from specmemo_sim.inputs.catalog import model_ids
from specmemo_sim.inputs.model_source import load_model

CONFIG = {
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 256,
    "max_position_embeddings": 512, "torch_dtype": "float16",
}  # fmt: skip
# 2 * 256 * 64 vocabulary, 2 * (2*64*64 + 2*32*64 + 3*128*64 + 2*64) layers, 64 final norm
PARAMETERS = 2 * 256 * 64 + 2 * (2 * 64 * 64 + 2 * 32 * 64 + 3 * 128 * 64 + 2 * 64) + 64


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "my-model"
    path.mkdir()
    (path / "config.json").write_text(json.dumps(CONFIG))
    return path


def safetensors(path, sizes):
    """A file with the right header and a sparse body."""
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, size in sizes.items():
        header[name] = {"dtype": "F16", "shape": [size], "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text)


def test_a_config_and_its_folder_give_the_same_model(folder):
    from_file = load_model(str(folder / "config.json"))
    from_folder = load_model(str(folder))
    assert from_file.num_parameters == from_folder.num_parameters == PARAMETERS
    assert from_file.name == from_folder.name == "my-model"
    assert from_folder.checkpoint_bytes is None


def test_an_index_adds_the_checkpoints_size(folder):
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 123456}, "weight_map": {}}))
    assert load_model(str(index)).checkpoint_bytes == 123456
    assert load_model(str(folder)).checkpoint_bytes == 123456


def test_weight_files_are_sized_from_their_headers(folder):
    safetensors(folder / "model-00001.safetensors", {"a": 100, "b": 20})
    safetensors(folder / "model-00002.safetensors", {"c": 3})
    assert load_model(str(folder)).checkpoint_bytes == 123


@pytest.mark.parametrize(
    "content",
    [b"", b"\x00" * 8, b"\xff" * 8, struct.pack("<Q", 50) + b"{", struct.pack("<Q", 2) + b"[]",
     struct.pack("<Q", 11) + b'{"a": null}',
     struct.pack("<Q", 36) + b'{"a": {"data_offsets": [9, -900000]}}'],
)  # fmt: skip
def test_a_damaged_weight_file_is_refused(content, folder):
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(InputError) as caught:
        load_model(str(folder))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("size", [None, "big", -1, True, 2**70, 1.5])
def test_an_index_without_a_size_is_refused(size, folder):
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": size}, "weight_map": {}}))
    with pytest.raises(InputError):
        load_model(str(index))


def test_an_index_without_its_config_is_refused(tmp_path):
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 5}, "weight_map": {}}))
    with pytest.raises(InputError, match=r"config\.json"):
        load_model(str(index))


@pytest.mark.parametrize("source", ["", "  ", "a\0b", "x" * 5000, "./nothing", "~/nothing.json"])
def test_what_names_nothing_is_refused(source):
    with pytest.raises(InputError):
        load_model(source)


def test_a_short_name_is_enough_when_it_is_unique():
    assert load_model("vicuna-7b-v1.3") == load_model("lmsys/vicuna-7b-v1.3")


INCOMPLETE = {
    "Qwen/Qwen3.5-9B",
    "google/gemma-4-12b",
    "nvidia/Llama-3_3-Nemotron-Super-49B-v1",
}
"""Bundled entries whose facts are too few, each refused by name of what is missing."""


@pytest.mark.parametrize("model_id", model_ids())
def test_every_bundled_model_can_be_read_or_says_what_is_missing(model_id):
    if model_id in INCOMPLETE:
        with pytest.raises(InputError, match=r"missing|block_configs"):
            load_model(model_id)
        return
    model = load_model(model_id)
    assert model.num_parameters > 10**6
    assert model.source
