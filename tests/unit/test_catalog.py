"""Names find one thing or fail with candidates; one look-up reads one file."""

import pytest

import device_catalog
from specmemo_sim.errors import CatalogError, InputError
from specmemo_sim.inputs import catalog
from specmemo_sim.inputs.catalog import (
    device_ids,
    load_device,
    load_devices,
    load_model_entry,
    match_name,
    model_ids,
    nearest_names,
)


def refusal(load, name):
    with pytest.raises(CatalogError) as caught:
        load(name)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 700
    return message


def test_an_id_is_found_in_any_case():
    assert load_device("NVIDIA-RTX-4090") is load_device("nvidia-rtx-4090")


def test_an_alias_fails_and_lists_every_device_it_could_mean():
    message = refusal(load_device, "A100")
    for form in ("pcie-40gb", "pcie-80gb", "sxm-40gb", "sxm-80gb"):
        assert f"nvidia-a100-{form}" in message


def test_the_name_nvidia_smi_prints_leads_to_the_laptop_part_alone():
    message = refusal(load_device, "NVIDIA GeForce RTX 4090 Laptop GPU")
    assert "did you mean nvidia-rtx-4090-laptop, or" in message


def test_a_misspelt_name_suggests_at_most_three():
    near = nearest_names("nvidia-rxt-4909", device_ids())
    assert "nvidia-rtx-4090" in near
    assert len(near) <= 3


@pytest.mark.parametrize("name", ["", " ", "zzzz", "\0", "a\nb", "x" * 100_000, "..", "%s{0}"])
def test_nonsense_gives_one_short_line(name):
    refusal(load_device, name)
    refusal(load_model_entry, name)


def test_a_name_never_reaches_outside_the_catalogue_folder():
    assert "does not exist" in refusal(load_device, "../devices/nvidia-t4")
    assert "not in the catalogue" in refusal(load_model_entry, "../models/openai--gpt-oss-20b")


def test_a_file_of_ones_own_is_loaded_by_its_path(tmp_path):
    text = (device_catalog.DEVICES / "nvidia-t4.toml").read_text(encoding="utf-8")
    own = tmp_path / "own.toml"
    own.write_text(text.replace('id = "nvidia-t4"', 'id = "own"').replace("16 GiB", "17 GiB"))
    device = load_device(own)
    assert device.id == "own"
    assert device.memory.capacity == 17 * 2**30
    assert load_device(str(own)) == device


def test_a_damaged_file_of_ones_own_names_file_and_field(tmp_path):
    own = tmp_path / "own.toml"
    text = (device_catalog.DEVICES / "nvidia-t4.toml").read_text(encoding="utf-8")
    own.write_text(text.replace("bandwidth =", "bandwith ="))
    message = refusal(load_device, str(own))
    assert "own.toml" in message
    assert "memory.bandwith" in message


def test_loading_one_device_reads_one_file(monkeypatch):
    read = []
    original = catalog.read_toml
    monkeypatch.setattr(catalog, "read_toml", lambda p, **k: read.append(p) or original(p, **k))
    catalog._bundled_device.cache_clear()
    load_device("nvidia-l4")
    load_device("nvidia-l4")
    assert [path.name for path in read] == ["nvidia-l4.toml"]


def test_all_devices_come_in_the_order_of_their_ids():
    assert tuple(device.id for device in load_devices()) == device_ids()
    assert list(device_ids()) == sorted(device_ids())


@pytest.mark.parametrize("model_id", model_ids())
def test_every_model_file_holds_facts_and_nothing_made_up(model_id):
    entry = load_model_entry(model_id)
    assert entry.id == model_id
    assert entry.config["model_type"]
    assert entry.config["num_hidden_layers"] >= 1
    assert not any(key.startswith("derived") or key == "source" for key in entry.config)
    assert ("*" in entry.unverified) == (entry.source == "unverified")
    assert all(name == "*" or name.isidentifier() for name in entry.unverified)


def test_known_models_have_their_published_dimensions():
    config = load_model_entry("meta-llama/Llama-2-7b-hf").config
    assert (config["hidden_size"], config["num_hidden_layers"], config["vocab_size"]) == (
        4096,
        32,
        32000,
    )
    assert "head_dim" not in config  # the file on the Hub has none: it is hidden size over heads
    mixtral = load_model_entry("mistralai/Mixtral-8x7B-v0.1").config
    assert (mixtral["num_local_experts"], mixtral["num_experts_per_tok"]) == (8, 2)
    assert load_model_entry("Qwen/Qwen3-0.6B").config["head_dim"] == 128
    assert load_model_entry("deepseek-ai/DeepSeek-R1").quantization == "fp8"
    assert load_model_entry("yuhuili/EAGLE-Vicuna-7B-v1.3").kind == "eagle-1/2 draft head"
    facts = load_model_entry("openai/gpt-oss-20b").facts["layer_type_counts"]
    assert facts == {"sliding_attention": 12, "full_attention": 12}


def test_a_short_name_is_enough_if_only_one_organisation_uses_it():
    assert load_model_entry("llama-2-7b-HF").id == "meta-llama/Llama-2-7b-hf"


def test_a_short_name_of_several_organisations_matches_all_and_an_exact_id_only_itself():
    ids = ("a/Same", "b/same", "c/other")
    assert match_name("SAME", ids) == ("a/Same", "b/same")
    assert match_name("B/Same", ids) == ("b/same",)
    assert match_name("sam", ids) == ()


def test_an_ambiguous_model_lists_all_matches(monkeypatch):
    monkeypatch.setattr(catalog, "model_ids", lambda: ("a/Same", "b/same"))
    assert "ambiguous: a/Same, b/same" in refusal(load_model_entry, "same")


def test_an_unknown_model_suggests_near_names():
    assert "meta-llama/Llama-3.1-8B" in refusal(load_model_entry, "lama-3.1-8b")


def test_changing_an_entry_does_not_change_the_next_one():
    load_model_entry("Qwen/Qwen3-8B").config["hidden_size"] = 1
    assert load_model_entry("Qwen/Qwen3-8B").config["hidden_size"] == 4096


def test_catalogue_errors_are_input_errors():
    assert issubclass(CatalogError, InputError)
