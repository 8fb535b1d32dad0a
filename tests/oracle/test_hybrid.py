"""Hybrid decoders against transformers: as many parameters in each layer, and clear refusals."""

import re
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import CONFIG_MAPPING

from oracle.hybrid_cases import (
    CASES,
    KIMI,
    MAMBA2,
    NEMOTRON,
    PER_LAYER,
    QWEN,
    QWEN_MOE,
    WINDOWED,
    ZAMBA2,
    hybrid_settings,
    their_meta_model,
)
from oracle.meta_models import our_tensors, tiny_settings
from specmemo_sim.errors import ModelConfigError
from specmemo_sim.inputs.hf_config import model_from_config
from specmemo_sim.inputs.model import ModelSpec


def _by_layer(sizes: list[tuple[str, int]]) -> Counter[str]:
    """Elements per layer number, and of everything outside the layers."""
    total: Counter[str] = Counter()
    for name, size in sizes:
        # The shared block of zamba2 sits in the first layer that uses it, adapters included.
        match = None if "shared_trans" in name else re.search(r"layers\.(\d+)\.", name)
        total[match[1] if match else "outside"] += size
    return total


def _ours_by_layer(spec: ModelSpec) -> Counter[str]:
    found = our_tensors(spec)
    return _by_layer([(n, torch.Size(s).numel() * c) for (n, s), c in found.items()])


@pytest.mark.parametrize(("model_type", "over"), CASES)
def test_each_layer_has_as_many_parameters_as_transformers(model_type, over):
    given = hybrid_settings(model_type, over)
    named = their_meta_model(given).named_parameters()
    expected = _by_layer([(name, parameter.numel()) for name, parameter in named])
    assert _ours_by_layer(model_from_config(given, model_type)) == expected


SIZES = st.fixed_dictionaries(
    {
        "hidden_size": st.sampled_from([16, 24, 40, 64]),
        "vocab_size": st.integers(20, 300),
        "intermediate_size": st.integers(8, 90),
        "num_key_value_heads": st.sampled_from([1, 2, 4]),
        "num_hidden_layers": st.just(4),
        "tie_word_embeddings": st.booleans(),
    }
)
# Inner sizes of these follow from the hidden size, so the case's own head counts would not fit.
FIXED_HIDDEN = {
    "mamba2",
    "bamba",
    "falcon_h1",
    "granitemoehybrid",
    "kimi_linear",
    "recurrent_gemma",
}
RANDOM = [case for case in CASES if case[0] not in ("nemotron_h", *FIXED_HIDDEN)]


@settings(max_examples=40, deadline=None)
@given(case=st.sampled_from(RANDOM), sizes=SIZES)
def test_random_sizes_give_the_parameters_of_transformers(case, sizes):
    model_type, over = case
    if model_type.startswith("zamba"):
        # transformers ties the shared block only together with the embedding.
        sizes = sizes | {"tie_word_embeddings": True}
    fields = CONFIG_MAPPING[model_type].__dataclass_fields__
    given_sizes = {key: value for key, value in sizes.items() if key in fields and key not in over}
    given = hybrid_settings(model_type, over | given_sizes)
    expected = sum(parameter.numel() for parameter in their_meta_model(given).parameters())
    assert model_from_config(given, model_type).num_parameters == expected


def test_layers_that_reuse_keys_and_values_cache_nothing():
    spec = model_from_config(
        hybrid_settings(
            "gemma3n_text", PER_LAYER | {"layer_types": WINDOWED, "num_kv_shared_layers": 2}
        ),
        "nano",
    )
    assert [len(layer.caches) for layer in spec.layer_sequence()] == [1, 1, 0, 0]
    assert [layer.caches[0].window for layer in list(spec.layer_sequence())[:2]] == [512, None]


def test_draft_layers_of_qwen_hold_one_attention_layer_and_a_projection():
    """A draft layer is a full-attention layer plus a 2h-by-h projection and three norms."""
    given = hybrid_settings("qwen3_5_text", QWEN) | {"mtp_num_hidden_layers": 1}
    spec = model_from_config(given, "draft")
    attention = next(layer for layer in spec.layer_sequence() if layer.num_heads)
    of_layer = sum(tensor.num_elements for tensor in attention.tensors)
    assert spec.num_mtp_parameters == of_layer + 2 * 48 * 48 + 3 * 48
    assert (
        spec.num_parameters
        == model_from_config(hybrid_settings("qwen3_5_text", QWEN), "bare").num_parameters
    )


BROKEN = [
    ("nemotron_h", NEMOTRON | {"hybrid_override_pattern": "MX"}, "letter 'X'"),
    ("qwen3_next", QWEN_MOE | {"layer_types": ["full_attention"]}, "1 entries for 4 layers"),
    ("qwen3_next", QWEN_MOE | {"layer_types": ["conv"] * 4}, "layer type 'conv' is unknown"),
    ("qwen3_next", QWEN_MOE | {"num_experts_per_tok": 9}, "exceeds the 4 experts"),
    ("qwen3_5_text", QWEN | {"linear_num_value_heads": 3}, "not a multiple"),
    ("mamba2", MAMBA2 | {"head_dim": 9}, "do not make up"),
    ("mamba", {"expand": float("inf")}, "out of range"),
    ("jamba", {"attn_layer_offset": 8}, "must be smaller"),
    ("zamba2", ZAMBA2, "layers_block_type is missing"),
    ("lfm2_moe", {}, "layer_types is missing"),
    ("recurrent_gemma", {"block_types": []}, "block_types is empty"),
    ("kimi_linear", KIMI | {"mlp_layer_types": ["dense"]}, "mlp_layer_types"),
    ("gemma3n_text", PER_LAYER | {"num_kv_shared_layers": 4}, "leaves no earlier layer"),
    (
        "gemma3n_text",
        PER_LAYER | {"intermediate_size": [40], "num_kv_shared_layers": 0},
        "1 widths for 4 layers",
    ),
]


@pytest.mark.parametrize(("model_type", "over", "problem"), BROKEN)
def test_an_impossible_file_is_refused_in_one_line(model_type, over, problem):
    given = tiny_settings(model_type) | over
    with pytest.raises(ModelConfigError, match=re.escape(problem)) as caught:
        model_from_config(given, model_type)
    assert "\n" not in str(caught.value)
