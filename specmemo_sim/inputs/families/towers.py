"""Vision and audio towers: their tensors, where the configuration gives their shapes."""

from collections.abc import Callable, Mapping

from specmemo_sim.inputs.config_reader import ConfigReader, class_defaults
from specmemo_sim.inputs.families.audio_encoders import gemma4_audio_tower, whisper_tower
from specmemo_sim.inputs.families.parts import linear
from specmemo_sim.inputs.families.projectors import AUDIO_PROJECTORS, VISION_PROJECTORS, Projector
from specmemo_sim.inputs.families.vision_encoders import (
    gemma4_tower,
    glm4v_tower,
    llama4_tower,
    mllama_tower,
    qwen2_5_tower,
    qwen2_tower,
    qwen3_tower,
)
from specmemo_sim.inputs.families.vision_parts import (
    clip_tower,
    idefics_tower,
    intern_vit_tower,
    internvl_tower,
    pixtral_tower,
    siglip2_tower,
    siglip_tower,
    under,
)
from specmemo_sim.inputs.model import Role, Tensor

TOWER_RULES: dict[str, Callable[[ConfigReader], list[Tensor]]] = {
    "clip_vision_model": clip_tower,
    "siglip_vision_model": siglip_tower,
    "siglip2_vision_model": siglip2_tower,
    "idefics3_vision": idefics_tower,
    "smolvlm_vision": idefics_tower,
    "pixtral": pixtral_tower,
    "internvl_vision": internvl_tower,
    "intern_vit_6b": intern_vit_tower,
    "glm4v_vision": glm4v_tower,
    "glm4v_moe_vision": glm4v_tower,
    "qwen2_vl_vision": qwen2_tower,
    "qwen2_5_vl_vision": qwen2_5_tower,
    "qwen2_5_omni_vision_encoder": qwen2_5_tower,
    "qwen3_vl_vision": qwen3_tower,
    "qwen3_vl_moe_vision": qwen3_tower,
    "qwen3_omni_moe_vision_encoder": qwen3_tower,
    "qwen3_5_vision": qwen3_tower,
    "qwen3_5_moe_vision": qwen3_tower,
    "mllama_vision_model": mllama_tower,
    "llama4_vision_model": llama4_tower,
    "gemma4_vision": gemma4_tower,
    "gemma4_audio": gemma4_audio_tower,
    "qwen2_audio_encoder": whisper_tower,
    "voxtral_encoder": whisper_tower,
}
"""Rule of each tower, by the ``model_type`` of its nested configuration."""
_KNOWN: dict[str, dict[str, Projector]] = {
    "vision_config": VISION_PROJECTORS,
    "audio_config": AUDIO_PROJECTORS,
}
_OPTIONAL_PARTS = {"gemma4"}
"""Models that come with and without each tower, and say nothing about one they lack."""
_OTHER_PARTS = (
    "vision_tower", "mm_vision_tower", "vision_cfg", "visual", "img_processor", "audio_processor",
    "speech_config", "sound_config", "vq_config", "qformer_config", "perceiver_config",
    "talker_config", "token2wav_config", "code2wav_config", "high_res_vision_config",
)  # fmt: skip
"""Fields by which remote code and rarer models describe further parts."""


def tower_tensors(
    config: Mapping[str, object], hidden_size: int, name: str
) -> tuple[list[Tensor], str]:
    """(tensors of the towers and projectors, why a tower that exists is not counted).

    A part of unknown type is left out and named; the others are still counted.

    Args:
        config: The whole configuration.
        hidden_size: Hidden size of the language model.
        name: What to call the model in errors.

    Raises:
        ModelConfigError: a known tower with a missing or impossible size.
    """
    outer_type = _text(config.get("model_type"))
    thinker = config.get("thinker_config")
    if isinstance(thinker, Mapping):
        inner = _text(thinker.get("model_type")) or f"{outer_type}_thinker"
        tensors, missing = tower_tensors({**thinker, "model_type": inner}, hidden_size, name)
        return tensors, _joined([missing, *_unknown_parts(config)])
    found = _patch_embedding(config, hidden_size, name) if outer_type == "fuyu" else []
    reasons: list[str] = []
    for part in _KNOWN:
        tensors, reason = _part(config, outer_type, part, (hidden_size, name))
        found += tensors
        reasons.append(reason)
    return found, _joined([*reasons, *_unknown_parts(config)])


def _patch_embedding(config: Mapping[str, object], hidden_size: int, name: str) -> list[Tensor]:
    """Fuyu's whole vision part: patches go through one matrix into the language model."""
    reader = ConfigReader(config, "fuyu", where=name)
    pixels = reader.integer("patch_size") ** 2 * reader.integer("num_channels")
    inputs = reader.checked_integer("patch_size² × num_channels", pixels)
    return linear("vision_embed_tokens", hidden_size, inputs, Role.OTHER, bias=True)


def _part(
    config: Mapping[str, object], outer_type: str, part: str, target: tuple[int, str]
) -> tuple[list[Tensor], str]:
    """Tensors of one tower with its projector, or why there are none."""
    hidden_size, name = target
    expected = _text(_nested_types(outer_type).get(part))
    kind = part.removesuffix("_config")
    if part not in config:
        absent = f"the {kind} tower of {outer_type} is not described ({part} is missing)"
        return [], absent if expected and outer_type not in _OPTIONAL_PARTS else ""
    nested = config[part]
    if nested is None or (nested == {} and not expected):
        return [], ""
    if not isinstance(nested, Mapping):
        return [], f"{part} is not an object, so the {kind} tower is not counted"
    tower_type = _tower_type(_text(nested.get("model_type")), expected, outer_type)
    rule = TOWER_RULES.get(tower_type)
    if rule is None:
        shown = repr(tower_type[:60]) if tower_type else "without model_type"
        return [], f"the {kind} tower {shown} is of no known type"
    reader = ConfigReader(nested, tower_type, where=f"{name}: {part}")
    projector = _KNOWN[part].get(outer_type)
    tensors = _placed(outer_type, kind, rule(reader))
    if projector is None:
        return tensors, f"the projector of the {kind} tower of {outer_type[:60]!r} is not known"
    whole = ConfigReader(config, outer_type, where=name)
    return [*tensors, *projector(whole, reader, hidden_size)], ""


def _tower_type(stated: str, expected: str, outer_type: str) -> str:
    """The tower's type; old checkpoints repeat the whole model's type in the nested part."""
    return expected if stated in ("", outer_type) else stated


def _placed(outer_type: str, kind: str, tensors: list[Tensor]) -> list[Tensor]:
    """The tower's tensors under the module that holds it; Video-LLaVA has two such towers."""
    if outer_type == "video_llava":
        return [*under("image_tower", tensors), *under("video_tower", tensors)]
    if kind == "vision" and outer_type.startswith(("qwen", "glm4")):
        return under("visual", tensors)
    if outer_type in ("idefics3", "smolvlm", "mllama", "llama4", "internvl_chat"):
        return under("vision_model", tensors)
    return under(f"{kind}_tower", tensors)


def _nested_types(outer_type: str) -> Mapping[str, object]:
    return class_defaults().get(outer_type, {}).get("nested", {})


def _unknown_parts(config: Mapping[str, object]) -> list[str]:
    return [
        f"{field} describes a part of no known type" for field in _OTHER_PARTS if config.get(field)
    ]


def _joined(reasons: list[str]) -> str:
    return "; ".join(reason for reason in reasons if reason)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
