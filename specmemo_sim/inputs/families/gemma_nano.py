"""Gemma 3n and Gemma 4: per-layer embeddings, layers that reuse another layer's keys and values."""

from collections.abc import Mapping

from specmemo_sim.inputs.config_reader import ConfigReader
from specmemo_sim.inputs.families.parts import (
    Decoder,
    Heads,
    embedding,
    linear,
    norm,
    read_heads,
    vector,
)
from specmemo_sim.inputs.families.recurrent_decoder import chosen_experts, hybrid_decoder
from specmemo_sim.inputs.families.recurrent_parts import (
    FULL,
    SLIDING,
    FeedForward,
    Mixer,
    block_types,
    build_layer,
    dense_feed_forward,
    norms,
)
from specmemo_sim.inputs.model import Role, Tensor

_SANDWICH = (
    "input_layernorm",
    "post_attention_layernorm",
    "pre_feedforward_layernorm",
    "post_feedforward_layernorm",
)
_MAX_STREAMS = 64
_GLOBAL_HEAD_DIM = 512
"""Head size of Gemma 4's global layers when the file gives none. Source: transformers 5.24."""


def build_gemma3n(reader: ConfigReader) -> Decoder:
    """The decoder of ``gemma3n_text``: several residual streams (AltUp) and low-rank side paths."""
    hidden = reader.integer("hidden_size")
    num_layers = reader.integer("num_hidden_layers")
    kinds = _attention_kinds(reader, num_layers, 5)
    shared = _reusing(reader, kinds, may_be_all=False)
    heads = read_heads(reader, hidden)
    others = [
        *norms(hidden, *_SANDWICH),
        *_altup(reader, hidden),
        *_laurel(reader, hidden),
        *_per_layer_input(reader, hidden),
    ]
    widths = _widths(reader, num_layers)
    layers = [
        build_layer(
            _attention(reader, heads, kind, hidden, reuses=reuses),
            dense_feed_forward("mlp", hidden, width),
            others,
        )
        for kind, reuses, width in zip(kinds, shared, widths, strict=True)
    ]
    decoder = hybrid_decoder(reader, layers, hidden, default_tied=True)
    decoder.outer += _per_layer_tables(reader, hidden, num_layers)
    for stream in range(_streams(reader) - 1):
        for module in ("altup_projections", "altup_unembed_projections"):
            decoder.outer += linear(f"model.{module}.{stream}", hidden, hidden, Role.OTHER)
    return decoder


def _widths(reader: ConfigReader, num_layers: int) -> list[int]:
    value = reader.raw("intermediate_size")
    if not isinstance(value, list | tuple):
        return [reader.integer("intermediate_size")] * num_layers
    if len(value) != num_layers:
        raise reader.error(
            f"intermediate_size lists {len(value)} widths for {num_layers} layers; give one each"
        )
    return [reader.checked_integer("intermediate_size", width) for width in value]


def _altup(reader: ConfigReader, hidden: int) -> list[Tensor]:
    """Mixing of the residual streams. Source: Baykal et al. 2023, arXiv:2301.13310."""
    streams = _streams(reader)
    return [
        vector("altup.correct_output_scale", hidden),
        *linear("altup.correction_coefs", streams, streams, Role.OTHER),
        *linear("altup.prediction_coefs", streams**2, streams, Role.OTHER),
        *linear("altup.modality_router", streams, hidden, Role.OTHER),
        *norm("altup.router_norm", hidden, "rms"),
    ]


def _streams(reader: ConfigReader) -> int:
    streams = reader.integer("altup_num_inputs")
    if streams > _MAX_STREAMS:
        raise reader.error(
            f"altup_num_inputs = {streams} is out of range; allowed is 1 to {_MAX_STREAMS}"
        )
    return streams


def _laurel(reader: ConfigReader, hidden: int) -> list[Tensor]:
    """A low-rank residual path. Source: Menghani et al. 2024, arXiv:2411.07501."""
    rank = reader.integer("laurel_rank")
    return [
        *linear("laurel.linear_left", rank, hidden, Role.OTHER),
        *linear("laurel.linear_right", hidden, rank, Role.OTHER),
        *norm("laurel.post_laurel_norm", hidden, "rms"),
    ]


def build_gemma4(reader: ConfigReader) -> Decoder:
    """The decoder of ``gemma4_text``: global layers have their own heads; experts are optional."""
    hidden = reader.integer("hidden_size")
    num_layers = reader.integer("num_hidden_layers")
    kinds = _attention_kinds(reader, num_layers, 6)
    kinds[-1] = FULL
    shared = _reusing(reader, kinds, may_be_all=True)
    others = [
        *norms(hidden, *_SANDWICH),
        vector("layer_scalar", 1, buffer=True),
        *_per_layer_input(reader, hidden),
    ]
    layers = []
    for number, (kind, reuses) in enumerate(zip(kinds, shared, strict=True)):
        heads = _gemma4_heads(reader, kind, number)
        mixer = _attention(reader, heads, kind, hidden, reuses=reuses)
        layers.append(build_layer(mixer, _gemma4_mlp(reader, hidden, reuses=reuses), others))
    decoder = hybrid_decoder(reader, layers, hidden, default_tied=True)
    decoder.outer += _per_layer_tables(reader, hidden, num_layers)
    return decoder


def _attention_kinds(reader: ConfigReader, num_layers: int, period: int) -> list[str]:
    default = [FULL if (n + 1) % period == 0 else SLIDING for n in range(num_layers)]
    return block_types(reader, num_layers, default, (SLIDING, FULL))


def _reusing(reader: ConfigReader, kinds: list[str], *, may_be_all: bool) -> list[bool]:
    """Per layer whether it reads the keys and values of an earlier layer of its kind.

    Raises:
        ModelConfigError: a kind of layer that only ever reads what no layer provides.
    """
    count = reader.integer("num_kv_shared_layers", 0, minimum=0)
    first = len(kinds) - count
    everything = count == len(kinds) and may_be_all
    if not everything and (first < 0 or set(kinds[:first]) != set(kinds)):
        raise reader.error(
            f"num_kv_shared_layers = {count} leaves no earlier layer of each attention kind that "
            f"could provide keys and values; there are {len(kinds)} layers"
        )
    return [number >= first for number in range(len(kinds))]


def _gemma4_heads(reader: ConfigReader, kind: str, number: int) -> Heads:
    num_heads = reader.integer("num_attention_heads")
    kv_heads, head_dim = reader.integer("num_key_value_heads"), reader.integer("head_dim")
    if kind == FULL:
        head_dim = reader.integer("global_head_dim", _GLOBAL_HEAD_DIM)
        if reader.flag("attention_k_eq_v"):
            kv_heads = reader.integer("num_global_key_value_heads", kv_heads)
    stated = reader.nested("per_layer_config")
    if stated:
        own = stated.get(str(number))
        layer = ConfigReader(own if isinstance(own, Mapping) else {}, "", where=reader.where)
        head_dim = layer.integer("head_dim", reader.integer("head_dim"))
        kv_heads = layer.integer("num_key_value_heads", reader.integer("num_key_value_heads"))
    if num_heads % kv_heads:
        raise reader.error(
            f"num_attention_heads = {num_heads} is not a multiple of the {kv_heads} KV heads of "
            f"layer {number}; correct one of them"
        )
    return Heads(num_heads, kv_heads, head_dim, head_dim)


def _attention(
    reader: ConfigReader, heads: Heads, kind: str, hidden: int, *, reuses: bool
) -> Mixer:
    """Attention; a layer that reuses keys and values neither projects nor caches them."""
    bias = reader.flag("attention_bias")
    tensors = [
        *linear("self_attn.q_proj", heads.query_size, hidden, Role.ATTENTION, bias=bias),
        *linear("self_attn.o_proj", hidden, heads.output_size, Role.ATTENTION, bias=bias),
        *norm("self_attn.q_norm", heads.head_dim, "rms"),
    ]
    if reuses:
        return Mixer(tuple(tensors), (), heads.num_heads, heads.head_dim)
    tensors += norm("self_attn.k_norm", heads.head_dim, "rms")
    tensors += linear("self_attn.k_proj", heads.key_size, hidden, Role.ATTENTION, bias=bias)
    # Values that are the keys still differ from them in the cache: only keys carry positions.
    if kind == SLIDING or not reader.flag("attention_k_eq_v"):
        tensors += linear("self_attn.v_proj", heads.value_size, hidden, Role.ATTENTION, bias=bias)
    window = _window(reader) if kind == SLIDING else None
    return Mixer(tuple(tensors), (heads.cache(window),), heads.num_heads, heads.head_dim)


def _window(reader: ConfigReader) -> int:
    window = reader.integer("sliding_window")
    if reader.raw("use_bidirectional_attention", note=False) == "all":
        return window // 2 + 1
    return window


def _gemma4_mlp(reader: ConfigReader, hidden: int, *, reuses: bool) -> FeedForward:
    wide = reuses and reader.flag("use_double_wide_mlp")
    width = reader.integer("intermediate_size") * (2 if wide else 1)
    dense = dense_feed_forward("mlp", hidden, width)
    if not _has_experts(reader):
        return dense
    num_experts = reader.integer("num_experts")
    chosen = chosen_experts(reader, num_experts, "top_k_experts")
    size = reader.integer("moe_intermediate_size")
    tensors = [
        *dense.tensors,
        *linear("router.proj", num_experts, hidden, Role.ROUTER),
        vector("router.scale", hidden, Role.ROUTER),
        vector("router.per_expert_scale", num_experts, Role.ROUTER),
        Tensor(
            name="experts.*.gate_up_proj",
            shape=(2 * size, hidden),
            role=Role.EXPERT,
            linear=True,
            count=num_experts,
        ),
        Tensor(
            name="experts.*.down_proj",
            shape=(hidden, size),
            role=Role.EXPERT,
            linear=True,
            count=num_experts,
        ),
        *norms(
            hidden,
            "post_feedforward_layernorm_1",
            "post_feedforward_layernorm_2",
            "pre_feedforward_layernorm_2",
        ),
    ]
    return FeedForward(tuple(tensors), width + chosen * size, True, num_experts, chosen)


def _has_experts(reader: ConfigReader) -> bool:
    if reader.has("enable_moe_block"):
        return reader.flag("enable_moe_block")
    if reader.has("num_experts"):
        reader.notes.append("enable_moe_block is not given; num_experts says there are experts")
        return True
    return False


def _per_layer_input(reader: ConfigReader, hidden: int) -> list[Tensor]:
    size = reader.integer("hidden_size_per_layer_input", 0, minimum=0)
    if size == 0:
        return []
    return [
        *linear("per_layer_input_gate", size, hidden, Role.OTHER),
        *linear("per_layer_projection", hidden, size, Role.OTHER),
        *norm("post_per_layer_input_norm", hidden, "rms"),
    ]


def _per_layer_tables(reader: ConfigReader, hidden: int, num_layers: int) -> list[Tensor]:
    """The second embedding, a slice per layer, and the projection that joins it."""
    size = reader.integer("hidden_size_per_layer_input", 0, minimum=0)
    if size == 0:
        return []
    rows = reader.integer("vocab_size_per_layer_input")
    # Looked up only, and never an LM head, which the role "embedding" of a tied model would mean.
    table = embedding("model.embed_tokens_per_layer", rows, num_layers * size, Role.POSITION)
    return [
        table,
        *linear("model.per_layer_model_projection", num_layers * size, hidden, Role.OTHER),
        *norm("model.per_layer_projection_norm", size, "rms"),
    ]
