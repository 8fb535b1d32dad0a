"""Sizes of released hybrid checkpoints, as their model cards and papers state them."""

import pytest

from specmemo_sim.inputs.hf_config import model_from_config

LFM2 = {
    "model_type": "lfm2", "hidden_size": 2048, "num_hidden_layers": 16, "vocab_size": 65536,
    "num_attention_heads": 32, "num_key_value_heads": 8, "block_ff_dim": 12288,
    "block_auto_adjust_ff_dim": True, "full_attn_idxs": [2, 5, 8, 10, 12, 14],
}  # fmt: skip
CODESTRAL_MAMBA = {
    "model_type": "mamba2", "hidden_size": 4096, "num_hidden_layers": 64, "vocab_size": 32768,
    "num_heads": 128, "head_dim": 64, "n_groups": 8, "state_size": 128,
    "tie_word_embeddings": False,
}  # fmt: skip
FALCON_MAMBA = {
    "model_type": "falcon_mamba", "hidden_size": 4096, "num_hidden_layers": 64,
    "vocab_size": 65024, "state_size": 16, "tie_word_embeddings": False,
}  # fmt: skip
FALCON_MAMBA_AS_PUBLISHED = {**FALCON_MAMBA, "expand": 16, "intermediate_size": 8192}
QWEN3_NEXT = {
    "model_type": "qwen3_next", "hidden_size": 2048, "num_hidden_layers": 48,
    "vocab_size": 151936, "num_attention_heads": 16, "num_key_value_heads": 2,
}  # fmt: skip
KIMI_LINEAR = {
    "model_type": "kimi_linear", "hidden_size": 2304, "num_hidden_layers": 27,
    "vocab_size": 163840, "num_experts": 256, "num_experts_per_token": 8,
    "linear_attn_config": {
        "full_attn_layers": [4, 8, 12, 16, 20, 24, 27],
        "kda_layers": [n for n in range(1, 27) if n % 4],
        "head_dim": 128, "num_heads": 32, "short_conv_kernel_size": 4,
    },
}  # fmt: skip
MINIMAX_TEXT = {
    "model_type": "minimax_text_01", "hidden_size": 6144, "num_hidden_layers": 80,
    "vocab_size": 200064, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 128,
    "intermediate_size": 9216, "num_local_experts": 32, "num_experts_per_tok": 2,
    "attn_type_list": ([0] * 7 + [1]) * 10,
}  # fmt: skip
JAMBA = {"model_type": "jamba", "hidden_size": 4096, "num_hidden_layers": 32, "vocab_size": 65536}
NEMOTRON_NANO = {
    "model_type": "nemotron_h", "hidden_size": 2688, "num_hidden_layers": 52,
    "vocab_size": 131072, "intermediate_size": 1856, "num_attention_heads": 32,
    "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
    "num_key_value_heads": 2, "head_dim": 128, "mamba_num_heads": 64, "mamba_head_dim": 64,
    "ssm_state_size": 128, "n_groups": 8, "n_routed_experts": 128, "num_experts_per_tok": 6,
    "moe_intermediate_size": 1856, "moe_shared_expert_intermediate_size": 3712,
}  # fmt: skip
LLAMA_VISION = {
    "model_type": "mllama",
    "text_config": {
        "model_type": "mllama_text_model", "hidden_size": 4096, "num_hidden_layers": 40,
        "vocab_size": 128256, "cross_attention_layers": [3, 8, 13, 18, 23, 28, 33, 38],
    },
    "vision_config": {
        "model_type": "mllama_vision_model", "image_size": 560, "hidden_size": 1280,
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        (LFM2, 1_170_340_608),  # model card of LFM2-1.2B
        (CODESTRAL_MAMBA, 7_285_403_648),  # announcement of Codestral Mamba
        # Stated with both an expansion of 16 and the inner size; safetensors metadata of the hub.
        (FALCON_MAMBA_AS_PUBLISHED, 7_272_665_088),
    ],
    ids=["LFM2-1.2B", "Mamba-Codestral-7B", "falcon-mamba-7b"],
)
def test_a_released_checkpoint_has_exactly_its_published_parameters(config, parameters):
    assert model_from_config(config, config["model_type"]).num_parameters == parameters


@pytest.mark.parametrize(
    ("config", "billions", "tolerance"),
    [
        (FALCON_MAMBA, 7.27, 0.001),  # Falcon Mamba, arXiv:2410.05355
        (QWEN3_NEXT, 80, 0.01),  # name of Qwen3-Next-80B-A3B
        (KIMI_LINEAR, 48, 0.03),  # Kimi Linear, arXiv:2510.26692
        (MINIMAX_TEXT, 456, 0.002),  # MiniMax-01, arXiv:2501.08313
        (JAMBA, 52, 0.01),  # Jamba, arXiv:2403.19887
        (NEMOTRON_NANO, 31.6, 0.001),  # report on Nemotron 3 Nano 30B-A3B
    ],
    ids=["Falcon-Mamba", "Qwen3-Next", "Kimi-Linear", "MiniMax-Text-01", "Jamba", "Nemotron-3"],
)
def test_a_released_checkpoint_has_its_published_size(config, billions, tolerance):
    spec = model_from_config(config, config["model_type"])
    assert spec.num_parameters / 1e9 == pytest.approx(billions, rel=tolerance)


def test_text_decoder_and_tower_of_llama_3_2_vision_make_up_its_size():
    """The model card rounds 11B-Vision to 10.6 billion, vision part included."""
    spec = model_from_config(LLAMA_VISION, "Llama-3.2-11B-Vision")
    assert (spec.num_parameters + spec.num_tower_parameters) / 1e9 == pytest.approx(10.6, rel=0.01)
