"""Independent parameter counts: transformers' own modules on the meta device, no weights made."""

import dataclasses
from collections import Counter
from collections.abc import Mapping
from typing import Any

import torch
import transformers
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

from specmemo_sim.inputs.hf_config import model_from_config
from specmemo_sim.inputs.model import ModelSpec

transformers.logging.set_verbosity_error()

SMALL: Mapping[str, object] = {
    "vocab_size": 97,
    "hidden_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 56,
    "max_position_embeddings": 64,
    "pad_token_id": None,
}
"""Sizes of a tiny model, under transformers' common names."""


def _fields(model_type: str) -> set[str]:
    return {field.name for field in dataclasses.fields(CONFIG_MAPPING[model_type])}


def tiny_settings(model_type: str, **over: object) -> dict[str, Any]:
    """A config.json of a tiny model: ``SMALL`` and ``over``, under the names the class uses.

    Raises:
        KeyError: an override that the configuration class has no field for.
    """
    fields = _fields(model_type)
    alias = getattr(CONFIG_MAPPING[model_type], "attribute_map", {})
    small = {alias.get(key, key): value for key, value in SMALL.items()}
    settings = {key: value for key, value in small.items() if key in fields}
    for key, value in over.items():
        name = key if key in fields else alias.get(key, key)
        if name not in fields:
            raise KeyError(f"{model_type} has no field {key}")
        settings[name] = value
    return {"model_type": model_type, **settings}


def tiny_config(model_type: str, **over: object) -> Any:
    """transformers' configuration object of ``tiny_settings``."""
    settings = tiny_settings(model_type, **over)
    del settings["model_type"]
    return CONFIG_MAPPING[model_type](**settings)


def meta_model(config: Any) -> Any:
    """transformers' causal language model of a configuration, on the meta device."""
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(config)


def transformers_parameter_count(config: Any) -> int:
    """Parameters of transformers' model, tied matrices once."""
    return sum(parameter.numel() for parameter in meta_model(config).parameters())


def transformers_tensors(config: Any) -> Counter[tuple[str, tuple[int, ...]]]:
    """How often each (name, shape) occurs among the parameters of transformers' model."""
    named = meta_model(config).named_parameters()
    return Counter((name, tuple(parameter.shape)) for name, parameter in named)


def our_tensors(spec: ModelSpec) -> Counter[tuple[str, tuple[int, ...]]]:
    """How often each (name, shape) occurs among the parameters we list."""
    found: Counter[tuple[str, tuple[int, ...]]] = Counter()
    for tensor in spec.outer + spec.shared_layer_tensors:
        if not tensor.buffer:
            found[tensor.name, tensor.shape] += tensor.count
    for number, layer in enumerate(spec.layer_sequence()):
        for tensor in layer.tensors:
            if not tensor.buffer:
                name = f"{spec.layer_prefix}.{number}.{tensor.name}"
                found[name, tensor.shape] += tensor.count
    return found


def our_model(model_type: str, **over: object) -> ModelSpec:
    """Our reading of the same tiny config.json."""
    return model_from_config(tiny_settings(model_type, **over), model_type)


def cached_elements_per_token(model_type: str, tokens: int = 5, **over: object) -> list[int]:
    """Elements per token that transformers' cache holds in each layer after a short forward."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(tiny_config(model_type, **over)).eval()
    with torch.no_grad():
        cache = model(torch.ones(1, tokens, dtype=torch.long), use_cache=True).past_key_values
    return [
        (layer.keys.numel() + layer.values.numel()) // tokens
        for layer in cache.layers
        if getattr(layer, "keys", None) is not None
    ]


def our_elements_per_token(spec: ModelSpec) -> list[int]:
    """Elements per token of each layer's attention cache, layers without one left out."""
    return [
        cache.num_kv_heads * (cache.key_head_dim + cache.value_head_dim)
        for layer in spec.layer_sequence()
        for cache in layer.caches
        if cache.kind == "attention"
    ]
