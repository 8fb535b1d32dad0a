"""Tiny configurations of routed decoders, and configurations of real ones."""

LOCAL = {"num_local_experts": 6, "num_experts_per_tok": 2}
NAMED = {"num_experts": 6, "num_experts_per_tok": 2}
NARROW = {**NAMED, "moe_intermediate_size": 24}
GLM = {
    "n_routed_experts": 6,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 24,
    "n_shared_experts": 2,
}
DBRX = {
    "ffn_config": {"moe_num_experts": 4, "ffn_hidden_size": 40, "moe_top_k": 2},
    "attn_config": {"kv_n_heads": 2, "clip_qkv": 8.0, "rope_theta": 10000.0},
}
HUNYUAN = {"num_experts": 5, "moe_topk": 2, "head_dim": 12}
MIMO = {
    "n_routed_experts": 6,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 24,
    "head_dim": 12,
    "v_head_dim": 10,
    "num_key_value_heads": 1,
    "sliding_window": 40,
}
BIASED = {"attention_bias": True}
TIED = {"tie_word_embeddings": True}

CASES = [
    ("mixtral", LOCAL),
    ("mixtral", {**LOCAL, **TIED, "num_key_value_heads": 4, "head_dim": 20}),
    ("qwen2_moe", {**NARROW, "shared_expert_intermediate_size": 40}),
    ("qwen2_moe", {**NARROW, "mlp_only_layers": [0], "decoder_sparse_step": 2}),
    ("qwen2_moe", {**NARROW, "qkv_bias": False, **TIED}),
    ("qwen3_moe", NARROW),
    ("qwen3_moe", {**NARROW, **BIASED, "mlp_only_layers": [1, 3]}),
    ("mellum", {**NARROW, "head_dim": 10}),
    ("mellum", {**NARROW, **BIASED, "mlp_layer_types": ["dense", *["sparse"] * 3]}),
    ("gpt_oss", {**LOCAL, "head_dim": 10}),
    ("gpt_oss", {**LOCAL, "attention_bias": False, **TIED}),
    ("phimoe", LOCAL),
    ("phimoe", {**LOCAL, **BIASED, "lm_head_bias": True}),
    ("olmoe", NAMED),
    ("olmoe", {**NAMED, **BIASED, "clip_qkv": 5.0}),
    ("dbrx", DBRX),
    ("granitemoe", LOCAL),
    ("granitemoe", {**LOCAL, **BIASED, **TIED}),
    ("granitemoeshared", {**LOCAL, "shared_intermediate_size": 18}),
    ("granitemoeshared", {**LOCAL, "shared_intermediate_size": 0}),
    ("glm4_moe", GLM),
    ("glm4_moe", {**GLM, **BIASED, "use_qk_norm": True, "first_k_dense_replace": 3}),
    ("dots1", GLM),
    ("dots1", {**GLM, **BIASED, "first_k_dense_replace": 2}),
    ("ernie4_5_moe", {"moe_num_experts": 6, "moe_k": 2, "moe_intermediate_size": 24}),
    (
        "ernie4_5_moe",
        {
            "moe_num_experts": 6,
            "moe_intermediate_size": 24,
            "use_bias": True,
            "tie_word_embeddings": False,
            "moe_layer_start_index": 0,
            "moe_layer_end_index": 2,
            "moe_layer_interval": 2,
            "moe_num_shared_experts": 0,
        },
    ),
    ("hunyuan_v1_moe", HUNYUAN),
    ("hunyuan_v1_moe", {**HUNYUAN, **BIASED, **TIED}),
    ("minimax_m2", {**LOCAL, "head_dim": 10}),
    ("llama4_text", LOCAL),
    ("llama4_text", {**LOCAL, **BIASED, "interleave_moe_layer_step": 2}),
    ("llama4_text", {**LOCAL, "moe_layers": [0, 3], "intermediate_size_mlp": 33}),
    ("exaone_moe", {**NARROW, "num_shared_experts": 2}),
    ("exaone_moe", {**NARROW, "mlp_layer_types": ["sparse", "dense", "sparse", "dense"]}),
    ("flex_olmo", NAMED),
    ("flex_olmo", {**NAMED, **BIASED, **TIED}),
    ("solar_open", {**GLM, **BIASED, "head_dim": 10}),
    ("afmoe", {**NARROW, "head_dim": 10}),
    ("afmoe", {**NARROW, **BIASED, "num_dense_layers": 0, "num_shared_experts": 3}),
    ("jetmoe", {**LOCAL, "kv_channels": 12}),
    ("jetmoe", {"num_local_experts": 5, "num_experts_per_tok": 3, "tie_word_embeddings": False}),
    ("hy_v3", {**NARROW, "head_dim": 10}),
    ("hy_v3", {**NARROW, **BIASED, "mlp_bias": True, "num_shared_experts": 2}),
    ("mimo_v2_flash", MIMO),
    ("mimo_v2_flash", {**MIMO, **BIASED, "mlp_layer_types": ["sparse"] * 4}),
    ("sarvam_moe", {**GLM, "head_dim": 10}),
    ("sarvam_moe", {**GLM, **BIASED, "use_qk_norm": False}),
]
STACKED = {"gpt_oss", "dbrx", "granitemoe", "granitemoeshared", "llama4_text", "jetmoe"}
"""Families whose checkpoints hold the experts of a layer in one tensor."""

FIRST_CASES = {model_type: over for model_type, over in reversed(CASES)}
"""One configuration of each family."""

WINDOWED = [
    ("mixtral", {**LOCAL, "sliding_window": 7}),
    ("phimoe", {**LOCAL, "sliding_window": 7}),
    ("qwen3_moe", {**NARROW, "use_sliding_window": True, "sliding_window": 7}),
    ("qwen3_moe", {**NARROW, "sliding_window": 7}),
    (
        "qwen2_moe",
        {**NARROW, "use_sliding_window": True, "sliding_window": 7, "max_window_layers": 3},
    ),
    ("gpt_oss", {**LOCAL, "sliding_window": 7}),
    ("dots1", {**GLM, "sliding_window": 7, "max_window_layers": 2}),
    ("dots1", {**GLM, "sliding_window": None}),
    ("exaone_moe", {**NARROW, "sliding_window": 7}),
    ("exaone_moe", {**NARROW, "sliding_window": 7, "sliding_window_pattern": 3}),
    ("afmoe", {**NARROW, "sliding_window": 7, "global_attn_every_n_layers": 2}),
    ("llama4_text", {**LOCAL, "attention_chunk_size": 7}),
    ("llama4_text", {**LOCAL, "attention_chunk_size": 7, "no_rope_layer_interval": 2}),
    ("llama4_text", {**LOCAL, "attention_chunk_size": 7, "no_rope_layers": [0, 0, 1, 1]}),
    ("llama4_text", {**LOCAL, "attention_chunk_size": None}),
    ("mimo_v2_flash", {**MIMO, "sliding_window": 7, "num_hidden_layers": 8}),
]


def gpt_oss(layers: int, experts: int) -> dict[str, object]:
    return {
        "model_type": "gpt_oss",
        "hidden_size": 2880,
        "intermediate_size": 2880,
        "num_hidden_layers": layers,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "vocab_size": 201088,
        "num_local_experts": experts,
        "num_experts_per_tok": 4,
        "sliding_window": 128,
        "attention_bias": True,
        "max_position_embeddings": 131072,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }


def scaled(family: str, hidden: int, layers: int, heads: tuple[int, int], vocab: int):
    return {
        "model_type": family,
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads[0],
        "num_key_value_heads": heads[1],
        "vocab_size": vocab,
        "max_position_embeddings": 32768,
        "torch_dtype": "bfloat16",
    }


GLM_AIR = {
    **scaled("glm4_moe", 4096, 46, (96, 8), 151552),
    "head_dim": 128,
    "intermediate_size": 10944,
    "n_routed_experts": 128,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 1408,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
    "attention_bias": True,
    "use_qk_norm": False,
    "num_nextn_predict_layers": 1,
}
EIGHT = {"num_local_experts": 8, "num_experts_per_tok": 2}
QWEN3 = {"num_experts": 128, "num_experts_per_tok": 8, "head_dim": 128}
SCOUT = {
    **scaled("llama4_text", 5120, 48, (40, 8), 202048),
    "head_dim": 128,
    "intermediate_size": 8192,
    "intermediate_size_mlp": 16384,
    "num_local_experts": 16,
    "num_experts_per_tok": 1,
    "interleave_moe_layer_step": 1,
}

# Totals of the safetensors metadata that the model hub shows for each repository.
PUBLISHED = {
    "Mixtral-8x7B": (
        {
            **scaled("mixtral", 4096, 32, (32, 8), 32000),
            **EIGHT,
            "intermediate_size": 14336,
            "sliding_window": None,
        },
        46_702_792_704,
    ),
    "Mixtral-8x22B": (
        {
            **scaled("mixtral", 6144, 56, (48, 8), 32000),
            **EIGHT,
            "intermediate_size": 16384,
            "sliding_window": None,
        },
        140_620_634_112,
    ),
    "Qwen3-30B-A3B": (
        {
            **scaled("qwen3_moe", 2048, 48, (32, 4), 151936),
            **QWEN3,
            "intermediate_size": 6144,
            "moe_intermediate_size": 768,
        },
        30_532_122_624,
    ),
    "Qwen3-235B-A22B": (
        {
            **scaled("qwen3_moe", 4096, 94, (64, 4), 151936),
            **QWEN3,
            "intermediate_size": 12288,
            "moe_intermediate_size": 1536,
        },
        235_093_634_560,
    ),
    "Qwen1.5-MoE-A2.7B": (
        {
            **scaled("qwen2_moe", 2048, 24, (16, 16), 151936),
            "intermediate_size": 5632,
            "num_experts": 60,
            "num_experts_per_tok": 4,
            "moe_intermediate_size": 1408,
            "shared_expert_intermediate_size": 5632,
        },
        14_315_784_192,
    ),
    "OLMoE-1B-7B": (
        {
            **scaled("olmoe", 2048, 16, (16, 16), 50304),
            "intermediate_size": 1024,
            "num_experts": 64,
            "num_experts_per_tok": 8,
        },
        6_919_161_856,
    ),
    "Phi-3.5-MoE": (
        {
            **scaled("phimoe", 4096, 32, (32, 8), 32064),
            "intermediate_size": 6400,
            "num_local_experts": 16,
            "num_experts_per_tok": 2,
            "attention_bias": True,
            "lm_head_bias": True,
        },
        41_873_153_344,
    ),
    "dbrx-base": (
        {
            "model_type": "dbrx",
            "d_model": 6144,
            "n_heads": 48,
            "n_layers": 40,
            "vocab_size": 100352,
            "max_seq_len": 32768,
            "attn_config": {"kv_n_heads": 8, "clip_qkv": 8},
            "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4},
            "torch_dtype": "bfloat16",
        },
        131_596_523_520,
    ),
    "gpt-oss-20b": (gpt_oss(24, 32), 20_914_757_184),
    "gpt-oss-120b": (gpt_oss(36, 128), 116_829_156_672),
    "granite-3.0-1b-a400m": (
        {
            **scaled("granitemoe", 1024, 24, (16, 8), 49155),
            "intermediate_size": 512,
            "num_local_experts": 32,
            "num_experts_per_tok": 8,
            "tie_word_embeddings": True,
        },
        1_334_628_352,
    ),
    "ERNIE-4.5-21B-A3B": (
        {
            **scaled("ernie4_5_moe", 2560, 28, (20, 4), 103424),
            "intermediate_size": 12288,
            "moe_num_experts": 64,
            "moe_k": 6,
            "moe_intermediate_size": 1536,
            "moe_num_shared_experts": 2,
            "moe_layer_start_index": 1,
            "moe_layer_end_index": 27,
            "tie_word_embeddings": True,
        },
        21_825_437_888,
    ),
}
