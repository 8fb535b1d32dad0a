"""Bytes of the KV cache: per token, per layer kind, for each way an engine can keep it."""

from dataclasses import dataclass

from specmemo_sim.inputs.dtypes import DType
from specmemo_sim.inputs.model import AttentionCache, LatentCache, Layer, ModelSpec, StateCache


@dataclass(frozen=True, slots=True)
class CachePolicy:
    """How the engine keeps keys and values."""

    dtype: DType
    """Element type of keys, values and latents; recurrent states keep their own."""
    drop_outside_window: bool = False
    """Sliding-window layers keep only their window; False keeps every token."""
    expand_latent: bool = False
    """MLA keeps expanded heads (plain implementations) instead of the compressed latent."""


def cache_elements_per_token(cache: AttentionCache | LatentCache, policy: CachePolicy) -> int:
    """Elements one token adds to one layer's cache.

    Source: 2 * kv_heads * head_dim with separate key and value sizes; DeepSeek-V2,
        arXiv:2405.04434, section 2.1.2 for the latent (kv_lora_rank + qk_rope_head_dim).
        SpecMemo's Eq. 1 leaves out the head dimension; it is in here.
    """
    if isinstance(cache, AttentionCache):
        return cache.num_kv_heads * (cache.key_head_dim + cache.value_head_dim)
    if policy.expand_latent:
        expanded = cache.num_heads * (cache.key_head_dim + cache.value_head_dim)
        return expanded + cache.index_dim
    return cache.latent_dim + cache.rope_dim + cache.index_dim


def kv_bytes_per_token(model: ModelSpec, policy: CachePolicy) -> int:
    """Bytes one token adds over all layers, while no window is full."""
    return layers_kv_bytes(model, tuple(model.layer_sequence()), 1, policy, with_state=False)


def kv_bytes(model: ModelSpec, tokens: int, batch: int, policy: CachePolicy) -> int:
    """Bytes of the whole cache for ``batch`` sequences of ``tokens`` tokens, with states."""
    return batch * layers_kv_bytes(model, tuple(model.layer_sequence()), tokens, policy)


def tree_slot_bytes(model: ModelSpec, num_nodes: int, batch: int, policy: CachePolicy) -> int:
    """Bytes that verification of ``num_nodes`` nodes adds beyond the committed tokens.

    Every attention layer writes one slot per node, the root included, whatever its window.
    A recurrent layer keeps one state per drafted token, so that a rejected one can be undone.
    """
    total = 0
    for kind, layer in enumerate(model.layers):
        repeats = model.layer_order.count(kind)
        for cache in layer.caches:
            if isinstance(cache, StateCache):
                size = (num_nodes - 1) * state_bytes(cache, model.dtype)
            else:
                elements = num_nodes * cache_elements_per_token(cache, policy)
                size = elements * policy.dtype.bits // 8
            total += repeats * size
    return batch * total


def layers_kv_bytes(
    model: ModelSpec,
    layers: tuple[Layer, ...],
    tokens: int,
    policy: CachePolicy,
    *,
    with_state: bool = True,
) -> int:
    """Bytes that the given layers keep for one sequence of ``tokens`` tokens."""
    total = 0
    for layer in layers:
        for cache in layer.caches:
            if isinstance(cache, StateCache):
                total += state_bytes(cache, model.dtype) if with_state else 0
                continue
            kept = tokens
            if policy.drop_outside_window and isinstance(cache, AttentionCache) and cache.window:
                kept = min(tokens, cache.window)
            total += kept * cache_elements_per_token(cache, policy) * policy.dtype.bits // 8
    return total


def state_bytes(cache: StateCache, dtype: DType) -> int:
    """Bytes of one sequence's recurrent state in one layer."""
    state_type = cache.state_dtype or dtype
    return (cache.conv_elements * dtype.bits + cache.state_elements * state_type.bits) // 8


def has_recurrent_state(model: ModelSpec) -> bool:
    """Whether some layer folds tokens into a state, so that branches cannot be verified."""
    return any(isinstance(cache, StateCache) for layer in model.layers for cache in layer.caches)


def has_windows(model: ModelSpec) -> bool:
    """Whether some layer sees a window only."""
    return any(
        isinstance(cache, AttentionCache) and cache.window is not None
        for layer in model.layers
        for cache in layer.caches
    )


def has_latent(model: ModelSpec) -> bool:
    """Whether some layer uses multi-head latent attention."""
    return any(isinstance(cache, LatentCache) for layer in model.layers for cache in layer.caches)
