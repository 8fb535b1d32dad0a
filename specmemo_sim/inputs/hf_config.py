"""``ModelSpec`` from a ``config.json`` of any decoder family."""

from collections.abc import Mapping

from pydantic import ValidationError

from specmemo_sim.errors import InputError, ModelConfigError
from specmemo_sim.inputs.config_reader import ConfigReader
from specmemo_sim.inputs.dtypes import DType, parse_dtype
from specmemo_sim.inputs.families.parts import Decoder
from specmemo_sim.inputs.families.registry import RULES
from specmemo_sim.inputs.families.towers import tower_tensors
from specmemo_sim.inputs.language_part import language_part, with_tying
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
_QUANTIZATION_KEYS = ("quantization_config", "compression_config", "quantization")
"""transformers, early compressed-tensors, MLX."""
_FLAT_TOWERS = ("img_processor", "embd_layer", "mm_vision_tower", "visual", "audio_processor")
_LAYER_LISTS = ("layers_block_type", "hybrid_override_pattern")
"""Fields that list every layer, so that a file may leave out their number."""


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
    reader = ConfigReader(with_tying(config, text), model_type, where=name)
    if not text.get("model_type"):
        reader.notes.append(f"model_type is not stated; read as {model_type}")
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
    # The wrapper's type decides, as it does when the checkpoint is loaded.
    for source in (config, reader.given):
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


def _draft_head(config: Mapping[str, object], num_layers: int) -> str:
    """``eagle3`` or ``eagle`` for a configuration of one layer that says it is such a head."""
    names = str(config.get("architectures")).lower()
    if num_layers != 1:
        return ""
    if "eagle3" in names or config.get("draft_vocab_size") is not None:
        return "eagle3"
    return "eagle" if "eagle" in names else ""


def _quantization(
    config: Mapping[str, object], text: Mapping[str, object], name: str
) -> dict[str, object] | None:
    """The checkpoint's quantisation settings, under the name that its tool used."""
    places = [(source, key) for key in _QUANTIZATION_KEYS for source in (config, text)]
    found = next((source[key] for source, key in places if source.get(key)), None)
    if found is None:
        return None
    if not isinstance(found, dict):
        raise ModelConfigError(f"{name}: quantization_config must be an object")
    if any(value in (float("inf"), float("-inf")) for value in found.values()):
        raise ModelConfigError(f"{name}: quantization_config holds Infinity; give finite numbers")
    return found


def _flat_tower(config: Mapping[str, object]) -> str:
    """Why the tower of a checkpoint that describes it in other words is not counted."""
    found = next((key for key in _FLAT_TOWERS if config.get(key)), "")
    return f"its description under {found!r} is not read" if found else ""


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
    if not tower and not tower_missing:
        tower_missing = _flat_tower(config)
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
        quantization=_quantization(config, text, name),
        logits_copies=_logits_copies(reader),
        draft_head=_draft_head(config, len(order)),
        draft_vocab_size=reader.optional_integer("draft_vocab_size"),
        notes=tuple(dict.fromkeys(reader.notes)),
    )
