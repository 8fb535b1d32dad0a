"""``ModelSpec`` from a ``config.json`` of any decoder family."""

from collections.abc import Mapping

from pydantic import ValidationError

from specmemo_sim.errors import InputError, ModelConfigError
from specmemo_sim.inputs.config_reader import ConfigReader, class_defaults
from specmemo_sim.inputs.dtypes import DType, parse_dtype
from specmemo_sim.inputs.families.parts import Decoder
from specmemo_sim.inputs.families.registry import RULES
from specmemo_sim.inputs.families.towers import tower_tensors
from specmemo_sim.inputs.model import Layer, ModelSpec
from specmemo_sim.spec import first_problem

_CORE = ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")
_MAX_LAYERS = 4096
_LOGITS_FIELDS = (
    "final_logit_softcapping",
    "logit_scale",
    "logits_scaling",
    "lm_head_multiplier",
)
_LOGITS_TYPES = {
    "gemma2", "gemma3n_text", "gemma4_text", "vaultgemma", "cohere", "cohere2", "granite",
    "granitemoe", "granitemoeshared", "granitemoehybrid", "falcon_h1", "nanochat",
}  # fmt: skip
"""Families that cap or scale by class default."""
_TEXT_KEYS = ("text_config", "llm_config", "language_config", "thinker_config", "llm_cfg")
_LAYER_LISTS = ("layers_block_type", "hybrid_override_pattern")
"""Fields that list every layer, so that a file may leave out their number."""
_TYPE_ALIASES = {
    "RefinedWeb": "falcon",
    "RefinedWebModel": "falcon",
    "gemma3": "gemma3_text",
    "gemma3n": "gemma3n_text",
    "gemma4": "gemma4_text",
    "llama4": "llama4_text",
    "mistral3": "mistral",
    "mllama": "mllama_text_model",
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


def model_from_config(config: Mapping[str, object], name: str) -> ModelSpec:
    """The model that a parsed ``config.json`` describes.

    Args:
        config: The parsed configuration.
        name: What to call the model in results and errors.

    Raises:
        ModelConfigError: a missing or impossible field, or an unknown architecture.
    """
    text, model_type = language_part(config, name)
    rule = RULES.get(model_type)
    if rule is None:
        raise ModelConfigError(_unknown(name, model_type, text))
    merged = _with_tying(config, text, str(config.get("model_type") or ""))
    reader = ConfigReader(merged, model_type, where=name)
    if text is config:
        listed = any(reader.has(field) for field in _LAYER_LISTS)
        counted = () if listed else ("num_hidden_layers",)
        reader.required_at_top("hidden_size", *counted, "vocab_size")
    _check_depth(reader)
    try:
        return _assemble(config, text, name, reader, rule(reader))
    except ValidationError as fault:
        raise ModelConfigError(f"{name}: {first_problem(fault)}") from None


def _check_depth(reader: ConfigReader) -> None:
    """Refuse an absurd number of layers before they are built one by one."""
    layers = reader.optional_integer("num_hidden_layers")
    if layers is not None and layers > _MAX_LAYERS:
        raise reader.error(
            f"num_hidden_layers = {layers} is out of range; allowed is 1 to {_MAX_LAYERS}"
        )


def language_part(config: Mapping[str, object], name: str) -> tuple[Mapping[str, object], str]:
    """(the language model's own configuration, the family that reads it).

    Multimodal configurations nest it; a nested part without a type has its class default's.
    """
    stated = config.get("model_type")
    if stated is not None and not isinstance(stated, str):
        raise ModelConfigError(f"{name}: model_type must be a text, not {str(stated)[:40]!r}")
    outer_type = stated or ""
    for key in _TEXT_KEYS:
        nested = config.get(key)
        if isinstance(nested, Mapping):
            defaults = class_defaults().get(outer_type, {}).get("nested", {})
            inner = str(nested.get("model_type") or defaults.get(key) or "")
            deeper = any(isinstance(nested.get(k), Mapping) for k in _TEXT_KEYS)
            if deeper:
                return language_part({"model_type": inner, **nested}, name)
            return nested, _family(inner or _single_nested(outer_type))
    if not outer_type:
        raise ModelConfigError(
            f"{name}: model_type is missing; a config.json names its architecture there"
        )
    return config, _family(outer_type)


def _single_nested(outer_type: str) -> str:
    """The text type of wrappers whose nested part never states one (older LLaVA checkpoints)."""
    return "llama" if outer_type.startswith(("llava", "vipllava", "video_llava")) else ""


def _family(model_type: str) -> str:
    return _TYPE_ALIASES.get(model_type, model_type)


def _with_tying(
    config: Mapping[str, object], text: Mapping[str, object], outer_type: str
) -> Mapping[str, object]:
    """The text configuration with the tying that the wrapper decides, when it says so."""
    if text is config:
        return text
    stated = config.get("tie_word_embeddings")
    if stated is None:
        stated = text.get("tie_word_embeddings")
    if stated is None:
        stated = class_defaults().get(outer_type, {}).get("defaults", {}).get("tie_word_embeddings")
    return {**text, "tie_word_embeddings": stated} if stated is not None else text


def _unknown(name: str, model_type: str, text: Mapping[str, object]) -> str:
    given = (
        f"model_type {model_type[:60]!r}" if model_type else "a language part without model_type"
    )
    architectures = text.get("architectures")
    hint = f" (architectures: {str(architectures)[:80]})" if architectures else ""
    return (
        f"{name}: {given}{hint} is not a known decoder architecture, so its layers cannot be "
        f"counted; known are {len(RULES)} families (specmemo models --families lists them)"
    )


def _dtype(config: Mapping[str, object], reader: ConfigReader, name: str) -> DType:
    for source in (reader.given, config):
        for key in ("dtype", "torch_dtype"):
            value = source.get(key)
            if value is not None and value != "auto":
                try:
                    return parse_dtype(value)
                except InputError as fault:
                    raise ModelConfigError(f"{name}: {key}: {fault}") from None
    reader.notes.append("torch_dtype is missing, so 16-bit weights (fp16) are assumed")
    return DType.FP16


def _logits_copies(reader: ConfigReader) -> int:
    """2 where logits are capped or scaled after the LM head, which makes a second set of them."""
    stated = any(reader.given.get(name) is not None for name in _LOGITS_FIELDS)
    return 2 if stated or reader.model_type in _LOGITS_TYPES else 1


def _assemble(
    config: Mapping[str, object],
    text: Mapping[str, object],
    name: str,
    reader: ConfigReader,
    decoder: Decoder,
) -> ModelSpec:
    kinds: dict[Layer, int] = {}
    order = tuple(kinds.setdefault(layer, len(kinds)) for layer in decoder.layers)
    tower, tower_missing = tower_tensors(config, decoder.hidden_size, name)
    quantization = config.get("quantization_config") or text.get("quantization_config")
    if quantization is not None and not isinstance(quantization, dict):
        raise ModelConfigError(f"{name}: quantization_config must be an object")
    return ModelSpec(
        name=name,
        model_type=str(config.get("model_type") or reader.model_type)[:80],
        hidden_size=decoder.hidden_size,
        vocab_size=decoder.vocab_size,
        max_position_embeddings=decoder.max_position_embeddings
        or reader.optional_integer("max_position_embeddings"),
        dtype=_dtype(config, reader, name),
        tie_word_embeddings=decoder.tied,
        outer=tuple(decoder.outer),
        layers=tuple(kinds),
        layer_order=order,
        layer_prefix=decoder.layer_prefix,
        shared_layer_tensors=tuple(decoder.shared),
        mtp=tuple(decoder.mtp),
        tower=tuple(tower),
        tower_missing=tower_missing,
        quantization=quantization,
        logits_copies=_logits_copies(reader),
        draft_vocab_size=reader.optional_integer("draft_vocab_size"),
        notes=tuple(dict.fromkeys(reader.notes)),
    )
