"""Hybrids of attention with short convolutions (LFM2) or a gated linear recurrence (Griffin)."""

from specmemo_sim.inputs.config_reader import ConfigReader
from specmemo_sim.inputs.dtypes import DType
from specmemo_sim.inputs.families.dense_rule import DenseRule
from specmemo_sim.inputs.families.parts import Decoder, gated_mlp, linear, vector
from specmemo_sim.inputs.families.recurrent_decoder import (
    attention_mixer,
    chosen_experts,
    hybrid_decoder,
)
from specmemo_sim.inputs.families.recurrent_parts import (
    CONV,
    FULL,
    LINEAR,
    SLIDING,
    FeedForward,
    Mixer,
    block_types,
    build_layer,
    depthwise_conv,
    gated_block,
    norms,
)
from specmemo_sim.inputs.model import Role, StateCache, Tensor

_LFM_NAMES = ("model.embed_tokens", "model.layers", "model.embedding_norm")
_LFM_ATTENTION = DenseRule(
    output_name="self_attn.out_proj",
    qk_norm="head",
    qk_norm_names=("self_attn.q_layernorm", "self_attn.k_layernorm"),
)
_LFM_MLP = ("feed_forward.w1", "feed_forward.w3", "feed_forward.w2")
_LFM_EXPERTS = (
    "feed_forward.experts.*.w1", "feed_forward.experts.*.w3", "feed_forward.experts.*.w2",
)  # fmt: skip


def build_lfm2(reader: ConfigReader) -> Decoder:
    """The decoder of ``lfm2``."""
    hidden = reader.integer("hidden_size")
    width = _lfm_width(reader)
    mlp = FeedForward(tuple(gated_block(_LFM_MLP, hidden, width)), width)
    num_layers = reader.integer("num_hidden_layers")
    attending = reader.integers("full_attn_idxs")
    default = [FULL if attending is None or n in attending else CONV for n in range(num_layers)]
    return _lfm_decoder(reader, default, [mlp] * num_layers)


def _lfm_width(reader: ConfigReader) -> int:
    """Feed-forward width after the family's own rounding (two thirds, up to a multiple)."""
    stated = reader.integer("block_ff_dim" if reader.has("block_ff_dim") else "intermediate_size")
    if not reader.flag("block_auto_adjust_ff_dim", True):
        return stated
    factor = reader.number("block_ffn_dim_multiplier", 1.0)
    if not 0 < factor <= 64:
        raise reader.error(f"block_ffn_dim_multiplier = {factor} must be above 0, at most 64")
    multiple = reader.integer("block_multiple_of", 256)
    return -(-int(factor * int(2 * stated / 3)) // multiple) * multiple


def build_lfm2_moe(reader: ConfigReader) -> Decoder:
    """The decoder of ``lfm2_moe``: the first layers dense, the others with routed experts."""
    hidden = reader.integer("hidden_size")
    num_layers = reader.integer("num_hidden_layers")
    if not (reader.has("layer_types") or reader.has("full_attn_idxs")):
        raise reader.error("layer_types is missing; add it (conv or full_attention per layer)")
    attending = reader.integers("full_attn_idxs") or ()
    default = [FULL if n in attending else CONV for n in range(num_layers)]
    width = reader.integer("intermediate_size")
    dense = FeedForward(tuple(gated_block(_LFM_MLP, hidden, width)), width)
    num_dense = reader.integer("num_dense_layers", minimum=0)
    sparse = _lfm_experts(reader, hidden)
    parts = [dense if n < num_dense else sparse for n in range(num_layers)]
    return _lfm_decoder(reader, default, parts)


def _lfm_experts(reader: ConfigReader, hidden: int) -> FeedForward:
    num_experts = reader.integer("num_experts")
    chosen = chosen_experts(reader, num_experts)
    width = reader.integer("moe_intermediate_size")
    tensors = [
        *linear("feed_forward.gate", num_experts, hidden, Role.ROUTER),
        *gated_block(_LFM_EXPERTS, hidden, width, Role.EXPERT, count=num_experts),
    ]
    if reader.flag("use_expert_bias", True):
        tensors.append(vector("feed_forward.expert_bias", num_experts, Role.ROUTER, buffer=True))
    return FeedForward(tuple(tensors), chosen * width, True, num_experts, chosen)


def _lfm_decoder(reader: ConfigReader, default: list[str], parts: list[FeedForward]) -> Decoder:
    hidden = reader.integer("hidden_size")
    kinds = block_types(reader, len(parts), default, (CONV, FULL))
    mixers = {
        CONV: _short_conv(reader, hidden),
        FULL: attention_mixer(reader, _LFM_ATTENTION, hidden),
    }
    others = norms(hidden, "operator_norm", "ffn_norm")
    layers = [
        build_layer(mixers[kind], part, others) for kind, part in zip(kinds, parts, strict=True)
    ]
    tied = "tie_embedding" if reader.has("tie_embedding") else "tie_word_embeddings"
    return hybrid_decoder(
        reader, layers, hidden, default_tied=True, names=_LFM_NAMES, tie_field=tied
    )


def _short_conv(reader: ConfigReader, hidden: int) -> Mixer:
    """A gated convolution over the last few tokens, the only thing it keeps."""
    kernel, bias = reader.integer("conv_L_cache"), reader.flag("conv_bias")
    tensors = [
        *depthwise_conv("conv.conv", hidden, kernel, bias=bias),
        *linear("conv.in_proj", 3 * hidden, hidden, Role.RECURRENT, bias=bias),
        *linear("conv.out_proj", hidden, hidden, Role.RECURRENT, bias=bias),
    ]
    return Mixer(tuple(tensors), (StateCache(conv_elements=hidden * kernel, state_elements=0),))


def build_recurrent_gemma(reader: ConfigReader) -> Decoder:
    """The decoder of ``recurrent_gemma``: recurrent blocks and attention over a window."""
    hidden = reader.integer("hidden_size")
    num_layers = reader.integer("num_hidden_layers")
    cycle = reader.items("block_types")
    if not cycle:
        raise reader.error('block_types is empty; give kinds such as ["recurrent", "attention"]')
    default = [str(cycle[n % len(cycle)])[:60] for n in range(num_layers)]
    named = [SLIDING if kind == "attention" else kind for kind in default]
    kinds = block_types(reader, num_layers, named, (LINEAR, SLIDING))
    window = reader.integer("attention_window_size")
    attention = DenseRule(qkv_bias="attention_bias", output_bias=True)
    mixers = {
        LINEAR: _gated_recurrence(reader, hidden),
        SLIDING: attention_mixer(reader, attention, hidden, window=window, module="temporal_block"),
    }
    width = reader.integer("intermediate_size") // 2
    mlp = FeedForward(tuple(gated_mlp("mlp_block", hidden, width, bias=True)), width)
    others = norms(hidden, "temporal_pre_norm", "channel_pre_norm")
    layers = [build_layer(mixers[kind], mlp, others) for kind in kinds]
    names = ("model.embed_tokens", "model.layers", "model.final_norm")
    return hybrid_decoder(reader, layers, hidden, default_tied=True, names=names)


def _gated_recurrence(reader: ConfigReader, hidden: int) -> Mixer:
    """The recurrent block of Griffin; its state has 32 bits.

    Source: De et al. 2024, arXiv:2402.19427, section 2.4 (RG-LRU).
    """
    width = reader.integer("lru_width", hidden)
    heads, kernel = reader.integer("num_attention_heads"), reader.integer("conv1d_width")
    if width % heads:
        raise reader.error(
            f"lru_width = {width} is not a multiple of num_attention_heads = {heads}"
        )
    block = width // heads
    module = "temporal_block"
    tensors = [
        *linear(f"{module}.linear_y", width, hidden, Role.RECURRENT, bias=True),
        *linear(f"{module}.linear_x", width, hidden, Role.RECURRENT, bias=True),
        *linear(f"{module}.linear_out", hidden, width, Role.RECURRENT, bias=True),
        *depthwise_conv(f"{module}.conv_1d", width, kernel, bias=True),
        vector(f"{module}.rg_lru.recurrent_param", width, Role.RECURRENT),
    ]
    for gate in ("input_gate", "recurrent_gate"):
        name = f"{module}.rg_lru.{gate}"
        tensors += [
            Tensor(name=f"{name}_weight", shape=(heads, block, block), role=Role.RECURRENT),
            Tensor(name=f"{name}_bias", shape=(heads, block), role=Role.RECURRENT),
        ]
    # This block keeps one input less than its kernel, unlike the Mamba layers.
    cache = StateCache(
        conv_elements=width * (kernel - 1), state_elements=width, state_dtype=DType.FP32
    )
    return Mixer(tuple(tensors), (cache,))
