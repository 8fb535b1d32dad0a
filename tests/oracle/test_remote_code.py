"""Decoders with remote code against models in transformers that have the same shapes.

The twins are other people's code for the same matrices: InternLM2, Baichuan, Yi and Aquila are
Llama under other names, ChatGLM2 is GLM, the first ChatGLM is GPT-NeoX, and Qwen is Qwen2 without
grouped heads.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.meta_models import tiny_config, transformers_parameter_count
from specmemo_sim.inputs.hf_config import model_from_config

HEADS, HEAD_DIM, WIDTH, LAYERS, VOCAB = 8, 6, 56, 3, 97
BASE = {
    "hidden_size": HEADS * HEAD_DIM,
    "num_attention_heads": HEADS,
    "intermediate_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "vocab_size": VOCAB,
}
GROUPED = {**BASE, "num_key_value_heads": 2}
UNGROUPED = {**BASE, "num_key_value_heads": HEADS}
GLM = {
    "hidden_size": 48,
    "num_attention_heads": 8,
    "ffn_hidden_size": WIDTH,
    "num_layers": LAYERS,
    "padded_vocab_size": VOCAB,
    "kv_channels": 6,
    "multi_query_attention": True,
    "multi_query_group_num": 2,
    "add_qkv_bias": True,
}
PHI = {"n_embd": 48, "n_head": 8, "n_layer": LAYERS, "n_inner": WIDTH, "vocab_size": VOCAB}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2}

TWINS = [
    # (type, its config.json, the twin's type, the twin's fields)
    ("baichuan", BASE, "llama", UNGROUPED),
    ("internlm", BASE, "llama", {**UNGROUPED, "attention_bias": True}),
    ("internlm", {**BASE, "bias": False}, "llama", UNGROUPED),
    ("internlm2", {**GROUPED, "bias": False}, "llama", GROUPED),
    ("internlm2", {**GROUPED, "bias": True}, "llama", {**GROUPED, "attention_bias": True}),
    ("xverse", GROUPED, "llama", GROUPED),
    ("Yi", GROUPED, "llama", GROUPED),
    ("aquila", GROUPED, "llama", GROUPED),
    ("skywork", BASE, "llama", UNGROUPED),
    ("orion", BASE, "stablelm", UNGROUPED),
    ("stablelm_epoch", UNGROUPED, "stablelm", UNGROUPED),
    (
        "stablelm_epoch",
        {**GROUPED, "use_qkv_bias": True},
        "stablelm",
        {**GROUPED, "use_qkv_bias": True},
    ),
    ("minicpm", GROUPED, "llama", {**GROUPED, "tie_word_embeddings": True}),
    (
        "minicpm",
        {**GROUPED, **EXPERTS},
        "mixtral",
        {
            **GROUPED,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "tie_word_embeddings": True,
        },
    ),
    ("deepseek", GROUPED, "llama", GROUPED),
    ("mimo", GROUPED, "qwen2", GROUPED),
    ("deci", {**BASE, "num_key_value_heads_per_layer": [2] * LAYERS}, "llama", GROUPED),
    ("exaone", GROUPED, "exaone", GROUPED),
    (
        "exaone",
        {**GROUPED, "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True},
        "exaone",
        {**GROUPED, "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True},
    ),
    ("qwen", {**BASE, "intermediate_size": 2 * WIDTH, "kv_channels": 6}, "qwen2", UNGROUPED),
    ("chatglm", GLM, "glm", {**GROUPED, "head_dim": 6}),
    (
        "chatglm",
        {**GLM, "add_qkv_bias": False, "multi_query_group_num": 4},
        "glm",
        {**GROUPED, "num_key_value_heads": 4, "head_dim": 6, "attention_bias": False},
    ),
    (
        "chatglm",
        {
            "hidden_size": 48,
            "num_attention_heads": 8,
            "inner_hidden_size": WIDTH,
            "num_layers": LAYERS,
            "vocab_size": VOCAB,
            "position_encoding_2d": True,
        },
        "gpt_neox",
        {**BASE, "tie_word_embeddings": True},
    ),
    ("phi-msft", PHI, "phi", UNGROUPED),
    ("phi-msft", {**PHI, "n_head_kv": 2}, "phi", GROUPED),
]


def total(model_type, config):
    return model_from_config({"model_type": model_type, **config}, model_type).num_parameters


@pytest.mark.parametrize(("model_type", "config", "twin", "twin_config"), TWINS)
def test_a_renamed_decoder_has_as_many_parameters_as_its_twin(
    model_type, config, twin, twin_config
):
    ours = total(model_type, config)
    assert ours == transformers_parameter_count(tiny_config(twin, **twin_config))


@settings(max_examples=6, deadline=None)
@given(
    heads=st.sampled_from([4, 8]),
    head_dim=st.sampled_from([4, 6, 10]),
    width=st.integers(8, 100),
    layers=st.integers(1, 4),
    vocab=st.integers(11, 300),
)
def test_twins_agree_at_random_sizes(heads, head_dim, width, layers, vocab):
    sizes = {
        "hidden_size": heads * head_dim,
        "num_attention_heads": heads,
        "num_key_value_heads": 2,
        "intermediate_size": width,
        "num_hidden_layers": layers,
        "vocab_size": vocab,
    }
    llama = transformers_parameter_count(tiny_config("llama", **sizes))
    assert total("internlm2", {**sizes, "bias": False}) == llama
    per_layer = {**sizes, "num_key_value_heads_per_layer": [2] * layers}
    assert total("deci", per_layer) == llama
    qwen2 = transformers_parameter_count(tiny_config("qwen2", **sizes))
    assert total("mimo", sizes) == qwen2


def block(group=4, mult=1.5, **attention):
    return {
        "attention": {"n_heads_in_group": group, "no_op": False, **attention},
        "ffn": {"ffn_mult": mult, "no_op": False},
    }


NAS = {
    "model_type": "nemotron-nas",
    "hidden_size": 256,
    "num_attention_heads": 8,
    "num_hidden_layers": 2,
    "num_key_value_heads": None,
    "intermediate_size": None,
    "vocab_size": 97,
}


@pytest.mark.parametrize(("mult", "width"), [(1.5, 256), (1.5001, 256), (1.51, 512), (6.0, 1024)])
def test_equal_block_configs_are_a_llama_with_the_rounded_width(mult, width):
    config = {**NAS, "block_configs": [block(4, mult), block(4, mult)]}
    llama = tiny_config(
        "llama",
        hidden_size=256,
        num_attention_heads=8,
        num_key_value_heads=2,
        intermediate_size=width,
        num_hidden_layers=2,
        vocab_size=97,
    )
    assert model_from_config(config, "nas").num_parameters == transformers_parameter_count(llama)
