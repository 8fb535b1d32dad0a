"""Classic decoders against transformers' own modules, and against published totals."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.meta_models import (
    cached_elements_per_token,
    our_elements_per_token,
    our_model,
    our_tensors,
    tiny_config,
    transformers_tensors,
)
from specmemo_sim.errors import ModelConfigError
from specmemo_sim.inputs.dtypes import DType
from specmemo_sim.inputs.hf_config import model_from_config
from specmemo_sim.memory.kv_cache import CachePolicy, kv_bytes_per_token

FOUR_GLOBAL_LOCAL = [[["global", "local"], 2]]
CASES = [
    ("gpt2", {}),
    ("gpt2", {"tie_word_embeddings": False, "n_inner": 72}),
    ("openai-gpt", {}),
    ("gpt_bigcode", {}),
    ("gpt_bigcode", {"multi_query": False, "tie_word_embeddings": False, "n_inner": 72}),
    ("gptj", {}),
    ("gptj", {"tie_word_embeddings": True, "n_inner": 72}),
    ("codegen", {}),
    ("codegen", {"tie_word_embeddings": True, "n_inner": 72}),
    ("gpt_neo", {"attention_types": FOUR_GLOBAL_LOCAL}),
    ("gpt_neo", {"attention_types": [[["global"], 3], [["local"], 1]], "intermediate_size": None}),
    ("gpt_neox", {}),
    ("gpt_neox", {"attention_bias": False, "tie_word_embeddings": True}),
    ("opt", {}),
    ("opt", {"word_embed_proj_dim": 20, "do_layer_norm_before": False}),
    ("opt", {"enable_bias": False, "layer_norm_elementwise_affine": False}),
    ("opt", {"_remove_final_layer_norm": True, "tie_word_embeddings": False}),
    ("xglm", {}),
    ("xglm", {"tie_word_embeddings": False}),
    ("biogpt", {}),
    ("biogpt", {"tie_word_embeddings": False}),
    ("bloom", {}),
    ("bloom", {"tie_word_embeddings": False}),
    ("mpt", {}),
    ("mpt", {"attn_config": {"alibi": True, "qk_ln": False}, "tie_word_embeddings": False}),
    ("falcon", {}),
    ("falcon", {"multi_query": False, "parallel_attn": False, "bias": True, "alibi": True}),
    ("falcon", {"new_decoder_architecture": True, "num_kv_heads": 2}),
    ("falcon", {"new_decoder_architecture": True, "num_ln_in_parallel_attn": 1}),
    ("falcon", {"num_ln_in_parallel_attn": 2, "tie_word_embeddings": False}),
    ("falcon", {"ffn_hidden_size": 72}),
]
CONV1D = {"gpt2", "openai-gpt"}
"""Families that store linear weights as [inputs, outputs]."""


def stored(model_type, **over):
    """The tensors we list, as transformers 5 names and lays them out."""
    ours = our_tensors(our_model(model_type, **over))
    renamed = Counter()
    for (name, shape), count in ours.items():
        turned = model_type in CONV1D and ".c_" in name and len(shape) == 2
        # transformers 5 renames the embed_out of the GPT-NeoX checkpoints when it loads them.
        name = name.replace("embed_out", "lm_head") if model_type == "gpt_neox" else name
        renamed[name, shape[::-1] if turned else shape] += count
    return renamed


@pytest.mark.parametrize(("model_type", "over"), CASES)
def test_every_tensor_has_the_name_and_shape_it_has_in_transformers(model_type, over):
    assert stored(model_type, **over) == transformers_tensors(tiny_config(model_type, **over))


@pytest.mark.parametrize("model_type", sorted({model_type for model_type, _ in CASES}))
@settings(max_examples=4, deadline=None)
@given(
    heads=st.sampled_from([4, 8]),
    head_dim=st.sampled_from([4, 6, 10]),
    layers=st.sampled_from([2, 6]),
    vocab=st.integers(11, 300),
)
def test_random_sizes_give_the_tensors_of_transformers(model_type, heads, head_dim, layers, vocab):
    over = {
        "hidden_size": heads * head_dim,
        "num_attention_heads": heads,
        "num_hidden_layers": layers,
        "vocab_size": vocab,
    }
    if model_type == "gpt_neo":
        over["attention_types"] = [[["global", "local"], layers // 2]]
    if model_type == "opt":
        over["word_embed_proj_dim"] = heads
    assert stored(model_type, **over) == transformers_tensors(tiny_config(model_type, **over))


CACHED = [
    ("gpt2", {}),
    ("gpt_bigcode", {}),
    ("gpt_bigcode", {"multi_query": False}),
    ("gptj", {"rotary_dim": 4}),
    ("codegen", {"rotary_dim": 4}),
    ("gpt_neo", {"attention_types": FOUR_GLOBAL_LOCAL}),
    ("gpt_neox", {}),
    ("opt", {}),
    ("opt", {"word_embed_proj_dim": 20}),
    ("bloom", {}),
    ("mpt", {}),
    ("falcon", {}),
    ("falcon", {"multi_query": False}),
]


@pytest.mark.parametrize(("model_type", "over"), CACHED)
def test_a_token_adds_to_the_cache_what_it_adds_in_transformers(model_type, over):
    ours = our_elements_per_token(our_model(model_type, **over))
    assert ours == cached_elements_per_token(model_type, **over)


def test_local_layers_of_gpt_neo_see_their_window_and_global_ones_all():
    spec = our_model("gpt_neo", attention_types=[[["global", "local"], 2]], window_size=7)
    windows = [layer.caches[0].window for layer in spec.layer_sequence()]
    assert windows == [None, 7, None, 7]


def test_falcon_with_grouped_heads_notes_that_transformers_caches_them_repeated():
    spec = our_model("falcon", new_decoder_architecture=True, num_kv_heads=2)
    assert our_elements_per_token(spec) == [2 * 2 * 12] * 4
    over = {"new_decoder_architecture": True, "num_kv_heads": 2}
    assert cached_elements_per_token("falcon", **over) == [2 * 4 * 12] * 4
    assert any("repeats them to 4" in note for note in spec.notes)


FALCON = {"vocab_size": 65024, "alibi": False, "bias": False, "parallel_attn": True}
MPT = {"model_type": "mpt", "no_bias": True, "learned_pos_emb": True, "max_seq_len": 2048}
PUBLISHED = [
    # (name, the fields of its config.json, parameters on its model page at huggingface.co)
    (
        "gpt2",
        {"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024,
         "vocab_size": 50257},
        124_439_808,
    ),
    (
        "opt-125m",
        {"model_type": "opt", "hidden_size": 768, "ffn_dim": 3072, "num_hidden_layers": 12,
         "num_attention_heads": 12, "vocab_size": 50272, "max_position_embeddings": 2048},
        125_239_296,
    ),
    (
        "opt-350m",
        {"model_type": "opt", "hidden_size": 1024, "ffn_dim": 4096, "num_hidden_layers": 24,
         "num_attention_heads": 16, "vocab_size": 50272, "max_position_embeddings": 2048,
         "word_embed_proj_dim": 512, "do_layer_norm_before": False},
        331_196_416,
    ),
    (
        "bloom-560m",
        {"model_type": "bloom", "n_embed": 1024, "n_layer": 24, "num_attention_heads": 16,
         "vocab_size": 250880},
        559_214_592,
    ),
    (
        "mpt-7b",
        {**MPT, "d_model": 4096, "n_heads": 32, "n_layers": 32, "vocab_size": 50432,
         "expansion_ratio": 4, "attn_config": {"alibi": True, "qk_ln": False}},
        6_649_286_656,
    ),
    (
        "gpt-j-6b",
        {"model_type": "gptj", "n_embd": 4096, "n_head": 16, "n_layer": 28, "n_inner": None,
         "vocab_size": 50400},
        6_050_882_784,
    ),
    (
        "gpt-neo-1.3B",
        {"model_type": "gpt_neo", "hidden_size": 2048, "num_layers": 24, "num_heads": 16,
         "vocab_size": 50257, "max_position_embeddings": 2048, "intermediate_size": None,
         "attention_types": [[["global", "local"], 12]], "window_size": 256},
        1_315_575_808,
    ),
    (
        "gpt-neox-20b",
        {"model_type": "gpt_neox", "hidden_size": 6144, "intermediate_size": 24576,
         "num_hidden_layers": 44, "num_attention_heads": 64, "vocab_size": 50432},
        20_554_567_680,
    ),
    (
        "pythia-70m",
        {"model_type": "gpt_neox", "hidden_size": 512, "intermediate_size": 2048,
         "num_hidden_layers": 6, "num_attention_heads": 8, "vocab_size": 50304},
        70_426_624,
    ),
    (
        "falcon-7b under its first name",
        {**FALCON, "model_type": "RefinedWebModel", "hidden_size": 4544, "n_head": 71,
         "n_layer": 32, "multi_query": True},
        6_921_720_704,
    ),
    (
        "falcon-40b under its first name",
        {**FALCON, "model_type": "RefinedWeb", "hidden_size": 8192, "n_head": 128,
         "n_head_kv": 8, "n_layer": 60},
        41_303_293_952,
    ),
    (
        "falcon-40b",
        {**FALCON, "model_type": "falcon", "hidden_size": 8192, "num_attention_heads": 128,
         "num_kv_heads": 8, "num_hidden_layers": 60, "new_decoder_architecture": True},
        41_303_293_952,
    ),
    (
        "santacoder",
        {"model_type": "gpt2", "n_embd": 2048, "n_head": 16, "n_layer": 24, "n_positions": 2048,
         "n_inner": 8192, "vocab_size": 49280, "attention_head_type": "multiquery"},
        1_124_886_528,
    ),
    (
        "starcoderbase",
        {"model_type": "gpt_bigcode", "n_embd": 6144, "n_head": 48, "n_layer": 40,
         "n_positions": 8192, "n_inner": 24576, "multi_query": True, "vocab_size": 49152},
        15_517_456_384,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "config", "published"), PUBLISHED)
def test_a_published_checkpoint_has_its_published_number_of_parameters(name, config, published):
    assert model_from_config(config, name).num_parameters == published


def test_santacoder_caches_one_head_of_each_layer():
    """2 x 128 elements in 24 layers are 12,288 bytes a token in fp16."""
    config = next(config for name, config, _ in PUBLISHED if name == "santacoder")
    spec = model_from_config(config, "santacoder")
    assert kv_bytes_per_token(spec, CachePolicy(DType.FP16)) == 12_288


def test_mpt_with_grouped_heads_caches_those_heads():
    config = {**MPT, "d_model": 64, "n_heads": 8, "n_layers": 2, "vocab_size": 100}
    config["attn_config"] = {"attn_type": "grouped_query_attention", "kv_n_heads": 2, "qk_ln": True}
    layer = model_from_config(config, "mpt").layers[0]
    assert our_elements_per_token(model_from_config(config, "mpt")) == [2 * 2 * 8] * 2
    shapes = {tensor.name: tensor.shape for tensor in layer.tensors}
    assert shapes["attn.Wqkv.weight"] == (64 + 2 * 16, 64)
    assert (shapes["attn.q_ln.weight"], shapes["attn.k_ln.weight"]) == ((64,), (16,))


def test_mpt_has_a_position_table_only_without_relative_positions():
    config = {**MPT, "d_model": 64, "n_heads": 8, "n_layers": 2, "vocab_size": 100}
    names = {}
    for alibi in (False, True):
        spec = model_from_config({**config, "attn_config": {"alibi": alibi}}, "mpt")
        names[alibi] = {tensor.name: tensor.shape for tensor in spec.outer}
    assert names[False]["transformer.wpe.weight"] == (2048, 64)
    assert "transformer.wpe.weight" not in names[True]


def test_mpt_with_biases_has_one_for_every_matrix_and_norm():
    config = {**MPT, "d_model": 64, "n_heads": 8, "n_layers": 2, "vocab_size": 100}
    layer = model_from_config({**config, "no_bias": False}, "mpt").layers[0]
    names = {tensor.name for tensor in layer.tensors}
    weights = {name.removesuffix(".weight") for name in names if name.endswith(".weight")}
    assert {name.removesuffix(".bias") for name in names if name.endswith(".bias")} == weights


GPT_NEO = {"model_type": "gpt_neo", "hidden_size": 48, "num_layers": 4, "num_heads": 4,
           "vocab_size": 97, "max_position_embeddings": 64}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({**GPT_NEO, "attention_types": [[["global"], 3]]}, "3 layers, but there are 4"),
        ({**GPT_NEO, "attention_types": [[["sideways"], 4]]}, "allowed are global and local"),
        ({**GPT_NEO, "attention_types": ["global"]}, "must be a list of"),
        ({**GPT_NEO, "attention_types": [[["global"], 10**6]]}, "more than 4096 layers"),
        ({**GPT_NEO, "num_heads": 5}, "not a multiple of num_attention_heads = 5"),
        ({**FALCON, "model_type": "RefinedWeb", "hidden_size": 64, "n_head": 8, "n_head_kv": 3,
          "n_layer": 2}, "not a multiple of 3 heads"),
        ({**FALCON, "model_type": "falcon", "hidden_size": 64, "n_head": 8, "n_layer": 10**6},
         "allowed is 1 to 4096"),
        ({**MPT, "d_model": 64, "n_heads": 8, "n_layers": 2, "vocab_size": 9,
          "attn_config": {"attn_type": "latent"}}, "attn_type 'latent' is unknown"),
        ({**MPT, "d_model": 64, "n_heads": 8, "n_layers": 2, "vocab_size": 9,
          "ffn_config": {"ffn_type": "mb_dmoe"}}, "supported is mptmlp"),
        ({**MPT, "d_model": 64, "n_heads": 8, "n_layers": 2, "vocab_size": 9,
          "expansion_ratio": -1}, "expansion_ratio"),
    ],
)  # fmt: skip
def test_an_impossible_field_is_one_line_that_names_it(config, problem):
    with pytest.raises(ModelConfigError, match=problem) as caught:
        model_from_config(config, "odd")
    assert "\n" not in str(caught.value)
