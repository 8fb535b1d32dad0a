"""Peak of live activations and logits in one forward pass (prefill or verification).

Execution style: transformers' decoder classes without gradients, a preallocated KV cache, attention
that packs grouped queries (no copy of keys and values per query head) and never writes its score
matrix, the LM head on the rows that are needed only.
"""

from dataclasses import dataclass

from specmemo_sim.inputs.model import (
    AttentionCache,
    LatentCache,
    Layer,
    ModelSpec,
    Role,
    StateCache,
)

_INDEX_BYTES = 8
"""Token ids and positions are int64."""
_FP32_BYTES = 4


@dataclass(frozen=True, slots=True)
class PassActivations:
    """Peak of one forward pass by stage, in bytes; stages follow one another and free their own."""

    norm_bytes: int
    attention_bytes: int
    mlp_bytes: int
    logits_bytes: int

    @property
    def peak_bytes(self) -> int:
        """The largest stage."""
        return max(self.norm_bytes, self.attention_bytes, self.mlp_bytes, self.logits_bytes)


def pass_activations(
    model: ModelSpec, num_tokens: int, logits_rows: int, *, element_bytes: int
) -> PassActivations:
    """Peak live bytes of a forward pass over ``num_tokens`` tokens, all sequences together.

    Alive through all layers: token ids and positions, the embeddings (held by the caller's local),
    cosine and sine tables, and the residual stream. Per stage: a norm holds two fp32 copies;
    attention holds the normed input, queries before and after rotation, keys and values;
    the feed-forward part holds residual, normed input, gate, up and their product (one width less
    without a gate). A routed layer holds a copy of the input for every chosen expert, beside the
    experts' widths or three more copies while results are gathered. A recurrent mixer holds its
    projections twice. The LM head holds the last hidden states and its rows, twice where logits are
    capped or scaled.

    Args:
        model: The target.
        num_tokens: Tokens of the pass, batch included.
        logits_rows: Rows the LM head computes.
        element_bytes: Bytes per activation element.

    Source: closed form of transformers 5.24's Llama classes; for Llama-2-7B in fp16 it equals peaks
        traced storage by storage at 512 and 2048 tokens. Other families follow by their widths;
        routed layers were traced within 5 %. Recurrent mixers depend on the kernels at hand.
    """
    hidden = num_tokens * model.hidden_size
    head_dim = max((layer.head_dim for layer in model.layers), default=0)
    alive = 2 * num_tokens * _INDEX_BYTES
    alive += (2 * hidden + 2 * num_tokens * head_dim) * element_bytes
    attention = max((_attention_width(layer) for layer in model.layers), default=0)
    mlp = max((_mlp_width(layer, model.hidden_size) for layer in model.layers), default=0)
    return PassActivations(
        norm_bytes=alive + 2 * hidden * _FP32_BYTES + num_tokens * 2 * _FP32_BYTES,
        attention_bytes=alive + (hidden + num_tokens * attention) * element_bytes,
        mlp_bytes=alive + (2 * hidden + num_tokens * mlp) * element_bytes,
        logits_bytes=num_tokens * _INDEX_BYTES
        + (hidden + logits_rows * model.vocab_size * model.logits_copies) * element_bytes,
    )


def _attention_width(layer: Layer) -> int:
    """Elements per token while attention runs, its normed input aside."""
    queries = layer.num_heads * layer.head_dim
    keys_values = 0
    for cache in layer.caches:
        if isinstance(cache, LatentCache):
            keys_values += cache.num_heads * (cache.key_head_dim + cache.value_head_dim)
            keys_values += cache.latent_dim + cache.rope_dim
        elif isinstance(cache, AttentionCache):
            keys_values += cache.num_kv_heads * (cache.key_head_dim + cache.value_head_dim)
    return 4 * queries + keys_values + 2 * _mixer_width(layer)


def _mixer_width(layer: Layer) -> int:
    """Elements per token of a recurrent mixer's projections; 0 for attention."""
    if not any(isinstance(cache, StateCache) for cache in layer.caches):
        return 0
    return sum(
        tensor.shape[0] * tensor.count
        for tensor in layer.tensors
        if tensor.role is Role.RECURRENT and tensor.linear
    )


def _mlp_width(layer: Layer, hidden: int) -> int:
    """Elements per token of gate, up and product, or of up and its activation."""
    widths = (3 if layer.mlp_gated else 2) * layer.mlp_width
    if not layer.num_experts:
        return widths
    copy = layer.experts_per_token * hidden
    return max(widths + copy, 4 * copy)
