"""Tiny hybrid models: settings of each family, with its switches on and off."""

from typing import Any

import torch
from transformers import CONFIG_MAPPING
from transformers.models.mllama.modeling_mllama import MllamaForCausalLM

from oracle.meta_models import meta_model, tiny_settings

QWEN = {
    "linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 8,
    "linear_value_head_dim": 16, "head_dim": 16,
}  # fmt: skip
QWEN_MOE = QWEN | {
    "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
    "shared_expert_intermediate_size": 24,
}  # fmt: skip
MAMBA2 = {"num_heads": 12, "head_dim": 8, "n_groups": 2, "state_size": 16}
PREFIXED = {"mamba_n_heads": 12, "mamba_d_state": 8}
NEMOTRON = {
    "mamba_num_heads": 8, "mamba_head_dim": 8, "ssm_state_size": 16, "n_groups": 2, "head_dim": 16,
    "moe_intermediate_size": 16, "moe_shared_expert_intermediate_size": 24,
}  # fmt: skip
ALTERNATING = ["linear_attention", "full_attention"] * 2
LEGACY = ["mamba", "attention"] * 2
CONVOLUTIONAL = ["conv", "full_attention"] * 2
KIMI = {
    "num_key_value_heads": 4, "linear_head_dim": 8, "linear_num_heads": 6, "num_local_experts": 8,
    "kv_lora_rank": 24, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 12,
    "moe_intermediate_size": 16,
}  # fmt: skip
WINDOWED = ["sliding_attention", "full_attention"] * 2
PER_LAYER = {"hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 90, "head_dim": 16}
GEMMA4_MOE = {
    "enable_moe_block": True, "num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 16,
}  # fmt: skip
ZAMBA2 = {"n_mamba_heads": 4, "mamba_d_state": 8}

CASES: list[tuple[str, dict[str, Any]]] = [
    ("qwen3_next", QWEN_MOE),
    ("qwen3_next", QWEN_MOE | {"layer_types": ALTERNATING, "mlp_only_layers": [1]}),
    ("qwen3_next", QWEN_MOE | {"decoder_sparse_step": 2, "attention_bias": True}),
    ("qwen3_next", QWEN | {"num_experts": 0, "tie_word_embeddings": True}),
    ("qwen3_5_text", QWEN),
    ("qwen3_5_text", QWEN | {"full_attention_interval": 2, "attention_bias": True}),
    ("qwen3_5_moe_text", QWEN_MOE),
    ("olmo_hybrid", {}),
    ("olmo_hybrid", {"layer_types": ALTERNATING, "attention_bias": True, "linear_key_head_dim": 5}),
    ("mamba", {}),
    ("mamba", {"use_bias": True, "use_conv_bias": False, "time_step_rank": 7, "expand": 3}),
    ("mamba", {"tie_word_embeddings": False, "state_size": 5, "conv_kernel": 3}),
    ("falcon_mamba", {"tie_word_embeddings": False}),
    ("mamba2", MAMBA2),
    ("mamba2", MAMBA2 | {"use_bias": True, "use_conv_bias": False, "tie_word_embeddings": True}),
    ("jamba", {"num_experts": 4, "attn_layer_offset": 1, "attn_layer_period": 2}),
    (
        "jamba",
        {
            "num_experts": 1,
            "attn_layer_offset": 2,
            "attn_layer_period": 3,
            "mamba_proj_bias": True,
            "mamba_conv_bias": False,
        },
    ),
    (
        "jamba",
        {
            "num_experts": 3,
            "expert_layer_period": 1,
            "expert_layer_offset": 0,
            "attn_layer_offset": 0,
        },
    ),
    ("bamba", PREFIXED | {"attn_layer_indices": [1]}),
    (
        "bamba",
        PREFIXED
        | {
            "attn_layer_indices": [0, 2],
            "attention_bias": True,
            "mlp_bias": True,
            "mamba_proj_bias": True,
        },
    ),
    ("falcon_h1", PREFIXED | {"mamba_d_ssm": 24}),
    ("falcon_h1", PREFIXED | {"mamba_d_ssm": None, "mamba_rms_norm": True, "mlp_bias": True}),
    ("falcon_h1", PREFIXED | {"mamba_d_ssm": 24, "projectors_bias": True, "mamba_proj_bias": True}),
    ("granitemoehybrid", PREFIXED | {"layer_types": LEGACY}),
    ("granitemoehybrid", PREFIXED | {"num_local_experts": 0, "layer_types": LEGACY}),
    ("nemotron_h", NEMOTRON | {"hybrid_override_pattern": "M*-E"}),
    ("nemotron_h", NEMOTRON | {"layers_block_type": ["mamba", "attention", "mlp", "moe"]}),
    (
        "nemotron_h",
        NEMOTRON | {"hybrid_override_pattern": "ME-*", "moe_latent_size": 24, "mlp_bias": True},
    ),
    ("nemotron_h", NEMOTRON | {"hybrid_override_pattern": "MM*", "use_bias": True}),
    ("zamba", {"layers_block_type": ["mamba", "hybrid"] * 2}),
    ("zamba", {"num_hidden_layers": 13, "mamba_proj_bias": True, "mamba_conv_bias": False}),
    ("zamba2", ZAMBA2 | {"layers_block_type": ["mamba", "hybrid"] * 2}),
    (
        "zamba2",
        ZAMBA2
        | {
            "layers_block_type": ["mamba", "hybrid", "hybrid", "hybrid"],
            "num_mem_blocks": 2,
            "use_shared_attention_adapter": True,
            "num_key_value_heads": 4,
            "adapter_rank": 6,
            "add_bias_linear": True,
        },
    ),
    ("zamba2", ZAMBA2 | {"num_hidden_layers": 54, "intermediate_size": None}),
    ("lfm2", {"layer_types": CONVOLUTIONAL}),
    ("lfm2", {"full_attn_idxs": [0], "block_ff_dim": 700, "conv_bias": True}),
    ("lfm2", {"layer_types": CONVOLUTIONAL, "block_auto_adjust_ff_dim": False}),
    (
        "lfm2_moe",
        {
            "layer_types": CONVOLUTIONAL,
            "num_experts": 4,
            "num_dense_layers": 1,
            "moe_intermediate_size": 16,
            "tie_embedding": False,
        },
    ),
    ("recurrent_gemma", {}),
    ("recurrent_gemma", {"lru_width": 36, "num_key_value_heads": 1, "attention_bias": True}),
    ("recurrent_gemma", {"block_types": ["recurrent", "attention"]}),
    ("minimax", {"num_local_experts": 4}),
    ("minimax", {"num_local_experts": 4, "head_dim": 10, "layer_types": ALTERNATING}),
    ("kimi_linear", KIMI | {"layer_types": ALTERNATING}),
    (
        "kimi_linear",
        KIMI
        | {
            "q_lora_rank": 14,
            "attention_bias": True,
            "n_shared_experts": 2,
            "layer_types": ALTERNATING,
        },
    ),
    (
        "kimi_linear",
        KIMI
        | {
            "first_k_dense_replace": 2,
            "linear_attn_config": {
                "full_attn_layers": [4],
                "kda_layers": [1, 2, 3],
                "head_dim": 4,
                "num_heads": 3,
                "short_conv_kernel_size": 3,
            },
        },
    ),
    ("gemma3n_text", PER_LAYER | {"layer_types": WINDOWED, "num_kv_shared_layers": 2}),
    ("gemma3n_text", PER_LAYER | {"num_hidden_layers": 5, "num_kv_shared_layers": 0}),
    (
        "gemma3n_text",
        PER_LAYER
        | {
            "layer_types": WINDOWED,
            "num_kv_shared_layers": 0,
            "altup_num_inputs": 3,
            "intermediate_size": [40, 48, 56, 64],
            "attention_bias": True,
            "laurel_rank": 5,
        },
    ),
    ("gemma4_text", PER_LAYER | {"layer_types": WINDOWED, "num_kv_shared_layers": 2}),
    (
        "gemma4_text",
        PER_LAYER
        | GEMMA4_MOE
        | {
            "global_head_dim": 24,
            "num_global_key_value_heads": 1,
            "attention_k_eq_v": True,
        },
    ),
    ("gemma4_text", PER_LAYER | {"hidden_size_per_layer_input": 0, "global_head_dim": 20}),
    (
        "gemma4_text",
        PER_LAYER
        | {
            "layer_types": WINDOWED,
            "num_kv_shared_layers": 2,
            "use_double_wide_mlp": True,
            "attention_bias": True,
            "global_head_dim": 8,
            "num_global_key_value_heads": 1,
        },
    ),
    ("mllama_text_model", {"cross_attention_layers": [1, 3]}),
    ("mllama_text_model", {"num_key_value_heads": 4}),
]


def hybrid_settings(model_type: str, over: dict[str, Any]) -> dict[str, Any]:
    """A tiny config.json; fields that the class only takes as keyword arguments included."""
    fields = CONFIG_MAPPING[model_type].__dataclass_fields__
    own = {key: value for key, value in over.items() if key in fields}
    return tiny_settings(model_type, **own) | over


def their_config(given: dict[str, Any]) -> Any:
    rest = {key: value for key, value in given.items() if key != "model_type"}
    return CONFIG_MAPPING[given["model_type"]](**rest)


def their_meta_model(given: dict[str, Any]) -> Any:
    config = their_config(given)
    if given["model_type"] != "mllama_text_model":
        return meta_model(config)
    with torch.device("meta"):
        return MllamaForCausalLM(config)
