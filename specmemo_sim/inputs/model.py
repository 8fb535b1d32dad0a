"""``ModelSpec``: what a decoder holds (every weight tensor) and what it caches per token.

A model is an ordered list of layers over few distinct layer kinds. Each kind lists its weight
tensors with their shapes, so that parameters, bytes in any quantised format and FLOP are sums over
one inventory instead of formulas that could disagree.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from specmemo_sim.inputs.dtypes import DType
from specmemo_sim.spec import Count, Spec


class Role(StrEnum):
    """What a weight tensor does; decides precision rules and what a token reads of it."""

    EMBEDDING = "embedding"
    POSITION = "position"
    LM_HEAD = "lm_head"
    ATTENTION = "attention"
    RECURRENT = "recurrent"
    MLP = "mlp"
    EXPERT = "expert"
    SHARED_EXPERT = "shared_expert"
    ROUTER = "router"
    NORM = "norm"
    OTHER = "other"


class Tensor(Spec):
    """One weight tensor, or ``count`` equal ones (the routed experts of a layer)."""

    name: str = Field(min_length=1, max_length=200)
    """Module path as in the checkpoint, relative inside a layer; ``*`` is the expert number."""
    shape: tuple[Count, ...] = Field(min_length=1, max_length=5)
    """Sizes per tensor, output features first for linear layers."""
    role: Role
    linear: bool = False
    """True for the matrix of a linear layer, which quantisation may replace."""
    buffer: bool = False
    """True for a stored tensor that is no parameter (a router's correction bias)."""
    count: Count = 1

    @property
    def num_elements(self) -> int:
        """Elements of all ``count`` tensors together."""
        total = self.count
        for size in self.shape:
            total *= size
        return total


class AttentionCache(Spec):
    """Keys and values of every token, or of a window if the engine drops the others."""

    kind: Literal["attention"] = "attention"
    num_kv_heads: Count
    key_head_dim: Count
    value_head_dim: Count
    window: Count | None = None
    """Tokens a query can see; None means all."""


class LatentCache(Spec):
    """Multi-head latent attention: a compressed vector per token, or expanded keys and values.

    An engine that absorbs the projections keeps ``latent_dim + rope_dim`` elements per token; plain
    implementations keep the expanded heads.
    """

    kind: Literal["latent"] = "latent"
    latent_dim: Count
    rope_dim: Count
    num_heads: Count
    key_head_dim: Count
    value_head_dim: Count
    index_dim: int = Field(default=0, ge=0, le=2**20)
    """Extra key elements per token of a sparse-attention indexer; 0 without one."""


class StateCache(Spec):
    """A recurrent layer's state: fixed bytes per sequence, whatever the number of tokens."""

    kind: Literal["state"] = "state"
    conv_elements: int = Field(ge=0, le=2**40)
    """Elements of the convolution window, held in the model's dtype."""
    state_elements: int = Field(ge=0, le=2**40)
    """Elements of the recurrent state."""
    state_dtype: DType | None = None
    """Type of the recurrent state; None means the model's own."""


Cache = Annotated[AttentionCache | LatentCache | StateCache, Field(discriminator="kind")]


class Layer(Spec):
    """One kind of decoder layer."""

    tensors: tuple[Tensor, ...]
    caches: tuple[Cache, ...]
    """Empty for a layer that keeps nothing of its own (a shared KV cache, an MLP-only layer)."""
    num_heads: int = Field(default=0, ge=0, le=2**20)
    """Query heads; 0 without attention."""
    head_dim: int = Field(default=0, ge=0, le=2**20)
    """Size of one query head."""
    mlp_width: int = Field(default=0, ge=0, le=2**30)
    """Widest per-token activation of the feed-forward part, all chosen experts together."""
    mlp_gated: bool = True
    """Two matrices up (gate and up) instead of one."""
    num_experts: int = Field(default=0, ge=0, le=2**20)
    """Routed experts; 0 for a dense layer."""
    experts_per_token: int = Field(default=0, ge=0, le=2**20)


class ModelSpec(Spec):
    """A decoder-only language model as the simulator sees it."""

    name: str = Field(min_length=1, max_length=200)
    model_type: str = Field(min_length=1, max_length=80)
    hidden_size: Count
    vocab_size: Count
    """Rows of the vocabulary matrices, padding included where the configuration states it."""
    max_position_embeddings: Count | None = None
    """Tokens of context the model was made for; None when the configuration does not say."""
    dtype: DType
    """Type of the weights that are not quantised, and of activations."""
    tie_word_embeddings: bool
    outer: tuple[Tensor, ...]
    """Tensors outside the layers: embeddings, final norm, LM head (absent when tied)."""
    layers: tuple[Layer, ...]
    """Distinct kinds of layer."""
    layer_order: tuple[Annotated[int, Field(ge=0, le=2**16)], ...] = Field(max_length=4096)
    """Kind of each layer, first to last."""
    layer_prefix: str = "model.layers"
    """Module path of the layer list, for patterns that name modules."""
    shared_layer_tensors: tuple[Tensor, ...] = ()
    """Tensors held once although several layers use them."""
    mtp: tuple[Layer, ...] = ()
    """Multi-token-prediction layers that ship with the checkpoint, own projections included."""
    tower: tuple[Tensor, ...] = ()
    """Vision or audio tower and its projector, as far as their configuration was given."""
    tower_missing: str = ""
    """Why a tower that exists is not counted; empty when it is, or when there is none."""
    quantization: dict[str, object] | None = None
    """The checkpoint's ``quantization_config``, checked when weights are counted."""
    logits_copies: Annotated[int, Field(ge=1, le=4)] = 1
    """Sets of logits alive together: two where the model caps or scales them after the LM head."""
    draft_head: Literal["", "eagle", "eagle3"] = ""
    """Set for the one-layer head of a drafter, which is no model of its own."""
    draft_vocab_size: Count | None = None
    """Rows of a draft head's own LM head, when its configuration states them."""
    stored_quantized: bool = False
    """The checkpoint is quantised, it is not known how: 16-bit sizes are upper bounds."""
    checkpoint_bytes: int | None = Field(default=None, ge=0, le=2**60)
    """Tensor bytes of the checkpoint's files, where they were there to be read."""
    source: str = ""
    notes: tuple[str, ...] = ()
    """Facts taken from a class default, unverified, or not modelled; one sentence each."""

    @property
    def num_layers(self) -> int:
        """Number of decoder layers, MTP layers excluded."""
        return len(self.layer_order)

    def layer_sequence(self) -> Iterator[Layer]:
        """The layers first to last."""
        return (self.layers[kind] for kind in self.layer_order)

    def language_tensors(self) -> Iterator[tuple[Tensor, int]]:
        """(tensor, how many layers hold one) of the language model, without towers and MTP."""
        for tensor in self.outer + self.shared_layer_tensors:
            yield tensor, 1
        for kind, layer in enumerate(self.layers):
            repeats = self.layer_order.count(kind)
            for tensor in layer.tensors:
                yield tensor, repeats

    @property
    def num_parameters(self) -> int:
        """Parameters of the language model, tied matrices once, stored buffers excluded."""
        return sum(t.num_elements * n for t, n in self.language_tensors() if not t.buffer)

    @property
    def num_mtp_parameters(self) -> int:
        """Parameters of the multi-token-prediction layers."""
        return sum(t.num_elements for layer in self.mtp for t in layer.tensors if not t.buffer)

    @property
    def num_tower_parameters(self) -> int:
        """Parameters of the vision or audio towers that were counted."""
        return sum(t.num_elements for t in self.tower if not t.buffer)

    @property
    def num_active_parameters(self) -> int:
        """Parameters one token passes through: chosen experts only, no input embedding look-up."""
        total = 0
        for tensor, repeats, share in self.active_tensors():
            total += round(tensor.num_elements * share) * repeats
        return total

    def active_tensors(self) -> Iterator[tuple[Tensor, int, float]]:
        """(tensor, repeats, share that one token uses); a tied embedding serves as LM head."""
        for tensor in self.outer + self.shared_layer_tensors:
            unused = tensor.role is Role.EMBEDDING and not self.tie_word_embeddings
            yield tensor, 1, 0.0 if unused or tensor.role is Role.POSITION else 1.0
        for kind, layer in enumerate(self.layers):
            repeats = self.layer_order.count(kind)
            for tensor in layer.tensors:
                routed = tensor.role is Role.EXPERT and layer.num_experts > 0
                share = layer.experts_per_token / layer.num_experts if routed else 1.0
                yield tensor, repeats, share
