"""Building blocks that decoder families share: linear layers, norms, MLPs, caches."""

from dataclasses import dataclass, field
from typing import Literal

from specmemo_sim.inputs.config_reader import ConfigReader
from specmemo_sim.inputs.model import AttentionCache, Layer, Role, Tensor

Norm = Literal["rms", "layer", "none"]
"""Parameters of a norm: a weight; a weight and a bias; nothing."""


@dataclass(slots=True)
class Decoder:
    """What a family rule returns: the layers in order and the tensors around them."""

    layers: list[Layer]
    outer: list[Tensor]
    """Tensors outside the layers, embeddings and LM head included (no LM head when tied)."""
    hidden_size: int
    vocab_size: int
    tied: bool
    layer_prefix: str = "model.layers"
    shared: list[Tensor] = field(default_factory=list)
    mtp: list[Layer] = field(default_factory=list)
    max_position_embeddings: int | None = None


@dataclass(frozen=True, slots=True)
class Heads:
    """Attention sizes of one layer."""

    num_heads: int
    num_kv_heads: int
    head_dim: int
    value_head_dim: int

    @property
    def query_size(self) -> int:
        """Output features of the query projection."""
        return self.num_heads * self.head_dim

    @property
    def key_size(self) -> int:
        """Output features of the key projection."""
        return self.num_kv_heads * self.head_dim

    @property
    def value_size(self) -> int:
        """Output features of the value projection."""
        return self.num_kv_heads * self.value_head_dim

    @property
    def output_size(self) -> int:
        """Input features of the output projection."""
        return self.num_heads * self.value_head_dim

    def cache(self, window: int | None = None) -> AttentionCache:
        """The keys and values one layer of this shape keeps."""
        return AttentionCache(
            num_kv_heads=self.num_kv_heads,
            key_head_dim=self.head_dim,
            value_head_dim=self.value_head_dim,
            window=window,
        )


def linear(
    name: str, outputs: int, inputs: int, role: Role, *, bias: bool = False, count: int = 1
) -> list[Tensor]:
    """The weight [outputs, inputs] of a linear layer, and its bias when it has one."""
    tensors = [
        Tensor(name=f"{name}.weight", shape=(outputs, inputs), role=role, linear=True, count=count)
    ]
    if bias:
        tensors.append(Tensor(name=f"{name}.bias", shape=(outputs,), role=role, count=count))
    return tensors


def norm(name: str, size: int, kind: Norm) -> list[Tensor]:
    """The parameters of a norm over ``size`` features."""
    parts = {"rms": ("weight",), "layer": ("weight", "bias"), "none": ()}[kind]
    return [Tensor(name=f"{name}.{part}", shape=(size,), role=Role.NORM) for part in parts]


def vector(name: str, size: int, role: Role = Role.OTHER, *, buffer: bool = False) -> Tensor:
    """A one-dimensional parameter, or a stored buffer."""
    return Tensor(name=name, shape=(size,), role=role, buffer=buffer)


def embedding(name: str, rows: int, columns: int, role: Role = Role.EMBEDDING) -> Tensor:
    """A look-up table [rows, columns]."""
    return Tensor(name=f"{name}.weight", shape=(rows, columns), role=role)


def gated_mlp(
    prefix: str,
    hidden: int,
    width: int,
    role: Role = Role.MLP,
    *,
    bias: bool = False,
    count: int = 1,
) -> list[Tensor]:
    """Gate, up and down projections of a gated feed-forward block."""
    return [
        *linear(f"{prefix}.gate_proj", width, hidden, role, bias=bias, count=count),
        *linear(f"{prefix}.up_proj", width, hidden, role, bias=bias, count=count),
        *linear(f"{prefix}.down_proj", hidden, width, role, bias=bias, count=count),
    ]


def plain_mlp(
    names: tuple[str, str], hidden: int, width: int, role: Role = Role.MLP, *, bias: bool = False
) -> list[Tensor]:
    """Up and down projections of a feed-forward block without a gate."""
    up, down = names
    return [
        *linear(up, width, hidden, role, bias=bias),
        *linear(down, hidden, width, role, bias=bias),
    ]


def read_heads(reader: ConfigReader, hidden: int, *, kv_default: int | None = None) -> Heads:
    """Head counts and sizes; ``head_dim`` as stated, else hidden size over heads.

    Args:
        reader: The family's configuration.
        hidden: Hidden size of the model.
        kv_default: KV heads when the file does not say; the query heads when None.

    Raises:
        ModelConfigError: heads that do not divide the hidden size, or KV heads the query heads.
    """
    num_heads = reader.integer("num_attention_heads")
    num_kv_heads = reader.integer("num_key_value_heads", kv_default or num_heads)
    stated = reader.optional_integer("head_dim") or reader.optional_integer("kv_channels")
    if stated is None and hidden % num_heads:
        raise reader.error(
            f"hidden_size = {hidden} is not a multiple of num_attention_heads = {num_heads}; "
            "state head_dim or correct one of them"
        )
    if num_heads % num_kv_heads:
        raise reader.error(
            f"num_attention_heads = {num_heads} is not a multiple of "
            f"num_key_value_heads = {num_kv_heads}; correct one of them"
        )
    head_dim = stated or hidden // num_heads
    return Heads(num_heads, num_kv_heads, head_dim, head_dim)


def vocabulary(reader: ConfigReader, hidden: int, *, default_tied: bool) -> tuple[int, bool]:
    """(rows of the vocabulary matrices, whether the LM head is the embedding)."""
    return reader.integer("vocab_size"), reader.flag("tie_word_embeddings", default_tied)


def lm_head(vocab: int, hidden: int, *, bias: bool = False, tied: bool = False) -> list[Tensor]:
    """The LM head [vocab, hidden]; when tied only its bias, if it has one."""
    tensors = linear("lm_head", vocab, hidden, Role.LM_HEAD, bias=bias)
    return tensors[1:] if tied else tensors
