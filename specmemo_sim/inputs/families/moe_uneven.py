"""Routed families whose layers differ among themselves: Llama 4, Hunyuan, MiMo-V2."""

from collections.abc import Sequence
from dataclasses import replace

from specmemo_sim.inputs.config_reader import ConfigReader
from specmemo_sim.inputs.families.dense_rule import DenseRule, attention_tensors
from specmemo_sim.inputs.families.moe_blocks import (
    ExpertRule,
    ExpertSizes,
    MoeFrame,
    dense_first,
    expert_sizes,
    framed,
    routed_part,
)
from specmemo_sim.inputs.families.mtp import note_uncounted_mtp
from specmemo_sim.inputs.families.parts import Decoder, Heads, read_heads, vector
from specmemo_sim.inputs.families.recurrent_decoder import mixer_of_heads
from specmemo_sim.inputs.families.recurrent_parts import (
    FeedForward,
    Mixer,
    build_layer,
    dense_feed_forward,
)
from specmemo_sim.inputs.families.windows import attention_windows, read_layer_types
from specmemo_sim.inputs.model import Role, Tensor

_BIASED = DenseRule(qkv_bias="attention_bias", output_bias="attention_bias")

_LLAMA4 = ExpertRule(
    num_experts="num_local_experts",
    width="intermediate_size",
    router="feed_forward.router",
    module="feed_forward.experts.*",
    projections=("gate_up_proj", "down_proj"),
    suffix="",
    shared="feed_forward.shared_expert",
    shared_width="intermediate_size",
)


def build_llama4(reader: ConfigReader) -> Decoder:
    """The decoder of ``llama4_text``: chunked attention where there are rotary positions."""
    hidden = reader.integer("hidden_size")
    num_layers = reader.integer("num_hidden_layers")
    heads = read_heads(reader, hidden)
    attention = attention_tensors(reader, _BIASED, hidden, heads)
    parts = {True: routed_part(_LLAMA4, hidden, expert_sizes(reader, _LLAMA4))}
    sparse = _llama4_sparse(reader, num_layers)
    if not all(sparse):
        width = reader.integer("intermediate_size_mlp")
        parts[False] = dense_feed_forward("feed_forward", hidden, width)
    frame = MoeFrame(_BIASED)
    layers = [
        build_layer(mixer_of_heads(attention, heads, window), parts[routed], frame.norms(hidden))
        for routed, window in zip(sparse, _llama4_windows(reader, num_layers), strict=True)
    ]
    return framed(reader, frame, layers, hidden)


def _llama4_sparse(reader: ConfigReader, num_layers: int) -> list[bool]:
    stated = reader.integers("moe_layers")
    if stated is not None:
        return [layer in stated for layer in range(num_layers)]
    step = reader.integer("interleave_moe_layer_step", 1)
    return [(layer + 1) % step == 0 for layer in range(num_layers)]


def _llama4_windows(reader: ConfigReader, num_layers: int) -> list[int | None]:
    """Per layer the chunk it attends to; layers without rotary positions attend to everything."""
    if read_layer_types(reader, num_layers) is not None:
        return attention_windows(reader, num_layers)
    rotary = reader.integers("no_rope_layers")
    if not rotary:
        interval = reader.integer("no_rope_layer_interval", 4)
        rotary = [int((layer + 1) % interval != 0) for layer in range(num_layers)]
    if len(rotary) != num_layers:
        raise reader.error(
            f"no_rope_layers has {len(rotary)} entries for {num_layers} layers; give one per layer"
        )
    chunk = reader.optional_integer("attention_chunk_size")
    return [chunk if rotates else None for rotates in rotary]


_HUNYUAN = ExpertRule(router="mlp.gate.wg", shared="mlp.shared_mlp")


def build_hunyuan(reader: ConfigReader) -> Decoder:
    """The decoder of ``hunyuan_v1_moe``, whose fields may hold one number per layer."""
    hidden = reader.integer("hidden_size")
    num_layers = reader.integer("num_hidden_layers")
    heads = read_heads(reader, hidden)
    rule = replace(
        _BIASED,
        qk_norm="head",
        qk_norm_names=("self_attn.query_layernorm", "self_attn.key_layernorm"),
    )
    mixer = mixer_of_heads(attention_tensors(reader, rule, hidden, heads), heads)
    frame = MoeFrame(rule)
    skipped = reader.integer("moe_layer_num_skipped", 0, minimum=0)
    width = reader.integer("intermediate_size")
    parts = [
        dense_feed_forward("mlp", hidden, width)
        if layer < skipped
        else routed_part(_HUNYUAN, hidden, _hunyuan_sizes(reader, width, layer))
        for layer in range(num_layers)
    ]
    layers = [build_layer(mixer, part, frame.norms(hidden)) for part in parts]
    return framed(reader, frame, layers, hidden)


def _hunyuan_sizes(reader: ConfigReader, width: int, layer: int) -> ExpertSizes:
    num_experts = _of_layer(reader, "num_experts", layer)
    chosen = _of_layer(reader, "moe_topk", layer)
    if num_experts is None or chosen is None:
        raise reader.error("num_experts and moe_topk must be given; add them to the configuration")
    if chosen > num_experts:
        raise reader.error(
            f"moe_topk = {chosen} exceeds the {num_experts} experts of a layer; correct one of them"
        )
    shared = _of_layer(reader, "num_shared_expert", layer)
    return ExpertSizes(
        num_experts=num_experts,
        chosen=chosen,
        width=_of_layer(reader, "moe_intermediate_size", layer) or width,
        shared_width=width * (1 if shared is None else shared),
    )


def _of_layer(reader: ConfigReader, name: str, layer: int) -> int | None:
    """The number for one layer, from one number for all or a list; None when not given."""
    if not isinstance(reader.raw(name, note=False), list | tuple):
        return reader.optional_integer(name, minimum=0)
    values = reader.integers(name) or []
    if layer >= len(values):
        raise reader.error(
            f"{name} has {len(values)} entries, fewer than layers; give one per layer"
        )
    return values[layer]


_MIMO = ExpertRule(num_experts="n_routed_experts", correction="mlp.gate.e_score_correction_bias")


def build_mimo_v2(reader: ConfigReader) -> Decoder:
    """The decoder of ``mimo_v2_flash``: sliding layers have other heads, and attention sinks."""
    hidden = reader.integer("hidden_size")
    num_layers = reader.integer("num_hidden_layers")
    slides = _mimo_slides(reader, num_layers)
    mixers = {slide: _mimo_attention(reader, hidden, slides=slide) for slide in set(slides)}
    sparse = dense_first(1)(reader, num_layers)
    parts: dict[bool, FeedForward] = {}
    if any(sparse):
        parts[True] = routed_part(_MIMO, hidden, expert_sizes(reader, _MIMO))
    if not all(sparse):
        parts[False] = dense_feed_forward("mlp", hidden, reader.integer("intermediate_size"))
    frame = MoeFrame(DenseRule())
    layers = [
        build_layer(mixers[slide], parts[routed], frame.norms(hidden))
        for slide, routed in zip(slides, sparse, strict=True)
    ]
    note_uncounted_mtp(reader)
    return framed(reader, frame, layers, hidden)


def _mimo_slides(reader: ConfigReader, num_layers: int) -> list[bool]:
    """Per layer whether it slides: as listed, else all but the first and every sixth."""
    pattern = reader.integers("hybrid_layer_pattern")
    types = read_layer_types(reader, num_layers)
    if pattern is not None and len(pattern) != num_layers:
        raise reader.error(
            f"hybrid_layer_pattern has {len(pattern)} entries for {num_layers} layers; "
            "give one per layer"
        )
    if types is not None:
        windows = attention_windows(reader, num_layers)
        return [window is not None for window in windows]
    if pattern is not None:
        return [kind == 1 for kind in pattern]
    return [layer != 0 and (layer + 1) % 6 != 0 for layer in range(num_layers)]


def _mimo_attention(reader: ConfigReader, hidden: int, *, slides: bool) -> Mixer:
    """Attention of a full or of a sliding layer (twice the KV heads unless the file says else)."""
    heads = Heads(
        reader.integer("num_attention_heads"),
        reader.integer("num_key_value_heads"),
        reader.integer("head_dim"),
        reader.integer("v_head_dim"),
    )
    window, sinks = None, reader.flag("add_full_attention_sink_bias")
    if slides:
        heads = Heads(
            reader.integer("swa_num_attention_heads", heads.num_heads),
            reader.integer("swa_num_key_value_heads", 2 * heads.num_kv_heads),
            reader.integer("swa_head_dim", heads.head_dim),
            reader.integer("swa_v_head_dim", heads.value_head_dim),
        )
        # The older field counts the tokens before the query, the newer one the query as well.
        before = reader.optional_integer("sliding_window_size")
        window = before + 1 if before else reader.integer("sliding_window")
        sinks = reader.flag("add_swa_attention_sink_bias", True)
    if heads.num_heads % heads.num_kv_heads:
        raise reader.error(
            f"{heads.num_heads} query heads are no multiple of {heads.num_kv_heads} KV heads; "
            "correct one of them"
        )
    tensors: Sequence[Tensor] = attention_tensors(
        reader, DenseRule(qkv_bias="attention_bias"), hidden, heads
    )
    if sinks:
        sink = vector("self_attn.attention_sink_bias", heads.num_heads, Role.ATTENTION)
        tensors = [*tensors, sink]
    return mixer_of_heads(tensors, heads, window)
