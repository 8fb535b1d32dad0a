"""Projectors that bring a tower's output to the language model, by the type of the whole model."""

from collections.abc import Callable
from functools import partial

from specmemo_sim.inputs.config_reader import ConfigReader
from specmemo_sim.inputs.families.parts import linear, norm, vector
from specmemo_sim.inputs.model import Role, Tensor

_MODULE = "multi_modal_projector"
Projector = Callable[[ConfigReader, ConfigReader, int], list[Tensor]]
"""From (the whole configuration, the tower's, hidden size of the language model) to tensors."""


def _llava(
    reader: ConfigReader, tower: ConfigReader, hidden: int, *, newline: bool = False
) -> list[Tensor]:
    bias = reader.flag("multimodal_projector_bias", True)
    inputs = tower.integer("hidden_size") * _feature_layers(reader)
    tensors = _two_layers(inputs, hidden, hidden, bias=bias)
    return [*tensors, vector("image_newline", hidden)] if newline else tensors


def _llava_video(reader: ConfigReader, tower: ConfigReader, hidden: int) -> list[Tensor]:
    if reader.text("spatial_pool_mode", "average") == "conv":
        raise reader.error('spatial_pool_mode "conv" is not known here; use "average" or "max"')
    return _llava(reader, tower, hidden, newline=True)


def _vip_llava(reader: ConfigReader, tower: ConfigReader, hidden: int) -> list[Tensor]:
    inputs = tower.integer("hidden_size") * _feature_layers(reader)
    return [
        *norm(f"{_MODULE}.projector_layernorm", inputs, "layer"),
        *_two_layers(inputs, hidden, hidden, bias=True),
    ]


def _feature_layers(reader: ConfigReader) -> int:
    """Layers of the tower whose features are joined."""
    value = reader.raw("vision_feature_layer", note=False)
    if not isinstance(value, list | tuple):
        return 1
    if not 1 <= len(value) <= 64:
        raise reader.error("vision_feature_layer must be one layer or a list of 1 to 64 layers")
    return len(value)


def _mistral3(reader: ConfigReader, tower: ConfigReader, hidden: int) -> list[Tensor]:
    size = tower.integer("hidden_size")
    merged = size * reader.integer("spatial_merge_size", 2) ** 2
    bias = reader.flag("multimodal_projector_bias")
    return [
        *norm(f"{_MODULE}.norm", size, "rms"),
        *linear(f"{_MODULE}.patch_merger.merging_layer", size, merged, Role.OTHER),
        *_two_layers(size * _feature_layers(reader), hidden, hidden, bias=bias),
    ]


def _gemma3(reader: ConfigReader, tower: ConfigReader, hidden: int) -> list[Tensor]:
    size = tower.integer("hidden_size")
    matrix = Tensor(
        name=f"{_MODULE}.mm_input_projection_weight", shape=(size, hidden), role=Role.OTHER
    )
    return [matrix, *norm(f"{_MODULE}.mm_soft_emb_norm", size, "rms")]


def _paligemma(reader: ConfigReader, tower: ConfigReader, hidden: int) -> list[Tensor]:
    outputs = reader.integer("projection_dim", hidden)
    return linear(f"{_MODULE}.linear", outputs, tower.integer("hidden_size"), Role.OTHER, bias=True)


def _lfm2_vl(reader: ConfigReader, tower: ConfigReader, hidden: int) -> list[Tensor]:
    inputs = tower.integer("hidden_size") * reader.integer("downsample_factor") ** 2
    middle, bias = reader.integer("projector_hidden_size"), reader.flag("projector_bias", True)
    tensors = _two_layers(inputs, middle, hidden, bias=bias)
    if reader.flag("projector_use_layernorm", True):
        tensors += norm(f"{_MODULE}.layer_norm", inputs, "layer")
    return tensors


def _cohere(
    reader: ConfigReader, tower: ConfigReader, hidden: int, *, normed: bool
) -> list[Tensor]:
    """A gated projector: the second matrix reads half of what the first one makes."""
    inputs = tower.integer("hidden_size") * reader.integer("downsample_factor") ** 2
    middle = reader.integer("alignment_intermediate_size", hidden, minimum=2)
    return [
        *(norm(f"{_MODULE}.layernorm", inputs, "layer") if normed else ()),
        *linear(f"{_MODULE}.linear_1", middle, inputs, Role.OTHER, bias=True),
        *linear(f"{_MODULE}.linear_2", hidden, middle // 2, Role.OTHER, bias=True),
    ]


def _internvl(reader: ConfigReader, tower: ConfigReader, hidden: int) -> list[Tensor]:
    ratio = reader.number("downsample_ratio", 0.5)
    if not 1 / 64 <= ratio <= 1:
        raise reader.error(f"downsample_ratio = {ratio} is out of range; allowed is 1/64 to 1")
    inputs = tower.integer("hidden_size") * int(1 / ratio) ** 2
    return [
        *norm(f"{_MODULE}.layer_norm", inputs, "layer"),
        *_two_layers(inputs, hidden, hidden, bias=True),
    ]


def _internvl_chat(reader: ConfigReader, tower: ConfigReader, hidden: int) -> list[Tensor]:
    """The same projector under the names of the code published with InternVL2, 2.5 and 3."""
    tensors = _internvl(reader, tower, hidden)
    for place, module in (("0", "layer_norm"), ("1", "linear_1"), ("3", "linear_2")):
        old, new = f"{_MODULE}.{module}.", f"mlp1.{place}."
        tensors = [tensor.replace(name=tensor.name.replace(old, new)) for tensor in tensors]
    return tensors


def _idefics3(reader: ConfigReader, tower: ConfigReader, hidden: int) -> list[Tensor]:
    inputs = tower.integer("hidden_size") * reader.integer("scale_factor") ** 2
    return linear("connector.modality_projection.proj", hidden, inputs, Role.OTHER)


def _single(
    reader: ConfigReader, tower: ConfigReader, hidden: int, *, field: str, bias: bool
) -> list[Tensor]:
    name = f"{_MODULE}.linear_1" if field == "vision_output_dim" and not bias else _MODULE
    return linear(name, hidden, tower.integer(field), Role.OTHER, bias=bias)


def _embedder(
    reader: ConfigReader, tower: ConfigReader, hidden: int, *, module: str, field: str
) -> list[Tensor]:
    return linear(f"{module}.embedding_projection", hidden, tower.integer(field), Role.OTHER)


def _qwen2_audio(reader: ConfigReader, tower: ConfigReader, hidden: int) -> list[Tensor]:
    return linear(f"{_MODULE}.linear", hidden, tower.integer("hidden_size"), Role.OTHER, bias=True)


def _voxtral(reader: ConfigReader, tower: ConfigReader, hidden: int) -> list[Tensor]:
    return _two_layers(tower.integer("intermediate_size"), hidden, hidden, bias=False)


def _two_layers(inputs: int, middle: int, outputs: int, *, bias: bool) -> list[Tensor]:
    return [
        *linear(f"{_MODULE}.linear_1", middle, inputs, Role.OTHER, bias=bias),
        *linear(f"{_MODULE}.linear_2", outputs, middle, Role.OTHER, bias=bias),
    ]


def _merged_in_tower(reader: ConfigReader, tower: ConfigReader, hidden: int) -> list[Tensor]:
    return []


_QWEN = (
    "qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe",
    "qwen2_5_omni_thinker", "qwen3_omni_moe_thinker",
)  # fmt: skip
VISION_PROJECTORS: dict[str, Projector] = {
    **dict.fromkeys(_QWEN, _merged_in_tower),
    "llava": _llava,
    "video_llava": _llava,
    "llava_next": partial(_llava, newline=True),
    "llava_onevision": partial(_llava, newline=True),
    "llava_next_video": _llava_video,
    "vipllava": _vip_llava,
    "mistral3": _mistral3,
    "lighton_ocr": _mistral3,
    "gemma3": _gemma3,
    "paligemma": _paligemma,
    "lfm2_vl": _lfm2_vl,
    "aya_vision": partial(_cohere, normed=True),
    "cohere2_vision": partial(_cohere, normed=False),
    "internvl": _internvl,
    "internvl_chat": _internvl_chat,
    **dict.fromkeys(("glm4v", "glm46v", "glm4v_moe"), _merged_in_tower),
    "idefics3": _idefics3,
    "smolvlm": _idefics3,
    "mllama": partial(_single, field="vision_output_dim", bias=True),
    "llama4": partial(_single, field="vision_output_dim", bias=False),
    "gemma4": partial(_embedder, module="embed_vision", field="hidden_size"),
}
"""What joins a vision tower to the language model, by the whole model's type."""
AUDIO_PROJECTORS: dict[str, Projector] = {
    "qwen2_audio": _qwen2_audio,
    "voxtral": _voxtral,
    "gemma4": partial(_embedder, module="embed_audio", field="output_proj_dims"),
}
"""What joins an audio tower to the language model, by the whole model's type."""
