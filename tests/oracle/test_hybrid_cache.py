"""What hybrid decoders cache, against the tensors that transformers' cache holds."""

from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from oracle.hybrid_cases import CASES, hybrid_settings, their_config
from specmemo_sim.inputs.dtypes import DType
from specmemo_sim.inputs.hf_config import model_from_config
from specmemo_sim.inputs.model import ModelSpec


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
    given = hybrid_settings(model_type, over)
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(their_config(given), dtype=dtype).eval()
    assert _our_cache(model_from_config(given, model_type), dtype) == _their_cache(model)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
def test_minimax_keeps_a_matrix_per_head_in_the_type_of_the_model(dtype):
    given = hybrid_settings("minimax", {"num_local_experts": 4, "head_dim": 10})
    model = AutoModelForCausalLM.from_config(their_config(given), dtype=dtype).eval()
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
    given = hybrid_settings("recurrent_gemma", {"lru_width": 48})
    model = AutoModelForCausalLM.from_config(their_config(given), dtype=torch.bfloat16).eval()
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
