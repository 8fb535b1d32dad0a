"""``Drafter``: what proposes tokens, and the weights and cache it holds beside the target."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from specmemo_sim.errors import InputError
from specmemo_sim.inputs.dtypes import DType
from specmemo_sim.inputs.families.parts import embedding, gated_mlp, linear, norm
from specmemo_sim.inputs.model import AttentionCache, Layer, ModelSpec, Role, Tensor
from specmemo_sim.spec import Spec

VOCABULARY_PADDING = 1024
"""Rows by which vocabularies of one tokenizer may differ (Qwen2.5: 152,064 and 151,936)."""


class NoDrafter(Spec):
    """Plain decoding."""

    kind: Literal["none"] = "none"


class NgramDrafter(Spec):
    """Prompt look-up: proposes what followed the last tokens earlier; no weights, no cache."""

    kind: Literal["ngram"] = "ngram"


class MedusaHeads(Spec):
    """Medusa heads: each predicts one further position from the target's last hidden state."""

    kind: Literal["medusa"] = "medusa"
    num_heads: Annotated[int, Field(ge=1, le=16, strict=True)]
    residual_blocks: Annotated[int, Field(ge=0, le=8, strict=True)] = 1
    dtype: DType


class EagleHead(Spec):
    """EAGLE or EAGLE-3 head: one decoder layer over the target's features."""

    kind: Literal["eagle", "eagle3"]
    hidden_size: Annotated[int, Field(ge=1, le=2**26)]
    target_hidden_size: Annotated[int, Field(ge=1, le=2**26)]
    intermediate_size: Annotated[int, Field(ge=1, le=2**26)]
    num_heads: Annotated[int, Field(ge=1, le=2**20)]
    num_kv_heads: Annotated[int, Field(ge=1, le=2**20)]
    head_dim: Annotated[int, Field(ge=1, le=2**20)]
    vocab_size: Annotated[int, Field(ge=1, le=2**26)]
    draft_vocab_size: Annotated[int, Field(ge=1, le=2**26)]
    """Rows of the head's own LM head; EAGLE-3 often uses a reduced vocabulary."""
    dtype: DType
    own_embedding: bool = True
    """The checkpoint's copy of the embedding is kept; engines share it later, if at all."""
    own_lm_head: bool = True


class DraftModel(Spec):
    """A small language model with the target's vocabulary, and its own KV cache."""

    kind: Literal["draft_model"] = "draft_model"
    model: ModelSpec


class MtpLayers(Spec):
    """The multi-token-prediction layers that ship with the target's checkpoint."""

    kind: Literal["mtp"] = "mtp"


Drafter = Annotated[
    NoDrafter | NgramDrafter | MedusaHeads | EagleHead | DraftModel | MtpLayers,
    Field(discriminator="kind"),
]


def medusa_head_tensors(heads: MedusaHeads, hidden_size: int, vocab_size: int) -> Iterator[Tensor]:
    """The tensors of all heads: residual blocks [H, H] with bias, and an LM head [V, H] each.

    Source: Medusa, arXiv:2401.10774, section 2.1.1. A head has r*(H^2 + H) + H*V parameters;
        SpecMemo's constant 0.6 GB a head (its Eq. 4) is not that: Vicuna-7B fp16 has 0.296 GB.
    """
    if heads.residual_blocks:
        count = heads.num_heads * heads.residual_blocks
        for tensor in linear("linear", hidden_size, hidden_size, Role.OTHER, bias=True):
            yield tensor.replace(count=count)
    yield from linear("lm_head", vocab_size, hidden_size, Role.LM_HEAD, count=heads.num_heads)


def eagle_head_tensors(head: EagleHead) -> list[Tensor]:
    """The tensors of an EAGLE or EAGLE-3 head as its checkpoint and engines hold them.

    EAGLE: one Llama layer without its input norm, a fusion matrix [H, 2H] with bias, copies of the
    embedding and the LM head. EAGLE-3: attention reads [embedding, feature] (2H wide), the fusion
    matrix takes three target layers [H, 3H], and two vocabulary maps are stored.

    Source: public EAGLE code and checkpoints; the sums equal the loads that SGLang measured:
        0.93 GiB (Llama-2-7B), 2.43 GiB (Llama-3-8B), 1.77 GiB (EAGLE-3, Llama-3.1-8B).
    """
    hidden, is_third = head.hidden_size, head.kind == "eagle3"
    queries, keys = head.num_heads * head.head_dim, head.num_kv_heads * head.head_dim
    inputs = 2 * hidden if is_third else hidden
    tensors = [
        *linear("layers.0.self_attn.q_proj", queries, inputs, Role.ATTENTION),
        *linear("layers.0.self_attn.k_proj", keys, inputs, Role.ATTENTION),
        *linear("layers.0.self_attn.v_proj", keys, inputs, Role.ATTENTION),
        *linear("layers.0.self_attn.o_proj", hidden, queries, Role.ATTENTION),
        *gated_mlp("layers.0.mlp", hidden, head.intermediate_size),
        *norm("layers.0.post_attention_layernorm", hidden, "rms"),
    ]
    if is_third:
        tensors += [
            *norm("layers.0.hidden_norm", hidden, "rms"),
            *norm("layers.0.input_layernorm", hidden, "rms"),
            *norm("norm", hidden, "rms"),
            *linear("fc", hidden, 3 * head.target_hidden_size, Role.OTHER),
        ]
    else:
        tensors += linear("fc", hidden, 2 * hidden, Role.OTHER, bias=True)
    if head.own_embedding:
        tensors.append(embedding("embed_tokens", head.vocab_size, hidden))
    if head.own_lm_head:
        tensors += linear("lm_head", head.draft_vocab_size, hidden, Role.LM_HEAD)
    return tensors


def vocabulary_map_bytes(head: EagleHead) -> int:
    """Bytes of a reduced vocabulary's maps: int64 per draft token, a byte per target token."""
    reduced = head.draft_vocab_size < head.vocab_size
    return 8 * head.draft_vocab_size + head.vocab_size if reduced else 0


def eagle_like(
    target: ModelSpec, kind: Literal["eagle", "eagle3"], draft_vocab_size: int | None = None
) -> EagleHead:
    """An EAGLE head with the shape of the target's own layers.

    Raises:
        InputError: the target's layers are not plain attention with a gated feed-forward part, so
            that the head's shape does not follow; give the head's own configuration instead.
    """
    layer = next((entry for entry in target.layers if _is_plain(entry)), None)
    if layer is None:
        raise InputError(
            f"{target.name}: no plain attention layer to shape an {kind} head after; "
            "give the head's own configuration with --drafter-model"
        )
    cache = layer.caches[0]
    assert isinstance(cache, AttentionCache)
    return EagleHead(
        kind=kind,
        hidden_size=target.hidden_size,
        target_hidden_size=target.hidden_size,
        intermediate_size=layer.mlp_width,
        num_heads=layer.num_heads,
        num_kv_heads=cache.num_kv_heads,
        head_dim=cache.key_head_dim,
        vocab_size=target.vocab_size,
        draft_vocab_size=draft_vocab_size or target.vocab_size,
        dtype=target.dtype if target.dtype is not DType.FP32 else DType.FP16,
    )


def eagle_from_model(
    head: ModelSpec, target: ModelSpec, *, third: bool, draft_vocab: int
) -> EagleHead:
    """An EAGLE head whose one layer is described by its own configuration.

    Raises:
        InputError: the configuration is not one plain decoder layer.
    """
    if head.num_layers != 1:
        raise InputError(
            f"{head.name}: an EAGLE head has one decoder layer, this has {head.num_layers}; "
            "for a whole model use --drafter draft-model"
        )
    kind = "eagle3" if third else "eagle"
    if head.draft_head and head.draft_head != kind:
        raise InputError(
            f"{head.name} is an {head.draft_head} head; plan it with --drafter {head.draft_head}"
        )
    if not third and head.hidden_size != target.hidden_size:
        raise InputError(
            f"{head.name} is {head.hidden_size:,} wide and {target.name} {target.hidden_size:,}; "
            "an EAGLE head reads its target's features, choose the head made for this target"
        )
    if abs(head.vocab_size - target.vocab_size) > VOCABULARY_PADDING:
        raise InputError(
            f"{head.name} has {head.vocab_size:,} tokens and {target.name} {target.vocab_size:,}; "
            "both must share one vocabulary, choose the head made for this target"
        )
    shaped = eagle_like(head, "eagle3" if third else "eagle", draft_vocab)
    return shaped.replace(target_hidden_size=target.hidden_size, vocab_size=target.vocab_size)


def _is_plain(layer: Layer) -> bool:
    one_cache = len(layer.caches) == 1 and isinstance(layer.caches[0], AttentionCache)
    return one_cache and layer.mlp_gated and not layer.num_experts and layer.num_heads > 0
