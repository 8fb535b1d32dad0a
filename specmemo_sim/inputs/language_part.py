"""Which part of a configuration is the language model, its family, and how it is tied."""

from collections.abc import Mapping
from functools import cache

from specmemo_sim.errors import ModelConfigError
from specmemo_sim.inputs.config_reader import class_defaults

_TEXT_KEYS = ("text_config", "llm_config", "language_config", "thinker_config", "llm_cfg")
_TYPE_ALIASES = {
    "RefinedWeb": "falcon",
    "RefinedWebModel": "falcon",
    "gemma3": "gemma3_text",
    "gemma3n": "gemma3n_text",
    "gemma4": "gemma4_text",
    "llama4": "llama4_text",
    "mistral3": "mistral",
    "mllama": "mllama_text_model",
    "phi3_v": "phi3",
    "phi4mm": "phi3",
    "phi4_multimodal": "phi3",
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
    "qwen2_vl": "qwen2",
    "qwen2_vl_text": "qwen2",
    "qwen2_5_vl": "qwen2",
    "qwen2_5_vl_text": "qwen2",
    "qwen2_5_omni_text": "qwen2",
    "qwen3_vl_text": "qwen3",
    "qwen3_vl_moe_text": "qwen3_moe",
    "qwen3_omni_moe_text": "qwen3_moe",
}
"""Type names of checkpoints whose language part is another family's."""
_NESTED_TYPES = {"kimi_vl": "deepseek_v3"}
"""Type of a nested part that does not state its own, by the wrapper's type."""
_REMOTE_ARCHITECTURES = {
    "BaiChuanForCausalLM": "baichuan",
    "BaichuanForCausalLM": "baichuan",
    "ChatGLMForConditionalGeneration": "chatglm",
    "ChatGLMModel": "chatglm",
    "DeciLMForCausalLM": "nemotron-nas",
    "DeepseekForCausalLM": "deepseek",
    "DeepseekOCRForCausalLM": "deepseek_v2",
    "InternLM2ForCausalLM": "internlm2",
    "InternLMForCausalLM": "internlm",
    "MiMoForCausalLM": "mimo",
    "MiniCPMForCausalLM": "minicpm",
    "OrionForCausalLM": "orion",
    "QWenLMHeadModel": "qwen",
    "RWForCausalLM": "falcon",
    "SkyworkForCausalLM": "skywork",
    "TeleChatForCausalLM": "telechat",
    "XverseForCausalLM": "xverse",
}
"""Class names of checkpoints that bring their own code."""
_FLAT_WRAPPERS = {
    "llava": (("Llama", "llama"), ("Mistral", "mistral"), ("Qwen", "qwen2"), ("Mpt", "mpt")),
}
"""Wrappers that older checkpoints write flat: the class name tells the language model."""
_MINICPMV = {"2.0": "minicpm", "2": "minicpm", "2.5": "llama", "2.6": "qwen2", "4.5": "qwen3"}
"""Language model of each MiniCPM-V version."""
_EITHER_TIES = {"llava", "llava_onevision", "llava_next_video", "fast_vlm", "video_llama_3"}
"""Wrappers whose LM head is tied when either level says so."""


def language_part(config: Mapping[str, object], name: str) -> tuple[Mapping[str, object], str]:
    """(the language model's own configuration, the family that reads it).

    Multimodal configurations nest it. A part without a type has the type of its class name, of its
    wrapper's class default, or of the wrapper itself.

    Raises:
        ModelConfigError: nothing says what the architecture is.
    """
    stated = config.get("model_type")
    if stated is not None and not isinstance(stated, str):
        raise ModelConfigError(f"{name}: model_type must be a text, not {str(stated)[:40]!r}")
    outer_type = stated or ""
    for key in _TEXT_KEYS:
        nested = config.get(key)
        if not isinstance(nested, Mapping):
            continue
        inner = _nested_type(nested, outer_type, key)
        if any(isinstance(nested.get(deeper), Mapping) for deeper in _TEXT_KEYS):
            return language_part({"model_type": inner, **nested}, name)
        return nested, _TYPE_ALIASES.get(inner, inner)
    family = _flat_family(config, outer_type)
    if not family:
        raise ModelConfigError(
            f"{name}: model_type is missing; a config.json names its architecture there"
        )
    return config, family


def with_tying(config: Mapping[str, object], text: Mapping[str, object]) -> Mapping[str, object]:
    """The text configuration with the tying that the whole configuration says.

    The wrapper decides where it says something; a few wrappers tie when either level does. Where
    neither says anything the text family's default stays: a wrapper's class default came later
    than the checkpoints that leave the key out.
    """
    if text is config:
        return text
    outer, inner = config.get("tie_word_embeddings"), text.get("tie_word_embeddings")
    stated = inner if outer is None else outer
    if config.get("model_type") in _EITHER_TIES and True in (outer, inner):
        stated = True
    return text if stated is None else {**text, "tie_word_embeddings": stated}


def _nested_type(nested: Mapping[str, object], outer_type: str, key: str) -> str:
    defaults = class_defaults().get(outer_type, {}).get("nested", {})
    found = (
        nested.get("model_type")
        or _by_architecture(nested)
        or defaults.get(key)
        or _NESTED_TYPES.get(outer_type)
    )
    if found:
        return str(found)
    # Older LLaVA checkpoints never state it.
    return "llama" if outer_type.startswith(("llava", "vipllava", "video_llava")) else ""


def _flat_family(config: Mapping[str, object], outer_type: str) -> str:
    if outer_type == "minicpmv":
        return _MINICPMV.get(str(config.get("version")), outer_type)
    if outer_type in _FLAT_WRAPPERS:
        names = str(config.get("architectures"))
        return next((f for word, f in _FLAT_WRAPPERS[outer_type] if word in names), outer_type)
    found = outer_type or _by_architecture(config)
    return _TYPE_ALIASES.get(found, found)


def _by_architecture(config: Mapping[str, object]) -> str:
    """The type whose class the configuration names under ``architectures``; empty when none is."""
    listed = config.get("architectures")
    if not isinstance(listed, list):
        return ""
    return next((_architectures()[n] for n in listed if n in _architectures()), "")


@cache
def _architectures() -> Mapping[str, str]:
    """Model type by class name; of several types the shortest that the name starts with."""
    others: dict[str, str] = {}
    starting: dict[str, str] = {}
    for model_type in sorted(class_defaults(), key=len):
        for class_name in class_defaults()[model_type].get("architectures", ()):
            starts = class_name.lower().startswith(model_type.replace("_", ""))
            (starting if starts else others).setdefault(class_name, model_type)
    return {**others, **starting, **_REMOTE_ARCHITECTURES}
