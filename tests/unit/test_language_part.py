"""Where the language model of a configuration is, and what decides its family and its tying."""

import json

import pytest

from specmemo_sim.errors import ModelConfigError
from specmemo_sim.inputs.dtypes import DType
from specmemo_sim.inputs.hf_config import model_from_config
from specmemo_sim.inputs.language_part import language_part
from specmemo_sim.inputs.model_source import load_model
from specmemo_sim.inputs.quantization import parse_quantization
from specmemo_sim.memory.weights import weight_bytes

LLAMA = {
    "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "vocab_size": 256,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512,
}  # fmt: skip


@pytest.mark.parametrize(
    ("architecture", "family"),
    [
        ("LlamaForCausalLM", "llama"),
        ("DeepseekV3ForCausalLM", "deepseek_v3"),
        ("GPT2LMHeadModel", "gpt2"),
        ("MiniCPMForCausalLM", "minicpm"),
        ("Qwen3MoeForCausalLM", "qwen3_moe"),
        ("RWForCausalLM", "falcon"),
        ("BaichuanForCausalLM", "baichuan"),
    ],
)
def test_a_file_without_a_type_is_read_by_its_class_name(architecture, family):
    assert language_part({"architectures": [architecture]}, "x")[1] == family


def test_a_file_that_names_neither_is_refused():
    for config in ({}, {"architectures": ["UnheardOfForCausalLM"]}, {"architectures": "Llama"}):
        with pytest.raises(ModelConfigError, match="model_type is missing"):
            language_part(config, "x")


def test_the_reading_by_class_name_is_noted():
    model = model_from_config({**LLAMA, "architectures": ["LlamaForCausalLM"]}, "x")
    assert "model_type is not stated; read as llama" in model.notes


@pytest.mark.parametrize(
    ("config", "family"),
    [
        ({"model_type": "llava", "architectures": ["LlavaLlamaForCausalLM"]}, "llama"),
        ({"model_type": "llava", "architectures": ["LlavaMistralForCausalLM"]}, "mistral"),
        ({"model_type": "minicpmv", "version": 2.6}, "qwen2"),
        ({"model_type": "minicpmv", "version": 2.5}, "llama"),
        ({"model_type": "phi3_v"}, "phi3"),
        ({"model_type": "kimi_vl", "text_config": {}}, "deepseek_v3"),
        ({"model_type": "llava", "text_config": {"vocab_size": 5}}, "llama"),
        ({"model_type": "gemma3", "text_config": {}}, "gemma3_text"),
        (
            {"model_type": "x", "language_config": {"architectures": ["DeepseekV2ForCausalLM"]}},
            "deepseek_v2",
        ),
        (
            {"model_type": "q", "thinker_config": {"text_config": {"model_type": "qwen2"}}},
            "qwen2",
        ),
    ],
)
def test_flat_and_nested_wrappers_lead_to_their_language_model(config, family):
    assert language_part(config, "x")[1] == family


@pytest.mark.parametrize(
    ("wrapper", "outer", "inner", "tied"),
    [
        # Mistral-Small-3.1 states it nowhere and holds both matrices: 24,011,361,280 parameters.
        ("mistral3", None, None, False),
        ("mistral3", True, None, True),
        ("mistral3", None, True, True),
        ("internvl", None, None, False),
        # llava-onevision-qwen2-0.5b: the wrapper says false, the text part true, the file ties.
        ("llava_onevision", False, True, True),
        ("llava_onevision", False, False, False),
        ("qwen2_5_vl", False, True, False),
    ],
)
def test_tying_is_what_the_whole_configuration_says(wrapper, outer, inner, tied):
    text = {**LLAMA, "model_type": "mistral"}
    config = {"model_type": wrapper, "text_config": text}
    if outer is not None:
        config["tie_word_embeddings"] = outer
    if inner is not None:
        text["tie_word_embeddings"] = inner
    model = model_from_config(config, "x")
    assert model.tie_word_embeddings is tied
    assert any(t.name == "lm_head.weight" for t in model.outer) is not tied


def test_the_wrappers_dtype_decides():
    text = {**LLAMA, "model_type": "llama", "torch_dtype": "bfloat16"}
    outer = {"model_type": "idefics3", "torch_dtype": "float32", "text_config": text}
    assert model_from_config(outer, "x").dtype is DType.FP32
    del outer["torch_dtype"]
    assert model_from_config(outer, "x").dtype is DType.BF16


def test_a_tower_in_other_words_is_named_as_missing():
    config = {**LLAMA, "model_type": "phi3_v", "img_processor": {"name": "clip"}}
    assert "img_processor" in model_from_config(config, "x").tower_missing


AWQ = {"bits": 4, "group_size": 32, "zero_point": True, "version": "gemm"}


@pytest.mark.parametrize("key", ["quantization_config", "compression_config"])
def test_settings_are_found_under_the_name_of_their_tool(key):
    config = {**LLAMA, "model_type": "llama", key: {"quant_method": "awq", **AWQ}}
    assert model_from_config(config, "x").quantization == config[key]


@pytest.mark.parametrize(
    ("file_name", "settings", "method"),
    [
        ("quantize_config.json", {"bits": 4, "group_size": 64, "desc_act": False}, "gptq"),
        ("quant_config.json", {"w_bit": 4, "q_group_size": 64, "zero_point": True}, "awq"),
        ("hf_quant_config.json", {"quantization": {"quant_algo": "FP8"}}, "modelopt"),
    ],
)
def test_settings_beside_the_configuration_are_read(file_name, settings, method, tmp_path):
    (tmp_path / "config.json").write_text(
        json.dumps({**LLAMA, "hidden_size": 128, "model_type": "llama", "torch_dtype": "float16"})
    )
    plain = load_model(str(tmp_path))
    (tmp_path / file_name).write_text(json.dumps(settings))
    model = load_model(str(tmp_path))
    assert model.quantization["quant_method"] == method
    fewer = weight_bytes(model, parse_quantization(model.quantization)).total
    assert fewer < weight_bytes(plain, parse_quantization(None)).total


def test_an_open_limit_is_accepted_where_no_size_depends_on_it(tmp_path):
    """Mamba-2 configurations hold ``"time_step_limit": [0.0, Infinity]``."""
    path = tmp_path / "config.json"
    text = json.dumps({**LLAMA, "model_type": "llama", "time_step_limit": [0.0, float("inf")]})
    path.write_text(text)
    assert load_model(str(path)).num_parameters > 0
    path.write_text(text.replace("Infinity", "NaN"))
    with pytest.raises(ModelConfigError, match="NaN"):
        load_model(str(path))
