"""Decoders with remote code: published totals, caches, and what is refused.

The totals are those that the model pages at huggingface.co show for the stored weights.
"""

import pytest

from specmemo_sim.errors import ModelConfigError
from specmemo_sim.inputs.hf_config import model_from_config
from specmemo_sim.inputs.model import Role


def shaped(model_type, vocab, hidden, width, layers, heads, **more):
    """A config.json under the common names."""
    return {
        "model_type": model_type,
        "vocab_size": vocab,
        "hidden_size": hidden,
        "intermediate_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        **more,
    }


CHATGLM3 = {
    "model_type": "chatglm",
    "hidden_size": 4096,
    "num_layers": 28,
    "padded_vocab_size": 65024,
    "ffn_hidden_size": 13696,
    "kv_channels": 128,
    "num_attention_heads": 32,
    "multi_query_attention": True,
    "multi_query_group_num": 2,
    "add_qkv_bias": True,
    "add_bias_linear": False,
    "rmsnorm": True,
    "post_layer_norm": True,
}
CHATGLM1 = {
    "model_type": "chatglm",
    "hidden_size": 4096,
    "inner_hidden_size": 16384,
    "num_layers": 28,
    "num_attention_heads": 32,
    "vocab_size": 130528,
    "position_encoding_2d": True,
}
EXAONE3 = {
    "model_type": "exaone",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 102400,
    "tie_word_embeddings": False,
}
DEEPSEEK_MOE = shaped(
    "deepseek", 102400, 2048, 10944, 28, 16,
    num_key_value_heads=16, moe_intermediate_size=1408, n_routed_experts=64, n_shared_experts=2,
    num_experts_per_tok=6, first_k_dense_replace=1, moe_layer_freq=1,
)  # fmt: skip
MIMO = shaped(
    "mimo", 151680, 4096, 11008, 36, 32,
    num_key_value_heads=8, head_dim=128, num_nextn_predict_layers=1,
)  # fmt: skip
PHI2 = {"model_type": "phi-msft", "n_embd": 2560, "n_head": 32, "n_head_kv": None,
        "n_inner": None, "n_layer": 32, "vocab_size": 51200}  # fmt: skip

PUBLISHED = [
    ("chatglm3-6b", CHATGLM3, 6_243_584_000),
    ("glm-4-9b", {**CHATGLM3, "num_layers": 40, "padded_vocab_size": 151552}, 9_399_951_360),
    ("chatglm-6b", CHATGLM1, 6_173_286_400),
    ("chatglm-6b, first vocabulary", {**CHATGLM1, "vocab_size": 150528}, 6_255_206_400),
    ("Baichuan-7B", shaped("baichuan", 64000, 4096, 11008, 32, 32), 7_000_559_616),
    ("Baichuan2-7B", shaped("baichuan", 125696, 4096, 11008, 32, 32), 7_505_973_248),
    ("Baichuan-13B", shaped("baichuan", 64000, 5120, 13696, 40, 40), 13_264_901_120),
    ("Baichuan2-13B", shaped("baichuan", 125696, 5120, 13696, 40, 40), 13_896_668_160),
    (
        "internlm2-7b",
        shaped("internlm2", 92544, 4096, 14336, 32, 32, num_key_value_heads=8, bias=False),
        7_737_708_544,
    ),
    (
        "internlm2-1_8b",
        shaped("internlm2", 92544, 2048, 8192, 24, 16, num_key_value_heads=8, bias=False),
        1_889_110_016,
    ),
    ("Qwen-1_8B", shaped("qwen", 151936, 2048, 11008, 24, 16, kv_channels=128), 1_836_828_672),
    ("Qwen-7B", shaped("qwen", 151936, 4096, 22016, 32, 32, kv_channels=128), 7_721_324_544),
    ("Qwen-14B", shaped("qwen", 152064, 5120, 27392, 40, 40, kv_channels=128), 14_167_290_880),
    ("Qwen-72B", shaped("qwen", 152064, 8192, 49152, 80, 64, kv_channels=128), 72_287_920_128),
    ("deepseek-moe-16b-base", DEEPSEEK_MOE, 16_375_728_128),
    ("MiniCPM-2B", shaped("minicpm", 122753, 2304, 5760, 40, 36), 2_724_880_896),
    ("EXAONE-3.0-7.8B", EXAONE3, 7_818_448_896),
    ("phi-2", PHI2, 2_779_683_840),
    ("stablelm-3b-4e1t", shaped("stablelm_epoch", 50304, 2560, 6912, 32, 32), 2_795_443_200),
    ("Yi-6B", shaped("Yi", 64000, 4096, 11008, 32, 32, num_key_value_heads=4), 6_061_035_520),
]


@pytest.mark.parametrize(("name", "config", "published"), PUBLISHED)
def test_a_published_checkpoint_has_its_published_number_of_parameters(name, config, published):
    assert model_from_config(config, name).num_parameters == published


def test_the_published_total_of_mimo_counts_its_mtp_layer():
    spec = model_from_config(MIMO, "MiMo-7B-RL")
    assert len(spec.mtp) == 1
    assert spec.num_parameters + spec.num_mtp_parameters == 7_833_409_536


def test_an_mtp_layer_of_mimo_is_a_decoder_layer_with_three_norms_and_a_projection_of_two():
    spec = model_from_config(MIMO, "MiMo-7B-RL")
    own = {t.name: t.shape for t in spec.mtp[0].tensors if t not in spec.layers[0].tensors}
    assert own == {
        "token_layernorm.weight": (4096,),
        "hidden_layernorm.weight": (4096,),
        "final_layernorm.weight": (4096,),
        "input_proj.weight": (4096, 8192),
    }


def nas_block(kind, mult):
    attends = kind == "attention"
    return {
        "attention": {"n_heads_in_group": 8 if attends else None, "no_op": not attends,
                      "replace_with_linear": False, "window_length": None},
        "ffn": {"ffn_mult": mult, "no_op": False, "replace_with_linear": False},
    }  # fmt: skip


def nemotron_super_49b():
    """The block_configs of Llama-3_3-Nemotron-Super-49B-v1, as runs of equal blocks."""
    no_attention = (
        1.3125, 2.625, 2.625, 1.3125, 5.25, 1.3125, 2.625, 1.3125, 1.3125, 1.3125, None,
        1.3125, 1.0, 1.0, 1.3125, 1.0, 1.0, 1.0, 1.3125, 1.3125, 0.5, 0.5, 1.0, 1.0, 0.5, 0.5,
        1.0, 0.5, 0.5,
    )  # fmt: skip
    full = nas_block("attention", 5.25)
    blocks = [
        nas_block("attention", 2.625), *[full] * 5, *[nas_block("none", 2.625)] * 2, *[full] * 3,
        nas_block("none", 3.28125), *[full] * 30,
        *[full if mult is None else nas_block("none", mult) for mult in no_attention],
        *[full] * 9,
    ]  # fmt: skip
    return {
        "model_type": "nemotron-nas", "hidden_size": 8192, "num_hidden_layers": 80,
        "num_attention_heads": 64, "num_key_value_heads": None, "intermediate_size": None,
        "vocab_size": 128256, "tie_word_embeddings": False, "attention_bias": False,
        "block_configs": blocks,
    }  # fmt: skip


def test_nemotron_super_has_its_published_parameters_and_49_caching_layers():
    spec = model_from_config(nemotron_super_49b(), "Llama-3_3-Nemotron-Super-49B-v1")
    assert spec.num_parameters == 49_867_145_216
    caching = [layer for layer in spec.layer_sequence() if layer.caches]
    assert len(caching) == 49
    assert {layer.caches[0].num_kv_heads for layer in caching} == {8}


TINY_NAS = {
    "model_type": "nemotron-nas", "hidden_size": 256, "num_hidden_layers": 1,
    "num_attention_heads": 8, "num_key_value_heads": None, "intermediate_size": None,
    "vocab_size": 97,
}  # fmt: skip


def nas(attention, ffn):
    return {**TINY_NAS, "block_configs": [{"attention": attention, "ffn": ffn}]}


def test_a_block_without_anything_holds_and_caches_nothing():
    layer = model_from_config(nas({"no_op": True}, {"no_op": True}), "nas").layers[0]
    assert (layer.tensors, layer.caches, layer.num_heads, layer.mlp_width) == ((), (), 0, 0)


def test_a_block_of_linear_layers_holds_two_squares_with_their_norms_and_caches_nothing():
    part = {"replace_with_linear": True}
    layer = model_from_config(nas(part, part), "nas").layers[0]
    assert layer.caches == ()
    assert {tensor.name: tensor.shape for tensor in layer.tensors} == {
        "input_layernorm.weight": (256,),
        "self_attn.linear_attn.weight": (256, 256),
        "post_attention_layernorm.weight": (256,),
        "mlp.linear_mlp.weight": (256, 256),
    }


def test_a_block_with_sinks_sees_its_window_and_them():
    attention = {"n_heads_in_group": 4, "window_length": 60, "num_sink_tokens": 4}
    layer = model_from_config(nas(attention, {"ffn_mult": 1.5}), "nas").layers[0]
    assert layer.caches[0].window == 64


def test_decilm_caches_the_heads_that_each_layer_states():
    config = shaped("deci", 97, 48, 56, 3, 8, num_key_value_heads_per_layer=[4, 2, 1])
    spec = model_from_config(config, "DeciLM")
    assert [layer.caches[0].num_kv_heads for layer in spec.layer_sequence()] == [4, 2, 1]


def test_one_kv_head_less_saves_two_projections_of_a_head_as_in_decilm_7b():
    """DeciLM-7B: 67 KV heads over 32 layers, 7 043 551 232 parameters on its model page."""
    counts = [4] * 3 + [2] * 26 + [1] * 3
    assert sum(counts) == 67
    config = shaped("deci", 32000, 4096, 14336, 32, 32, num_key_value_heads_per_layer=counts)
    assert model_from_config(config, "DeciLM-7B").num_parameters == 7_043_551_232


def test_chatglm_caches_its_two_groups_and_the_first_one_all_heads():
    for config, heads in ((CHATGLM3, 2), (CHATGLM1, 32)):
        cache = model_from_config(config, "chatglm").layers[0].caches[0]
        assert (cache.num_kv_heads, cache.key_head_dim, cache.value_head_dim) == (heads, 128, 128)


def test_a_chatglm_with_layer_norms_and_biases_has_both_for_every_matrix():
    config = {**CHATGLM3, "add_bias_linear": True, "rmsnorm": False, "post_layer_norm": False}
    spec = model_from_config(config, "chatglm")
    names = {tensor.name for tensor in spec.layers[0].tensors}
    weights = {name.removesuffix(".weight") for name in names if name.endswith(".weight")}
    assert {name.removesuffix(".bias") for name in names if name.endswith(".bias")} == weights
    assert not any("final_layernorm" in tensor.name for tensor in spec.outer)


def test_qwen_feeds_forward_through_half_its_intermediate_size():
    spec = model_from_config(shaped("qwen", 151936, 4096, 22016, 32, 32), "Qwen-7B")
    assert spec.layers[0].mlp_width == 11008
    assert spec.layers[0].mlp_gated


def test_deepseek_moe_starts_dense_and_routes_six_of_sixty_four_experts_afterwards():
    spec = model_from_config(DEEPSEEK_MOE, "deepseek-moe-16b-base")
    first, *others = spec.layer_sequence()
    assert (first.num_experts, first.mlp_width) == (0, 10944)
    assert {(layer.num_experts, layer.experts_per_token) for layer in others} == {(64, 6)}
    assert {layer.mlp_width for layer in others} == {(6 + 2) * 1408}
    assert {t.count for t in others[0].tensors if t.role is Role.EXPERT} == {64}
    # The model's page: 16.4 billion parameters, of which a token uses 2.8 billion.
    assert round((spec.num_active_parameters + 102400 * 2048) / 1e9, 1) == 2.8


def test_telechat_takes_its_width_from_ffn_hidden_size_and_biases_only_what_leads_back():
    config = {"model_type": "telechat", "hidden_size": 64, "ffn_hidden_size": 96, "n_layer": 2,
              "n_head": 8, "vocab_size": 97, "intermediate_size": 1}  # fmt: skip
    layer = model_from_config(config, "telechat").layers[0]
    shapes = {tensor.name: tensor.shape for tensor in layer.tensors}
    assert shapes["mlp.up_proj.weight"] == (96, 64)
    assert shapes["self_attention.key_value.weight"] == (128, 64)
    assert {name for name in shapes if name.endswith("bias")} == {
        "self_attention.dense.bias",
        "mlp.down_proj.bias",
    }


TINY = {"vocab": 97, "hidden": 48, "width": 56, "layers": 3, "heads": 8}


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        (shaped("xverse", **TINY, num_experts=64), "num_experts is given, but only dense"),
        (shaped("qwen", **{**TINY, "width": 57}), "must be even"),
        ({**CHATGLM3, "multi_query_group_num": 3}, "multi_query_group_num = 3"),
        ({**CHATGLM3, "kv_channels": 2}, "kv_channels = 2 is out of range"),
        ({**CHATGLM3, "ffn_hidden_size": None}, "ffn_hidden_size is missing"),
        (shaped("deci", **TINY, num_key_value_heads_per_layer=[4, 2]), "2 entries for 3 layers"),
        (shaped("deci", **TINY, num_key_value_heads_per_layer=[4, 3, 2]), "multiple of 3 heads"),
        (shaped("mimo", **TINY, num_nextn_predict_layers=10**6), "allowed is 0 to 64"),
        ({**DEEPSEEK_MOE, "num_experts_per_tok": 65}, "more than the 64 experts"),
        (TINY_NAS, "block_configs must describe each of the 1 layers, but has none"),
        (nas({"n_heads_in_group": 3}, {"no_op": True}), "does not divide"),
        (nas({"no_op": True}, {"ffn_mult": 0}), "ffn_mult = 0.0 is missing or out of range"),
        (nas({"no_op": True}, {"ffn_mult": 1e300}), "out of range"),
        (nas({"no_op": True}, {"moe": {"num_experts": 8}}), "moe is set"),
        (nas({"is_mamba": True}, {"no_op": True}), "is_mamba is set"),
        (nas({}, {"no_op": True}), "n_heads_in_group is missing"),
    ],
)
def test_an_impossible_field_is_one_line_that_names_it(config, problem):
    with pytest.raises(ModelConfigError, match=problem) as caught:
        model_from_config(config, "odd")
    assert "\n" not in str(caught.value)
