"""Variants that share a type name with another shape, and wrappers read by remote code.

Totals are those of the safetensors metadata that huggingface.co shows, or of transformers on the
meta device, as said at each.
"""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.models.deepseek_ocr2.modeling_deepseek_ocr2 import DeepseekOcr2TextModel

from oracle.meta_models import our_model, tiny_config, transformers_parameter_count
from specmemo_sim.errors import ModelConfigError
from specmemo_sim.inputs.dtypes import DType
from specmemo_sim.inputs.families.towers import tower_tensors
from specmemo_sim.inputs.hf_config import model_from_config
from specmemo_sim.inputs.model import Role
from specmemo_sim.memory.kv_cache import CachePolicy, kv_bytes_per_token

VL2_TINY = {
    "model_type": "deepseek_v2", "hidden_size": 1280, "intermediate_size": 6848,
    "moe_intermediate_size": 896, "num_hidden_layers": 12, "num_attention_heads": 10,
    "num_key_value_heads": 10, "n_routed_experts": 64, "n_shared_experts": 2,
    "num_experts_per_tok": 6, "first_k_dense_replace": 1, "kv_lora_rank": None,
    "q_lora_rank": None, "qk_nope_head_dim": 0, "qk_rope_head_dim": 0, "v_head_dim": 0,
    "use_mla": False, "vocab_size": 129280, "max_position_embeddings": 4096,
}  # fmt: skip
INTERNLM3 = {
    "model_type": "internlm3", "hidden_size": 4096, "intermediate_size": 10240,
    "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 2, "head_dim": 128,
    "vocab_size": 128512, "bias": False, "qkv_bias": False, "tie_word_embeddings": False,
}  # fmt: skip
LING_LITE = {
    "model_type": "bailing_moe", "hidden_size": 2048, "intermediate_size": 5632,
    "moe_intermediate_size": 1408, "num_attention_heads": 16, "num_key_value_heads": 4,
    "num_hidden_layers": 28, "num_experts": 64, "num_experts_per_tok": 6, "num_shared_experts": 2,
    "first_k_dense_replace": 0, "vocab_size": 126464, "tie_word_embeddings": False,
}  # fmt: skip
GLM_41V = {
    "model_type": "glm4v", "attention_bias": True, "hidden_size": 4096, "intermediate_size": 13696,
    "num_hidden_layers": 40, "num_attention_heads": 32, "num_key_value_heads": 2,
    "vocab_size": 151552, "tie_word_embeddings": False,
    "vision_config": {
        "hidden_size": 1536, "depth": 24, "num_heads": 12, "attention_bias": False,
        "intermediate_size": 13696, "image_size": 336, "in_channels": 3, "out_hidden_size": 4096,
        "patch_size": 14, "spatial_merge_size": 2, "temporal_patch_size": 2,
    },
}  # fmt: skip
FUYU = {
    "model_type": "fuyu", "patch_size": 30, "num_channels": 3, "image_size": 300,
    "text_config": {
        "model_type": "persimmon", "hidden_size": 4096, "intermediate_size": 16384,
        "num_hidden_layers": 36, "num_attention_heads": 64, "vocab_size": 262144,
        "qk_layernorm": True, "tie_word_embeddings": False,
    },
}  # fmt: skip
INTERN_VIT_300M = {
    "model_type": "intern_vit_6b", "hidden_size": 1024, "intermediate_size": 4096,
    "num_hidden_layers": 24, "num_attention_heads": 16, "num_channels": 3, "image_size": 448,
    "patch_size": 14, "norm_type": "layer_norm", "qkv_bias": True, "qk_normalization": False,
}  # fmt: skip
INTERN_VIT_6B = {
    "model_type": "intern_vit_6b", "hidden_size": 3200, "intermediate_size": 12800,
    "num_hidden_layers": 45, "num_attention_heads": 25, "num_channels": 3, "image_size": 448,
    "patch_size": 14, "norm_type": "rms_norm", "qkv_bias": False, "qk_normalization": True,
}  # fmt: skip
INTERNVL2_8B = {
    "model_type": "internvl_chat", "downsample_ratio": 0.5,
    "llm_config": {
        "model_type": "internlm2", "hidden_size": 4096, "intermediate_size": 14336,
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
        "vocab_size": 92553, "bias": False, "tie_word_embeddings": False,
    },
    "vision_config": INTERN_VIT_300M,
}  # fmt: skip
WHOLE = [
    ("internlm3-8b-instruct", INTERNLM3, 8_804_241_408),
    ("Ling-lite", LING_LITE, 16_801_974_272),
    ("GLM-4.1V-9B, by transformers", GLM_41V, 10_292_777_472),
    ("fuyu-8b", FUYU, 9_408_238_592),
    ("InternVL2-8B", INTERNVL2_8B, 8_075_365_376),
]


@pytest.mark.parametrize(("name", "config", "published"), WHOLE)
def test_a_released_checkpoint_has_its_published_parameters_tower_included(name, config, published):
    spec = model_from_config(config, name)
    assert spec.tower_missing == ""
    assert spec.num_parameters + spec.num_tower_parameters == published


def test_ordinary_attention_of_deepseek_vl2_tiny_caches_ten_heads_of_keys_and_values():
    """12 layers of 2 x 10 x 128 elements are 61,440 bytes a token in bf16."""
    spec = model_from_config(VL2_TINY, "deepseek-vl2-tiny")
    assert kv_bytes_per_token(spec, CachePolicy(DType.BF16)) == 61_440
    kinds = {cache.kind for layer in spec.layers for cache in layer.caches}
    assert kinds == {"attention"}


@settings(max_examples=8, deadline=None)
@given(
    heads=st.integers(1, 5),
    dense=st.integers(0, 3),
    experts=st.integers(2, 6),
    shared=st.integers(1, 3),
    width=st.integers(3, 40),
)
def test_deepseek_v2_without_latents_counts_as_the_language_part_of_deepseek_ocr_2(
    heads, dense, experts, shared, width
):
    same = {
        "hidden_size": heads * 8, "num_attention_heads": heads, "num_key_value_heads": heads,
        "n_routed_experts": experts, "n_shared_experts": shared, "num_experts_per_tok": 2,
        "moe_intermediate_size": width, "intermediate_size": 30, "num_hidden_layers": 3,
        "vocab_size": 97,
    }  # fmt: skip
    layers = ["dense"] * dense + ["sparse"] * (3 - dense)
    theirs = tiny_config("deepseek_ocr2_text", **same, mlp_layer_types=layers)
    ours = model_from_config(
        {**VL2_TINY, **same, "first_k_dense_replace": dense}, "without latent attention"
    )
    with torch.device("meta"):
        decoder = DeepseekOcr2TextModel(theirs)
    head = sum(t.num_elements for t in ours.outer if t.role is Role.LM_HEAD)
    assert ours.num_parameters - head == sum(p.numel() for p in decoder.parameters())


@pytest.mark.parametrize("bias", [False, True])
def test_internlm3_of_transformers_has_its_parameters(bias):
    """transformers takes one setting for all biases."""
    over = {"attention_bias": bias, "mlp_bias": bias, "head_dim": 10}
    expected = transformers_parameter_count(tiny_config("internlm3", **over))
    assert our_model("internlm3", **over).num_parameters == expected


def test_internlm3_as_published_biases_queries_keys_and_values_by_a_field_of_their_own():
    biased = {
        tensor.name
        for tensor in model_from_config({**INTERNLM3, "qkv_bias": True}, "x").layers[0].tensors
        if tensor.name.endswith("bias")
    }
    assert biased == {f"self_attn.{name}_proj.bias" for name in "qkv"}


def test_intern_vit_6b_has_its_published_5_54_billion_parameters():
    """InternViT-6B-448px-V1-5: 5,540 million on its page, which the RMS and query norms are in."""
    tensors, _ = tower_tensors(
        {"model_type": "internvl_chat", "vision_config": INTERN_VIT_6B}, 6144, "InternVL2-26B"
    )
    tower = sum(t.num_elements for t in tensors if not t.name.startswith("mlp1"))
    assert tower / 1e6 == pytest.approx(5540, rel=0.001)


def test_the_two_codes_of_internvl_hold_the_same_tower():
    """Both count the 300M encoder and its projector alike, under names of their own."""
    hub, _ = tower_tensors(INTERNVL2_8B, 4096, "InternVL2-8B")
    vision = {"model_type": "internvl_vision", "attention_bias": True}
    native, _ = tower_tensors({"model_type": "internvl", "vision_config": vision}, 4096, "hf")
    assert sum(t.num_elements for t in hub) == sum(t.num_elements for t in native) == 337_583_104


BROKEN = [
    ({**INTERNVL2_8B, "vision_config": {**INTERN_VIT_300M, "norm_type": "batch"}}, "norm_type"),
    ({**FUYU, "patch_size": 10**6}, "out of range"),
    ({"model_type": "gpt2", "n_embd": 8, "n_layer": 1, "n_head": 2, "vocab_size": 9,
      "attention_head_type": "grouped"}, "allowed are multihead, multiquery"),
    ({"model_type": "falcon_mamba", "hidden_size": 8, "num_hidden_layers": 1, "vocab_size": 9,
      "intermediate_size": 0}, "intermediate_size = 0 is out of range"),
]  # fmt: skip


@pytest.mark.parametrize(("config", "problem"), BROKEN)
def test_an_impossible_field_of_a_variant_is_one_line_that_names_it(config, problem):
    with pytest.raises(ModelConfigError, match=problem) as caught:
        model_from_config(config, "model")
    assert "\n" not in str(caught.value)
