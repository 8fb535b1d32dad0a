"""Dense decoders against transformers: every tensor's name and shape, and every cached element."""

import re
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

from oracle.meta_models import (
    our_elements_per_token,
    our_model,
    our_tensors,
    tiny_config,
    tiny_settings,
    transformers_tensors,
)
from specmemo_sim.inputs.dtypes import DType
from specmemo_sim.inputs.families.dense import DENSE_RULES
from specmemo_sim.inputs.hf_config import model_from_config
from specmemo_sim.memory.kv_cache import CachePolicy, kv_bytes_per_token

FLAGS = (
    "attention_bias", "mlp_bias", "use_bias", "qk_layernorm", "use_qk_norm", "use_qkv_bias",
    "attention_out_bias", "use_parallel_residual", "tie_word_embeddings",
)  # fmt: skip
NEEDS = {
    # Types whose class default of head_dim does not follow the small sizes.
    "ministral": {"head_dim": 12},
    "hunyuan_v1_dense": {"head_dim": 12},
    "helium": {"head_dim": 12},
    # A quarter of the head is rotated, which must be an even number of elements.
    "stablelm": {"hidden_size": 64},
}
PARTS = {"glm4v", "glm4v_text"}
"""Types without a language model of their own in transformers; compared with their tower."""
TYPES = sorted(set(DENSE_RULES) & set(CONFIG_MAPPING) - PARTS)


def fields(model_type):
    return set(tiny_settings(model_type)) | {
        field for field in CONFIG_MAPPING[model_type].__dataclass_fields__
    }


def differing(model_type, over):
    """(tensors only transformers has, tensors only we have)."""
    theirs = Counter()
    for (name, shape), count in transformers_tensors(tiny_config(model_type, **over)).items():
        theirs[re.sub(r"norms\.\d+\.", "norms.*.", name), shape] += count
    ours = our_tensors(our_model(model_type, **over))
    return theirs - ours, ours - theirs


def test_at_least_25_dense_architectures_are_compared():
    assert len(TYPES) >= 25


@pytest.mark.parametrize("model_type", TYPES)
def test_class_defaults_give_the_same_tensors(model_type):
    assert differing(model_type, NEEDS.get(model_type, {})) == ({}, {})


@pytest.mark.parametrize("model_type", TYPES)
@pytest.mark.parametrize("value", [True, False])
def test_every_switch_of_a_family_gives_the_same_tensors(model_type, value):
    """Biases, q/k norms, parallel residuals and tying, all on and all off."""
    over = {flag: value for flag in FLAGS if flag in fields(model_type)}
    assert differing(model_type, {**over, **NEEDS.get(model_type, {})}) == ({}, {})


@st.composite
def sizes(draw):
    kv_heads = draw(st.integers(1, 4))
    heads = kv_heads * draw(st.integers(1, 4))
    head_dim = 2 * draw(st.integers(2, 12))
    over = {
        "num_attention_heads": heads,
        "num_key_value_heads": draw(st.sampled_from([kv_heads, heads])),
        "hidden_size": heads * head_dim,
        "intermediate_size": draw(st.integers(3, 99)),
        "num_hidden_layers": draw(st.integers(1, 7)),
        "vocab_size": draw(st.integers(11, 300)),
    }
    return over, head_dim, draw(st.booleans())


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(TYPES), sizes(), st.data())
def test_random_sizes_give_the_same_tensors(model_type, drawn, data):
    over, head_dim, wide = drawn
    known = fields(model_type)
    squares = ("helium", "cohere2", "olmo", "starcoder2", "stablelm", "phi", "persimmon")
    if "head_dim" in known:
        # head_dim need not be hidden / heads, where the family reads it.
        over["head_dim"] = head_dim + 4 if wide and model_type not in squares else head_dim
    alias = getattr(CONFIG_MAPPING[model_type], "attribute_map", {})
    over = {k: v for k, v in over.items() if k in known or alias.get(k, k) in known}
    for flag in FLAGS:
        if flag in known and data.draw(st.booleans(), label=flag):
            over[flag] = True
    assert differing(model_type, over) == ({}, {})


@pytest.mark.parametrize("model_type", TYPES)
def test_cached_elements_equal_what_a_forward_creates(model_type):
    """A forward under fake tensors: the cache tensors' bytes per token are ours."""
    over = {"num_attention_heads": 4, "num_key_value_heads": 2, **NEEDS.get(model_type, {})}
    over = {k: v for k, v in over.items() if k in fields(model_type)}
    tokens, config = 3, tiny_config(model_type, **over)
    with FakeTensorMode():
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()
        with torch.no_grad():
            output = model(torch.ones(1, tokens, dtype=torch.long), use_cache=True)
    layers = output.past_key_values.layers
    theirs = sum(t.numel() * t.element_size() for x in layers for t in (x.keys, x.values))
    spec = our_model(model_type, **over)
    assert theirs == tokens * kv_bytes_per_token(spec, CachePolicy(DType.BF16))
    assert len(our_elements_per_token(spec)) == len(layers)


@pytest.mark.parametrize(
    ("model_type", "missing"), [("llama", "num_key_value_heads"), ("qwen2", "num_key_value_heads")]
)
def test_null_kv_heads_mean_as_many_as_query_heads(model_type, missing):
    given = {**tiny_settings(model_type), missing: None}
    spec = model_from_config(given, model_type)
    assert {c.num_kv_heads for layer in spec.layers for c in layer.caches} == {4}


def test_missing_kv_heads_mean_the_class_default():
    """Llama: as many as query heads; Mistral: 8, as its class says."""
    for model_type, heads, expected in (("llama", 16, 16), ("mistral", 16, 8)):
        given = tiny_settings(model_type, num_attention_heads=heads, hidden_size=64)
        del given["num_key_value_heads"]
        spec = model_from_config(given, model_type)
        assert {c.num_kv_heads for layer in spec.layers for c in layer.caches} == {expected}


@pytest.mark.parametrize("model_type", TYPES)
def test_layer_windows_are_those_of_transformers(model_type):
    """With windows switched on, the layers that slide are the ones transformers makes slide."""
    over = {"sliding_window": 7, "use_sliding_window": True, "max_window_layers": 2}
    over = {key: value for key, value in over.items() if key in fields(model_type)}
    over = {**over, "num_hidden_layers": 9, **NEEDS.get(model_type, {})}
    config = tiny_config(model_type, **over)
    spec = our_model(model_type, **over)
    ours = [layer.caches[0].window for layer in spec.layer_sequence()]
    listed = getattr(config, "layer_types", None)
    if listed is None:
        window = getattr(config, "sliding_window", None)
        assert ours == [window] * 9
    else:
        assert [window is not None for window in ours] == ["sliding" in kind for kind in listed]
