"""Decoders with multi-head latent attention: DeepSeek-V2 and V3, and what descends from them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from specmemo_sim.inputs.config_reader import ConfigReader
from specmemo_sim.inputs.families.dense_rule import Switch, switched
from specmemo_sim.inputs.families.moe_blocks import (
    ExpertRule,
    ExpertSizes,
    Selector,
    dense_first,
    every_layer,
    expert_sizes,
    has_experts,
    routed_part,
)
from specmemo_sim.inputs.families.mtp import deepseek_mtp, note_uncounted_mtp
from specmemo_sim.inputs.families.parts import Decoder, gated_mlp, linear, norm
from specmemo_sim.inputs.families.recurrent_decoder import hybrid_decoder, renamed
from specmemo_sim.inputs.families.recurrent_parts import (
    FeedForward,
    Mixer,
    build_layer,
    dense_feed_forward,
    norms,
)
from specmemo_sim.inputs.families.remote_layers import build_deepseek
from specmemo_sim.inputs.model import LatentCache, Layer, Role, Tensor

_NORMS = ("input_layernorm", "post_attention_layernorm")


@dataclass(frozen=True, slots=True)
class LatentRule:
    """How one family differs from DeepSeek-V3."""

    experts: ExpertRule | None
    sparse: Selector = every_layer
    mlp_bias: Switch = False
    """Bias of dense and of shared feed-forward parts."""
    indexed: bool = False
    """Whether an indexer chooses the tokens that attention reads."""
    mtp: bool = False
    """Whether stated multi-token-prediction layers are DeepSeek-V3's."""
    routed_norm: str = ""
    """A norm that only layers with experts have."""
    default_tied: bool = False


_V2 = ExpertRule(
    num_experts="n_routed_experts",
    shared="mlp.shared_experts",
    shared_count="n_shared_experts",
)
_V3 = replace(_V2, correction="mlp.gate.e_score_correction_bias")
_DEEPSEEK3 = LatentRule(_V3, dense_first(0), mtp=True)

_TABLE: dict[str, LatentRule] = {
    "deepseek_v2": LatentRule(_V2, dense_first(), mlp_bias="mlp_bias"),
    "deepseek_v3": _DEEPSEEK3,
    "kimi_k2": _DEEPSEEK3,
    "sarvam_mla": _DEEPSEEK3,
    "deepseek_v32": replace(_DEEPSEEK3, indexed=True),
    "glm_moe_dsa": replace(_DEEPSEEK3, indexed=True),
    "glm4_moe_lite": LatentRule(_V3, dense_first(1), mtp=True),
    "axk1": LatentRule(_V3, dense_first(1), routed_norm="post_mlp_layernorm"),
    "mistral4": LatentRule(_V2, dense_first(0)),
    "minicpm3": LatentRule(None, mlp_bias="mlp_bias", default_tied=True),
    "youtu": LatentRule(None, default_tied=True),
}


def build_latent(rule: LatentRule, reader: ConfigReader) -> Decoder:
    """The decoder of a family listed in the table."""
    hidden = reader.integer("hidden_size")
    num_layers = reader.integer("num_hidden_layers")
    sparse = [False] * num_layers
    if rule.experts and has_experts(reader, rule.experts):
        sparse = rule.sparse(reader, num_layers)
    indexed = _indexed(rule, reader, num_layers)
    kinds: dict[tuple[bool, bool], Layer] = {}
    for kind in zip(sparse, indexed, strict=True):
        if kind not in kinds:
            kinds[kind] = _layer(rule, reader, hidden, routed=kind[0], indexed=kind[1])
    layers = [kinds[kind] for kind in zip(sparse, indexed, strict=True)]
    decoder = hybrid_decoder(reader, layers, hidden, default_tied=rule.default_tied)
    if rule.mtp:
        # The draft layer runs an indexer of its own, whatever the last layer does.
        draft = _layer(rule, reader, hidden, routed=sparse[-1], indexed=rule.indexed)
        decoder.mtp = deepseek_mtp(reader, draft, hidden, decoder.vocab_size)
    else:
        note_uncounted_mtp(reader)
    return decoder


def _layer(
    rule: LatentRule, reader: ConfigReader, hidden: int, *, routed: bool, indexed: bool
) -> Layer:
    names = (*_NORMS, rule.routed_norm) if routed and rule.routed_norm else _NORMS
    mixer = latent_attention(reader, hidden, indexed=indexed)
    return build_layer(mixer, _feed_forward(rule, reader, hidden, routed), norms(hidden, *names))


def _feed_forward(rule: LatentRule, reader: ConfigReader, hidden: int, routed: bool) -> FeedForward:
    bias = switched(reader, rule.mlp_bias)
    if routed and rule.experts:
        return routed_part(rule.experts, hidden, expert_sizes(reader, rule.experts, bias=bias))
    return dense_feed_forward("mlp", hidden, reader.integer("intermediate_size"), bias=bias)


def latent_attention(reader: ConfigReader, hidden: int, *, indexed: bool = False) -> Mixer:
    """Multi-head latent attention, with the indexer of sparse attention where there is one.

    Args:
        reader: The family's configuration.
        hidden: Hidden size.
        indexed: Whether the layer runs an indexer.

    Raises:
        ModelConfigError: a missing size, or an indexer without compressed queries.

    Source: DeepSeek-V2, arXiv:2405.04434, section 2.1; the indexer is that of DeepSeek-V3.2.
    """
    num_heads = reader.integer("num_attention_heads")
    key = reader.integer("qk_nope_head_dim") + reader.integer("qk_rope_head_dim")
    rope, latent = reader.integer("qk_rope_head_dim"), reader.integer("kv_lora_rank")
    value = _value_head_dim(reader, hidden, num_heads)
    bias = reader.flag("attention_bias")
    rank = reader.optional_integer("q_lora_rank")
    expanded = num_heads * (key - rope + value)
    tensors = [
        *_queries(hidden, rank, num_heads * key, bias=bias),
        *linear("self_attn.kv_a_proj_with_mqa", latent + rope, hidden, Role.ATTENTION, bias=bias),
        *norm("self_attn.kv_a_layernorm", latent, "rms"),
        *linear("self_attn.kv_b_proj", expanded, latent, Role.ATTENTION),
        *linear("self_attn.o_proj", hidden, num_heads * value, Role.ATTENTION, bias=bias),
    ]
    if indexed:
        tensors += _indexer(reader, hidden, rank)
    cache = LatentCache(
        latent_dim=latent,
        rope_dim=rope,
        num_heads=num_heads,
        key_head_dim=key,
        value_head_dim=value,
        index_dim=reader.integer("index_head_dim") if indexed else 0,
    )
    return Mixer(tuple(tensors), (cache,), num_heads, key)


def _queries(hidden: int, rank: int | None, outputs: int, *, bias: bool) -> list[Tensor]:
    """The query projection: one matrix, or two around a norm when queries are compressed."""
    if rank is None:
        return linear("self_attn.q_proj", outputs, hidden, Role.ATTENTION)
    return [
        *linear("self_attn.q_a_proj", rank, hidden, Role.ATTENTION, bias=bias),
        *norm("self_attn.q_a_layernorm", rank, "rms"),
        *linear("self_attn.q_b_proj", outputs, rank, Role.ATTENTION),
    ]


def _value_head_dim(reader: ConfigReader, hidden: int, num_heads: int) -> int:
    if reader.model_type != "minicpm3":
        return reader.integer("v_head_dim")
    stated = reader.optional_integer("v_head_dim")
    if stated is None and hidden % num_heads:
        raise reader.error(
            f"hidden_size = {hidden} is not a multiple of num_attention_heads = {num_heads}; "
            "state v_head_dim or correct one of them"
        )
    return stated or hidden // num_heads


def _indexer(reader: ConfigReader, hidden: int, rank: int | None) -> list[Tensor]:
    """Scores every earlier token with a few small heads that share one key per token."""
    if rank is None:
        raise reader.error(
            f"q_lora_rank is missing; the indexer of {reader.model_type} reads compressed "
            "queries, so add it"
        )
    num_heads, size = reader.integer("index_n_heads"), reader.integer("index_head_dim")
    return [
        *linear("self_attn.indexer.wq_b", num_heads * size, rank, Role.ATTENTION),
        *linear("self_attn.indexer.wk", size, hidden, Role.ATTENTION),
        *norm("self_attn.indexer.k_norm", size, "layer"),
        *linear("self_attn.indexer.weights_proj", num_heads, hidden, Role.ATTENTION),
    ]


def _indexed(rule: LatentRule, reader: ConfigReader, num_layers: int) -> list[bool]:
    """Per layer whether it runs an indexer; without, it reuses the choice of a layer before."""
    if not rule.indexed or reader.model_type != "glm_moe_dsa":
        return [rule.indexed] * num_layers
    stated = reader.items("indexer_types")
    if stated is None and reader.raw("index_topk_pattern", note=False) is not None:
        pattern = reader.raw("index_topk_pattern", note=False)
        stated = list(pattern) if isinstance(pattern, str) else reader.items("index_topk_pattern")
    if stated is None:
        every = max(reader.integer("index_topk_freq", 1, minimum=0), 1)
        offset = reader.integer("index_skip_topk_offset", 2, minimum=0)
        return [max(layer - offset + 1, 0) % every == 0 for layer in range(num_layers)]
    meanings = {"full": True, "F": True, "shared": False, "S": False}
    entries = [str(entry)[:40] for entry in stated[: num_layers + 1]]
    if len(entries) != num_layers or not set(entries) <= set(meanings):
        raise reader.error(
            f"indexer_types must say full or shared for each of {num_layers} layers; correct it"
        )
    return [meanings[entry] for entry in entries]


_LONGCAT = ExpertRule(
    num_experts="n_routed_experts",
    chosen="moe_topk",
    width="expert_ffn_hidden_size",
    router="mlp.router.classifier",
)


def build_longcat(reader: ConfigReader) -> Decoder:
    """The decoder of ``longcat_flash``: two attention and two dense parts around one routed part.

    Some of the experts that the router knows return their input and have no weights. Chosen experts
    count as if all had weights, which bounds what a token reads from above.
    """
    hidden = reader.integer("hidden_size")
    attention = latent_attention(reader, hidden)
    width = reader.integer("intermediate_size")
    routed = _longcat_experts(reader, hidden)
    tensors = list(routed.tensors)
    for half in ("0", "1"):
        tensors += renamed(attention.tensors, "self_attn", f"self_attn.{half}")
        tensors += gated_mlp(f"mlps.{half}", hidden, width)
        tensors += norms(hidden, *(f"{name}.{half}" for name in _NORMS))
    layer = Layer(
        tensors=tuple(tensors),
        caches=attention.caches * 2,
        num_heads=attention.num_heads,
        head_dim=attention.head_dim,
        mlp_width=max(width, routed.width),
        num_experts=routed.num_experts,
        experts_per_token=routed.experts_per_token,
    )
    note_uncounted_mtp(reader)
    return hybrid_decoder(reader, [layer] * _longcat_layers(reader), hidden)


def _longcat_experts(reader: ConfigReader, hidden: int) -> FeedForward:
    num_experts = reader.integer("n_routed_experts")
    routes = num_experts + (reader.optional_integer("zero_expert_num", minimum=0) or 0)
    chosen = reader.integer("moe_topk")
    if chosen > routes:
        raise reader.error(
            f"moe_topk = {chosen} exceeds the {routes} experts of a layer; correct one of them"
        )
    width = reader.integer("expert_ffn_hidden_size")
    sizes = ExpertSizes(num_experts, min(chosen, num_experts), width)
    part = routed_part(_LONGCAT, hidden, sizes)
    experts = tuple(tensor for tensor in part.tensors if tensor.role is Role.EXPERT)
    bias = Tensor(
        name="mlp.router.e_score_correction_bias", shape=(routes,), role=Role.ROUTER, buffer=True
    )
    router = linear(_LONGCAT.router, routes, hidden, Role.ROUTER, bias=reader.flag("router_bias"))
    return replace(part, tensors=(*router, bias, *experts))


def _longcat_layers(reader: ConfigReader) -> int:
    """Layers of two attention parts each; ``num_hidden_layers`` counts the attention parts."""
    if reader.given.get("num_layers") is not None:
        return reader.checked_integer("num_layers", reader.given["num_layers"])
    halves = reader.integer("num_hidden_layers")
    if halves % 2:
        raise reader.error(
            f"num_hidden_layers = {halves} must be even for {reader.model_type}, which has two "
            "attention parts per layer; state num_layers"
        )
    return halves // 2


def build_deepseek_v2(reader: ConfigReader) -> Decoder:
    """The decoder of ``deepseek_v2``; small ones (DeepSeek-VL2-tiny) have ordinary attention.

    Without latent attention it is DeepSeek-MoE, whose heads split the hidden size evenly.
    """
    if reader.flag("use_mla", True):
        return build_latent(_TABLE["deepseek_v2"], reader)
    return build_deepseek(reader)


LATENT_RULES: dict[str, Callable[[ConfigReader], Decoder]] = {
    **{name: partial(build_latent, rule) for name, rule in _TABLE.items()},
    "deepseek_v2": build_deepseek_v2,
    "longcat_flash": build_longcat,
}
"""Rule of each family with multi-head latent attention, by ``model_type``."""
