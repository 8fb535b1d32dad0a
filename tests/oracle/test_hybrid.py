"""Hybrid decoders against transformers: parameters of each layer, and what it caches."""

import re
from collections import Counter
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import CONFIG_MAPPING, AutoModelForCausalLM
from transformers.models.mllama.modeling_mllama import MllamaForCausalLM

from oracle.meta_models import meta_model, our_tensors, tiny_settings
from specmemo_sim.errors import ModelConfigError
from specmemo_sim.inputs.dtypes import DType
from specmemo_sim.inputs.hf_config import model_from_config
from specmemo_sim.inputs.model import ModelSpec

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


def _settings(model_type: str, over: dict[str, Any]) -> dict[str, Any]:
    """A tiny config.json; fields that the class only takes as keyword arguments included."""
    fields = CONFIG_MAPPING[model_type].__dataclass_fields__
    own = {key: value for key, value in over.items() if key in fields}
    return tiny_settings(model_type, **own) | over


def _theirs(given: dict[str, Any]) -> Any:
    rest = {key: value for key, value in given.items() if key != "model_type"}
    return CONFIG_MAPPING[given["model_type"]](**rest)


def _theirs_on_meta(given: dict[str, Any]) -> Any:
    config = _theirs(given)
    if given["model_type"] != "mllama_text_model":
        return meta_model(config)
    with torch.device("meta"):
        return MllamaForCausalLM(config)


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
    given = _settings(model_type, over)
    named = _theirs_on_meta(given).named_parameters()
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
    given = _settings(model_type, over | given_sizes)
    expected = sum(parameter.numel() for parameter in _theirs_on_meta(given).parameters())
    assert model_from_config(given, model_type).num_parameters == expected


def _their_cache(model: Any) -> list[dict[str, tuple[int, torch.dtype]]]:
    """Per layer what transformers keeps after 3 tokens: kind of state to (elements, type)."""
    with torch.no_grad():
        output = model(torch.ones(1, 3, dtype=torch.long), use_cache=True)
    cache = output.get("cache") if output.get("cache") is not None else output.past_key_values
    found = []
    for layer in cache.layers:
        held: dict[str, tuple[int, torch.dtype]] = {}
        keys = getattr(layer, "keys", None)
        if keys is not None:
            held["kv"] = ((keys.numel() + layer.values.numel()) // 3, keys.dtype)
        for kind in ("conv_states", "recurrent_states"):
            state = (getattr(layer, kind, None) or {}).get(0)
            if state is not None:
                held[kind] = (state.numel(), state.dtype)
        found.append(held)
    return found


def _our_cache(spec: ModelSpec, model_dtype: torch.dtype) -> list[dict[str, Any]]:
    found = []
    for layer in spec.layer_sequence():
        held: dict[str, tuple[int, torch.dtype]] = {}
        for cache in layer.caches:
            if cache.kind == "state":
                held["conv_states"] = (cache.conv_elements, model_dtype)
                own = torch.float32 if cache.state_dtype is DType.FP32 else model_dtype
                held["recurrent_states"] = (cache.state_elements, own)
            elif cache.kind == "latent":
                held["kv"] = (cache.latent_dim + cache.rope_dim, model_dtype)
            else:
                per_head = cache.key_head_dim + cache.value_head_dim
                held["kv"] = (cache.num_kv_heads * per_head, model_dtype)
        found.append({kind: value for kind, value in held.items() if value[0]})
    return found


CACHED = [
    case
    for case in CASES
    if case[0] not in ("recurrent_gemma", "minimax", "mllama_text_model")
    and not (case[0] == "zamba2" and "intermediate_size" in case[1])
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
@pytest.mark.parametrize(("model_type", "over"), CACHED)
def test_each_layer_caches_what_transformers_caches(model_type, over, dtype):
    given = _settings(model_type, over)
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(_theirs(given), dtype=dtype).eval()
    assert _our_cache(model_from_config(given, model_type), dtype) == _their_cache(model)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
def test_minimax_keeps_a_matrix_per_head_in_the_type_of_the_model(dtype):
    given = _settings("minimax", {"num_local_experts": 4, "head_dim": 10})
    model = AutoModelForCausalLM.from_config(_theirs(given), dtype=dtype).eval()
    with torch.no_grad():
        output = model(torch.ones(1, 3, dtype=torch.long), use_cache=True)
    cache = output.get("cache") if output.get("cache") is not None else output.past_key_values
    held = [tensor for tensor in cache.linear_cache if len(tensor)]
    ours = [
        entry
        for layer in model_from_config(given, "minimax").layer_sequence()
        for entry in layer.caches
        if entry.kind == "state"
    ]
    assert [entry.state_elements for entry in ours] == [tensor.numel() for tensor in held]
    assert all(entry.state_dtype is None and entry.conv_elements == 0 for entry in ours)
    assert {tensor.dtype for tensor in held} == {dtype}


def test_recurrent_gemma_keeps_its_states_in_its_modules():
    given = _settings("recurrent_gemma", {"lru_width": 48})
    model = AutoModelForCausalLM.from_config(_theirs(given), dtype=torch.bfloat16).eval()
    with torch.no_grad():
        model(torch.ones(1, 6, dtype=torch.long), use_cache=True)
    blocks = [layer.temporal_block for layer in model.model.layers]
    held = [
        (block.conv1d_state.numel(), block.rg_lru.recurrent_states.numel())
        for block in blocks
        if hasattr(block, "rg_lru")
    ]
    ours = [
        (cache.conv_elements, cache.state_elements)
        for layer in model_from_config(given, "recurrent_gemma").layer_sequence()
        for cache in layer.caches
        if cache.kind == "state"
    ]
    assert ours == held
    kinds = {str(b.rg_lru.recurrent_states.dtype) for b in blocks if hasattr(b, "rg_lru")}
    assert kinds == {"torch.float32"}


def test_layers_that_reuse_keys_and_values_cache_nothing():
    spec = model_from_config(
        _settings("gemma3n_text", PER_LAYER | {"layer_types": WINDOWED, "num_kv_shared_layers": 2}),
        "nano",
    )
    assert [len(layer.caches) for layer in spec.layer_sequence()] == [1, 1, 0, 0]
    assert [layer.caches[0].window for layer in list(spec.layer_sequence())[:2]] == [512, None]


def test_draft_layers_of_qwen_hold_one_attention_layer_and_a_projection():
    """A draft layer is a full-attention layer plus a 2h-by-h projection and three norms."""
    given = _settings("qwen3_5_text", QWEN) | {"mtp_num_hidden_layers": 1}
    spec = model_from_config(given, "draft")
    attention = next(layer for layer in spec.layer_sequence() if layer.num_heads)
    of_layer = sum(tensor.num_elements for tensor in attention.tensors)
    assert spec.num_mtp_parameters == of_layer + 2 * 48 * 48 + 3 * 48
    assert (
        spec.num_parameters
        == model_from_config(_settings("qwen3_5_text", QWEN), "bare").num_parameters
    )


PUBLISHED = [
    # (config of the checkpoint, parameters its model card or paper states, in billions)
    (
        {
            "model_type": "mamba2", "hidden_size": 4096, "num_hidden_layers": 64,
            "vocab_size": 32768, "num_heads": 128, "head_dim": 64, "n_groups": 8,
            "state_size": 128, "tie_word_embeddings": False,
        },
        7.285,  # Mamba-Codestral-7B-v0.1: 7,285,403,648 by its model card
        0.001,
    ),
    (
        {
            "model_type": "qwen3_next", "hidden_size": 2048, "num_hidden_layers": 48,
            "vocab_size": 151936, "num_attention_heads": 16, "num_key_value_heads": 2,
        },
        80,  # Qwen3-Next-80B-A3B: 80 billion
        0.01,
    ),
    (
        {
            "model_type": "kimi_linear", "hidden_size": 2304, "num_hidden_layers": 27,
            "vocab_size": 163840, "num_experts": 256, "num_experts_per_token": 8,
            "linear_attn_config": {
                "full_attn_layers": [4, 8, 12, 16, 20, 24, 27],
                "kda_layers": [n for n in range(1, 27) if n % 4],
                "head_dim": 128, "num_heads": 32, "short_conv_kernel_size": 4,
            },
        },
        48,  # Kimi-Linear-48B-A3B: 48 billion (arXiv:2510.26692)
        0.03,
    ),
    (
        {
            "model_type": "minimax_text_01", "hidden_size": 6144, "num_hidden_layers": 80,
            "vocab_size": 200064, "num_attention_heads": 64, "num_key_value_heads": 8,
            "head_dim": 128, "intermediate_size": 9216, "num_local_experts": 32,
            "num_experts_per_tok": 2, "attn_type_list": ([0] * 7 + [1]) * 10,
        },
        456,  # MiniMax-Text-01: 456 billion (arXiv:2501.08313)
        0.005,
    ),
    (
        {
            "model_type": "jamba", "hidden_size": 4096, "num_hidden_layers": 32,
            "vocab_size": 65536, "torch_dtype": "bfloat16",
        },
        52,  # Jamba v0.1: 52 billion (arXiv:2403.19887)
        0.01,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("config", "billions", "tolerance"), PUBLISHED)
def test_a_released_checkpoint_has_its_published_size(config, billions, tolerance):
    spec = model_from_config(config, config["model_type"])
    assert spec.num_parameters / 1e9 == pytest.approx(billions, rel=tolerance)


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
