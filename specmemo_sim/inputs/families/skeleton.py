"""Decoders that differ in names, biases and fused projections: one builder for all of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from specmemo_sim.inputs.config_reader import ConfigReader
from specmemo_sim.inputs.families.parts import (
    Decoder,
    Heads,
    Norm,
    embedding,
    linear,
    norm,
    vocabulary,
)
from specmemo_sim.inputs.model import Layer, Role, Tensor


@dataclass(frozen=True, slots=True)
class Names:
    """Module paths of one family's checkpoints."""

    layers: str
    embedding: str
    norms: tuple[str, ...]
    """Norms of a layer."""
    qkv: tuple[str, ...]
    """One fused projection, or query and fused key-value, or query, key and value."""
    output: str
    mlp: tuple[str, ...]
    """Up and down, or gate, up and down."""
    final_norm: str = ""
    head: str = "lm_head"
    positions: str = ""
    """Table of learned positions; empty without one."""


@dataclass(frozen=True, slots=True)
class Biases:
    """Which linear layers of a decoder have a bias."""

    qkv: bool = True
    output: bool = True
    up: bool = True
    down: bool = True
    head: bool = False


@dataclass(frozen=True, slots=True)
class Sizes:
    """What a configuration says about the decoder."""

    hidden: int
    vocab: int
    tied: bool
    heads: Heads
    width: int
    gated: bool = False
    norm: Norm = "layer"
    position_rows: int = 0
    embedding_width: int = 0
    """Features of the embedding table; 0 for the hidden size."""


MAX_LAYERS = 4096
"""More layers than any model has; the bound keeps a damaged file from filling memory."""
ALL_BIASED = Biases()
UNBIASED = Biases(qkv=False, output=False, up=False, down=False)


def equal_heads(reader: ConfigReader, hidden: int, num_kv_heads: int | None = None) -> Heads:
    """Heads that split the hidden size evenly.

    Args:
        reader: The family's configuration.
        hidden: Hidden size of the model.
        num_kv_heads: Heads of keys and values; the query heads when None.

    Raises:
        ModelConfigError: heads that do not divide the hidden size, or KV heads the query heads.
    """
    num_heads = reader.integer("num_attention_heads")
    if hidden % num_heads:
        raise reader.error(
            f"hidden_size = {hidden} is not a multiple of num_attention_heads = {num_heads}; "
            "correct one of them"
        )
    kv = num_kv_heads or num_heads
    if num_heads % kv:
        raise reader.error(
            f"num_attention_heads = {num_heads} is not a multiple of {kv} heads of keys and "
            "values; correct one of them"
        )
    return Heads(num_heads, kv, hidden // num_heads, hidden // num_heads)


def read_sizes(
    reader: ConfigReader, *, tied: bool, num_kv_heads: int | None = None, norm: Norm = "layer"
) -> Sizes:
    """The usual sizes; a feed-forward width that is not stated is four times the hidden size."""
    hidden = reader.integer("hidden_size")
    vocab, stated_tied = vocabulary(reader, hidden, default_tied=tied)
    return Sizes(
        hidden=hidden,
        vocab=vocab,
        tied=stated_tied,
        heads=equal_heads(reader, hidden, num_kv_heads),
        width=reader.integer("intermediate_size", 4 * hidden),
        norm=norm,
    )


def with_positions(reader: ConfigReader, sizes: Sizes, offset: int = 0) -> Sizes:
    """The sizes with a table of learned positions."""
    rows = reader.integer("max_position_embeddings") + offset
    return replace(sizes, position_rows=rows)


def num_layers(reader: ConfigReader) -> int:
    """The number of layers.

    Raises:
        ModelConfigError: more than ``MAX_LAYERS``.
    """
    count = reader.integer("num_hidden_layers")
    if count > MAX_LAYERS:
        raise reader.error(
            f"num_hidden_layers = {count} is out of range; allowed is 1 to {MAX_LAYERS}"
        )
    return count


def build(
    reader: ConfigReader,
    names: Names,
    sizes: Sizes,
    biases: Biases = ALL_BIASED,
    *,
    extra: Sequence[Tensor] = (),
    windows: Sequence[int | None] | None = None,
) -> Decoder:
    """The decoder with these names, sizes and biases.

    Args:
        reader: The family's configuration, for the number of layers.
        names: Module paths.
        sizes: Shapes.
        biases: Which linear layers have one.
        extra: Further tensors of every layer.
        windows: Per layer the tokens a query can see; all of them when None.
    """
    layers = windows if windows is not None else [None] * num_layers(reader)
    tensors = (*layer_tensors(names, sizes, biases), *extra)
    return Decoder(
        layers=[
            Layer(
                tensors=tensors,
                caches=(sizes.heads.cache(window),),
                num_heads=sizes.heads.num_heads,
                head_dim=sizes.heads.head_dim,
                mlp_width=sizes.width,
                mlp_gated=sizes.gated,
            )
            for window in layers
        ],
        outer=_outer(names, sizes, biases),
        hidden_size=sizes.hidden,
        vocab_size=sizes.vocab,
        tied=sizes.tied,
        layer_prefix=names.layers,
    )


def layer_tensors(names: Names, sizes: Sizes, biases: Biases) -> list[Tensor]:
    """The tensors of one layer: norms, attention, feed-forward."""
    hidden, heads = sizes.hidden, sizes.heads
    groups = {
        1: [heads.query_size + heads.key_size + heads.value_size],
        2: [heads.query_size, heads.key_size + heads.value_size],
        3: [heads.query_size, heads.key_size, heads.value_size],
    }[len(names.qkv)]
    tensors = [tensor for name in names.norms for tensor in norm(name, hidden, sizes.norm)]
    for name, outputs in zip(names.qkv, groups, strict=True):
        tensors += linear(name, outputs, hidden, Role.ATTENTION, bias=biases.qkv)
    tensors += linear(names.output, hidden, heads.output_size, Role.ATTENTION, bias=biases.output)
    *ups, down = names.mlp
    # A gated block with one matrix up holds gate and up in it.
    width_up = sizes.width * (2 if sizes.gated and len(ups) == 1 else 1)
    for name in ups:
        tensors += linear(name, width_up, hidden, Role.MLP, bias=biases.up)
    return tensors + linear(down, hidden, sizes.width, Role.MLP, bias=biases.down)


def _outer(names: Names, sizes: Sizes, biases: Biases) -> list[Tensor]:
    columns = sizes.embedding_width or sizes.hidden
    tensors = [embedding(names.embedding, sizes.vocab, columns)]
    if sizes.position_rows:
        rows = sizes.position_rows
        tensors.append(embedding(names.positions, rows, sizes.hidden, Role.POSITION))
    if names.final_norm:
        tensors += norm(names.final_norm, sizes.hidden, sizes.norm)
    head = linear(names.head, sizes.vocab, columns, Role.LM_HEAD, bias=biases.head)
    return tensors + (head[1:] if sizes.tied else head)
