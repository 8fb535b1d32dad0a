"""Peak of live activations and logits in prefill and in verification.

Execution style: one layer at a time without gradients, attention that never writes its score
matrix, the LM head on the rows that are needed only. What is alive together is listed per phase.
"""

from dataclasses import dataclass

from specmemo_sim.inputs.model import LatentCache, Layer, ModelSpec


@dataclass(frozen=True, slots=True)
class PassActivations:
    """Peak of one forward pass, by phase; the largest is what the pass needs."""

    attention_bytes: int
    mlp_bytes: int
    logits_bytes: int

    @property
    def peak_bytes(self) -> int:
        """Largest phase: they follow one another and free what they used."""
        return max(self.attention_bytes, self.mlp_bytes, self.logits_bytes)


def pass_activations(
    model: ModelSpec, num_tokens: int, logits_rows: int, *, element_bytes: int
) -> PassActivations:
    """Peak live bytes of a forward pass over ``num_tokens`` tokens (all sequences together).

    Attention: residual, normed input, queries, keys, values, attention output. Feed-forward:
    residual, normed input, gate, up and their product (one width less without a gate); a routed
    layer counts every chosen expert's width. Logits: the last hidden states and ``logits_rows``
    rows of the vocabulary.

    Args:
        model: The target.
        num_tokens: Tokens of the pass, batch included.
        logits_rows: Rows the LM head computes.
        element_bytes: Bytes per activation element.
    """
    hidden = model.hidden_size
    attention = max((_attention_width(layer, hidden) for layer in model.layers), default=0)
    mlp = max((_mlp_width(layer, hidden) for layer in model.layers), default=0)
    logits = num_tokens * hidden + logits_rows * (hidden + model.vocab_size)
    return PassActivations(
        attention_bytes=num_tokens * attention * element_bytes,
        mlp_bytes=num_tokens * mlp * element_bytes,
        logits_bytes=logits * element_bytes,
    )


def _attention_width(layer: Layer, hidden: int) -> int:
    """Elements per token alive while attention runs."""
    queries = layer.num_heads * layer.head_dim
    keys_values = 0
    for cache in layer.caches:
        if isinstance(cache, LatentCache):
            keys_values += cache.num_heads * (cache.key_head_dim + cache.value_head_dim)
            keys_values += cache.latent_dim + cache.rope_dim
        elif cache.kind == "attention":
            keys_values += cache.num_kv_heads * (cache.key_head_dim + cache.value_head_dim)
    return 2 * hidden + 2 * queries + keys_values


def _mlp_width(layer: Layer, hidden: int) -> int:
    """Elements per token alive while the feed-forward part runs."""
    copies = 3 if layer.mlp_gated else 2
    return 2 * hidden + copies * layer.mlp_width
