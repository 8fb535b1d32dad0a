"""Tiny multimodal models: a configuration of each kind of tower and projector."""

from typing import Any

from oracle.meta_models import tiny_settings

VIT = {
    "hidden_size": 24, "intermediate_size": 36, "num_hidden_layers": 3, "num_attention_heads": 4,
    "image_size": 40, "patch_size": 8,
}  # fmt: skip
QWEN_VIT = {
    "depth": 3, "hidden_size": 24, "intermediate_size": 36, "num_heads": 4, "patch_size": 4,
    "out_hidden_size": 48, "num_position_embeddings": 25,
}  # fmt: skip
GLM_VIT = {
    "depth": 3, "hidden_size": 24, "intermediate_size": 36, "num_heads": 4, "patch_size": 8,
    "out_hidden_size": 48, "image_size": 40,
}  # fmt: skip
QWEN3_5_TEXT = {
    "linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 8,
    "linear_value_head_dim": 16, "head_dim": 16,
}  # fmt: skip
GEMMA4_VIT = {
    "hidden_size": 24, "intermediate_size": 36, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 6, "patch_size": 4, "position_embedding_size": 30,
}  # fmt: skip
GEMMA4_AUDIO = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "output_proj_dims": 20,
    "subsampling_conv_channels": [8, 4],
}  # fmt: skip
GEMMA4_TEXT = {"head_dim": 16, "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 90}
WHISPER = {
    "d_model": 24, "encoder_layers": 2, "encoder_attention_heads": 4, "encoder_ffn_dim": 40,
    "num_mel_bins": 16, "max_source_positions": 50,
}  # fmt: skip
VOXTRAL = {
    "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96,
    "num_mel_bins": 16, "max_source_positions": 50,
}  # fmt: skip


def _config(model_type: str, text: dict[str, Any], **parts: Any) -> dict[str, Any]:
    """A wrapper's config.json around a tiny language model."""
    text_type = text.pop("model_type")
    nested = tiny_settings(text_type) | text
    return {"model_type": model_type, "text_config": nested, **parts}


def _llama(**over: Any) -> dict[str, Any]:
    return {"model_type": "llama", **over}


CASES: dict[str, dict[str, Any]] = {
    "llava": _config("llava", _llama(), vision_config={"model_type": "clip_vision_model", **VIT}),
    "llava with SigLIP, three feature layers, no bias": _config(
        "llava",
        _llama(),
        vision_config={"model_type": "siglip_vision_model", **VIT},
        vision_feature_layer=[-2, -1, 1],
        multimodal_projector_bias=False,
    ),
    "llava with Pixtral": _config(
        "llava", {"model_type": "mistral"}, vision_config={"model_type": "pixtral", **VIT}
    ),
    "llava_next": _config("llava_next", _llama(), vision_config=VIT),
    "llava_next_video": _config("llava_next_video", _llama(), vision_config=VIT),
    "llava_onevision": _config(
        "llava_onevision",
        {"model_type": "qwen2"},
        vision_config={"vision_use_head": False, **VIT},
    ),
    "video_llava": _config("video_llava", _llama(), vision_config=VIT),
    "vipllava": _config("vipllava", _llama(), vision_config=VIT),
    "mistral3": _config("mistral3", {"model_type": "mistral"}, vision_config=VIT),
    "mistral3, merge of three, bias": _config(
        "mistral3",
        {"model_type": "mistral"},
        vision_config=VIT,
        spatial_merge_size=3,
        multimodal_projector_bias=True,
    ),
    "gemma3": _config(
        "gemma3", {"model_type": "gemma3_text"}, vision_config={"vision_use_head": False, **VIT}
    ),
    "paligemma": _config(
        "paligemma", {"model_type": "gemma"}, vision_config=VIT, projection_dim=40
    ),
    "lfm2_vl": _config(
        "lfm2_vl",
        {"model_type": "lfm2", "layer_types": ["conv", "full_attention"] * 2},
        vision_config={k: v for k, v in VIT.items() if k != "image_size"} | {"num_patches": 25},
        projector_hidden_size=30,
    ),
    "lfm2_vl without projector norm": _config(
        "lfm2_vl",
        {"model_type": "lfm2", "layer_types": ["conv", "full_attention"] * 2},
        vision_config={"hidden_size": 24, "vision_use_head": False, "num_hidden_layers": 2},
        projector_use_layernorm=False,
        projector_bias=False,
        downsample_factor=3,
    ),
    "aya_vision": _config("aya_vision", {"model_type": "cohere2"}, vision_config=VIT),
    "cohere2_vision": _config(
        "cohere2_vision",
        {"model_type": "cohere2"},
        vision_config=VIT,
        alignment_intermediate_size=26,
    ),
    "internvl": _config("internvl", {"model_type": "qwen2"}, vision_config=VIT),
    "internvl with RMS norms": _config(
        "internvl",
        {"model_type": "qwen2"},
        vision_config={
            **VIT,
            "norm_type": "rms_norm",
            "use_qk_norm": True,
            "attention_bias": True,
            "use_mean_pooling": False,
            "use_absolute_position_embeddings": False,
            "image_size": [40, 24],
            "patch_size": [8, 4],
        },
    ),
    "idefics3": _config(
        "idefics3", _llama(), vision_config={"model_type": "idefics3", **VIT}, scale_factor=3
    ),
    "smolvlm": _config("smolvlm", _llama(), vision_config=VIT),
    "qwen2_vl": _config(
        "qwen2_vl",
        {"model_type": "qwen2_vl_text"},
        vision_config={
            "depth": 3,
            "embed_dim": 24,
            "hidden_size": 48,
            "num_heads": 4,
            "mlp_ratio": 2,
        },
    ),
    "qwen2_5_vl": _config(
        "qwen2_5_vl",
        {"model_type": "qwen2_5_vl_text"},
        vision_config={k: v for k, v in QWEN_VIT.items() if k != "num_position_embeddings"},
    ),
    "qwen3_vl": _config(
        "qwen3_vl",
        {"model_type": "qwen3_vl_text"},
        vision_config={**QWEN_VIT, "deepstack_visual_indexes": [0, 2]},
    ),
    "qwen3_5": _config(
        "qwen3_5", {"model_type": "qwen3_5_text", **QWEN3_5_TEXT}, vision_config=QWEN_VIT
    ),
    "glm4v": _config(
        "glm4v",
        {"model_type": "glm4v_text"},
        vision_config={**GLM_VIT, "attention_bias": True, "spatial_merge_size": 3},
    ),
    "glm46v": _config("glm46v", {"model_type": "glm4v_text"}, vision_config=GLM_VIT),
    "glm4v_moe": _config(
        "glm4v_moe",
        {
            "model_type": "glm4v_moe_text",
            "n_routed_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 20,
        },
        vision_config=GLM_VIT,
    ),
    "mllama": _config(
        "mllama",
        {"model_type": "mllama_text_model", "cross_attention_layers": [1]},
        vision_config={**VIT, "num_global_layers": 2, "vision_output_dim": 72},
    ),
    "llama4": _config(
        "llama4",
        {
            "model_type": "llama4_text",
            "num_local_experts": 2,
            "intermediate_size_mlp": 24,
            "head_dim": 12,
        },
        vision_config={
            **VIT,
            "projector_input_dim": 20,
            "projector_output_dim": 20,
            "vision_output_dim": 20,
        },
    ),
    "gemma4 without audio": _config(
        "gemma4",
        {"model_type": "gemma4_text", **GEMMA4_TEXT},
        vision_config={**GEMMA4_VIT, "standardize": True, "use_clipped_linears": True},
        audio_config=None,
    ),
    "gemma4 with audio": _config(
        "gemma4",
        {"model_type": "gemma4_text", **GEMMA4_TEXT},
        vision_config=GEMMA4_VIT,
        audio_config=GEMMA4_AUDIO,
    ),
    "qwen2_audio": _config("qwen2_audio", {"model_type": "qwen2"}, audio_config=WHISPER),
    "voxtral": _config("voxtral", _llama(head_dim=12), audio_config=VOXTRAL),
}
