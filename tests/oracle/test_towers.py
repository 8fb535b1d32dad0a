"""Vision and audio towers against transformers: all parameters outside the language model."""

import re
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import (
    CONFIG_MAPPING,
    AutoModelForImageTextToText,
    Qwen2AudioForConditionalGeneration,
    VoxtralForConditionalGeneration,
)

from oracle.tower_cases import CASES, QWEN_VIT, VIT
from specmemo_sim.errors import ModelConfigError
from specmemo_sim.inputs.families.towers import tower_tensors
from specmemo_sim.inputs.hf_config import model_from_config
from specmemo_sim.inputs.model import Tensor

LANGUAGE = ("language_model", "text_model", "lm_head")
SPEECH = {
    "qwen2_audio": Qwen2AudioForConditionalGeneration,
    "voxtral": VoxtralForConditionalGeneration,
}


def _their_parameters(given: dict[str, Any]) -> list[tuple[str, int]]:
    rest = {key: value for key, value in given.items() if key != "model_type"}
    config = CONFIG_MAPPING[given["model_type"]](**rest)
    with torch.device("meta"):
        kind = SPEECH.get(given["model_type"])
        model = kind(config) if kind else AutoModelForImageTextToText.from_config(config)
    return [(name, parameter.numel()) for name, parameter in model.named_parameters()]


def _outside_language(named: list[tuple[str, int]]) -> int:
    return sum(size for name, size in named if not any(part in name for part in LANGUAGE))


def _counted(tensors: list[Tensor]) -> int:
    return sum(tensor.num_elements for tensor in tensors if not tensor.buffer)


@pytest.mark.parametrize("given", CASES.values(), ids=CASES.keys())
def test_towers_and_projector_have_the_parameters_of_transformers(given):
    tensors, missing = tower_tensors(given, 48, "tiny")
    assert missing == ""
    assert _counted(tensors) == _outside_language(_their_parameters(given))


WHOLE = [name for name in CASES if name not in ("llama4", "qwen3_vl")]


@pytest.mark.parametrize("name", WHOLE)
def test_language_model_and_towers_add_up_to_the_whole_model(name):
    # Stated, since a wrapper's own default of tying is left aside where the file says nothing.
    wraps_tied = CASES[name]["model_type"] in ("mistral3", "internvl")
    given = {"tie_word_embeddings": True, **CASES[name]} if wraps_tied else CASES[name]
    spec = model_from_config(given, name)
    total = sum(size for _, size in _their_parameters(given))
    assert spec.num_parameters + spec.num_tower_parameters == total


VISION_SIZES = st.fixed_dictionaries(
    {
        "hidden_size": st.sampled_from([8, 16, 24, 40]),
        "intermediate_size": st.integers(4, 70),
        "num_hidden_layers": st.integers(1, 4),
        "image_size": st.sampled_from([32, 40, 50]),
        "patch_size": st.sampled_from([4, 8, 10]),
        "num_channels": st.sampled_from([1, 3]),
    }
)
PLAIN = [
    name
    for name, case in CASES.items()
    if VIT.items() <= case.get("vision_config", {}).items() and name not in ("mllama", "llama4")
]


@settings(max_examples=30, deadline=None)
@given(name=st.sampled_from(PLAIN), sizes=VISION_SIZES, text_size=st.sampled_from([32, 48, 64]))
def test_random_vision_sizes_give_the_parameters_of_transformers(name, sizes, text_size):
    case = CASES[name]
    text = case["text_config"] | {"hidden_size": text_size}
    given = case | {"text_config": text, "vision_config": case["vision_config"] | sizes}
    tensors, missing = tower_tensors(given, text_size, name)
    assert missing == ""
    assert _counted(tensors) == _outside_language(_their_parameters(given))


PUBLISHED = [
    # (whole configuration's type, hidden size, vision part as released, millions, source)
    (
        "gemma3",
        2560,
        {
            "model_type": "siglip_vision_model", "hidden_size": 1152, "intermediate_size": 4304,
            "num_attention_heads": 16, "num_hidden_layers": 27, "patch_size": 14,
            "image_size": 896, "vision_use_head": False,
        },
        417,  # Gemma 3 report, arXiv:2503.19786, table 1: 417 million
    ),
    (
        "qwen2_vl",
        3584,
        {"depth": 32, "embed_dim": 1280, "hidden_size": 3584, "mlp_ratio": 4, "num_heads": 16},
        675,  # Qwen2-VL report, arXiv:2409.12191, table 1: 675 million, merger included
    ),
]  # fmt: skip


@pytest.mark.parametrize(("outer", "hidden", "vision", "millions"), PUBLISHED)
def test_a_released_tower_has_its_published_size(outer, hidden, vision, millions):
    tensors, _ = tower_tensors({"model_type": outer, "vision_config": vision}, hidden, outer)
    tower = [tensor for tensor in tensors if "multi_modal_projector" not in tensor.name]
    assert _counted(tower) / 1e6 == pytest.approx(millions, rel=0.005)


NOT_COUNTED = [
    (
        {"model_type": "llava", "vision_config": {"model_type": "swin"}},
        "'swin' is of no known type",
    ),
    ({"model_type": "x", "vision_config": {"depth": 3}}, "without model_type is of no known type"),
    ({"model_type": "gemma3n", "vision_config": {}}, "'gemma3n_vision' is of no known type"),
    ({"model_type": "mistral3", "hidden_size": 8}, "vision_config is missing"),
    ({"model_type": "phi3_v", "img_processor": {"name": "clip"}}, "img_processor describes"),
    ({"model_type": "llava", "vision_config": [1]}, "vision_config is not an object"),
]


@pytest.mark.parametrize(("config", "reason"), NOT_COUNTED)
def test_a_tower_that_is_not_counted_is_named(config, reason):
    tensors, missing = tower_tensors(config, 48, "model")
    assert tensors == []
    assert reason in missing


def test_a_tower_with_an_unknown_projector_counts_without_it():
    vision = {"model_type": "siglip_vision_model", **VIT}
    alone, _ = tower_tensors({"model_type": "new_vl", "vision_config": vision}, 48, "model")
    whole, _ = tower_tensors({"model_type": "paligemma", "vision_config": vision}, 48, "model")
    assert 0 < _counted(alone) < _counted(whole)
    assert "projector" in tower_tensors({"model_type": "y", "vision_config": vision}, 48, "m")[1]


@pytest.mark.parametrize("model_type", ["llama", "qwen3_5_text", "mllama_text_model", "gemma4"])
def test_a_plain_language_model_has_no_tower(model_type):
    assert tower_tensors({"model_type": model_type}, 48, "model") == ([], "")


def test_omni_models_count_the_thinkers_vision_and_name_the_rest():
    thinker = {"vision_config": QWEN_VIT, "audio_config": {}}
    config = {"model_type": "qwen2_5_omni", "thinker_config": thinker, "talker_config": {"a": 1}}
    tensors, missing = tower_tensors(config, 48, "omni")
    direct = {"model_type": "qwen2_5_vl", "vision_config": QWEN_VIT}
    assert _counted(tensors) == _counted(tower_tensors(direct, 48, "vl")[0])
    assert "audio tower" in missing
    assert "talker_config" in missing


BROKEN = [
    ({"hidden_size": 0}, "out of range"),
    ({"image_size": 4}, "smaller than patch_size"),
    ({"image_size": [40, 40, 40]}, "one size or two"),
    ({"num_hidden_layers": "three"}, "whole number"),
]


@pytest.mark.parametrize(("over", "problem"), BROKEN)
def test_an_impossible_size_is_refused_in_one_line(over, problem):
    config = {"model_type": "llava", "vision_config": VIT | over}
    with pytest.raises(ModelConfigError, match=re.escape(problem)) as caught:
        tower_tensors(config, 48, "model")
    assert "\n" not in str(caught.value)
