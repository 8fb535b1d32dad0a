"""Decoders of Mamba layers only, and those that mix them with attention layers."""

from specmemo_sim.inputs.config_reader import ConfigReader
from specmemo_sim.inputs.families.parts import (
    Decoder,
    gated_mlp,
    linear,
)
from specmemo_sim.inputs.families.recurrent_decoder import (
    BIASED,
    PLAIN,
    attention_mixer,
    chosen_experts,
    hybrid_decoder,
)
from specmemo_sim.inputs.families.recurrent_parts import (
    FULL,
    LINEAR,
    FeedForward,
    Mamba2Sizes,
    MambaSizes,
    Mixer,
    block_types,
    build_layer,
    dense_feed_forward,
    expanded_size,
    mamba2_mixer,
    mamba2_sizes,
    mamba_mixer,
    norms,
    time_step_rank,
)
from specmemo_sim.inputs.model import Role

BACKBONE = ("backbone.embeddings", "backbone.layers", "backbone.norm_f")
_FEED_FORWARD = ("model.embed_tokens", "model.layers", "model.final_layernorm")
_MAMBA2_FIELDS = {
    "num_heads": "num_heads",
    "head_dim": "head_dim",
    "groups": "n_groups",
    "state": "state_size",
    "kernel": "conv_kernel",
    "conv_bias": "use_conv_bias",
}
_PREFIXED_FIELDS = {
    "num_heads": "mamba_n_heads",
    "head_dim": "mamba_d_head",
    "groups": "mamba_n_groups",
    "state": "mamba_d_state",
    "kernel": "mamba_d_conv",
    "conv_bias": "mamba_conv_bias",
}


def build_mamba(reader: ConfigReader) -> Decoder:
    """The decoder of ``mamba`` and ``falcon_mamba`` (whose inner norms have no weights)."""
    hidden = reader.integer("hidden_size")
    # Falcon-Mamba states both, and its factor of 16 is not the one it was built with.
    stated = reader.given.get("intermediate_size")
    inner = (
        expanded_size(reader, "expand", hidden)
        if stated is None
        else reader.checked_integer("intermediate_size", stated)
    )
    sizes = MambaSizes(
        hidden=hidden,
        inner=inner,
        state=reader.integer("state_size"),
        kernel=reader.integer("conv_kernel"),
        time_step_rank=time_step_rank(reader, "time_step_rank", hidden),
        conv_bias=reader.flag("use_conv_bias", True),
        proj_bias=reader.flag("use_bias"),
    )
    layer = build_layer(mamba_mixer("mixer", sizes), FeedForward(), norms(hidden, "norm"))
    layers = [layer] * reader.integer("num_hidden_layers")
    return hybrid_decoder(reader, layers, hidden, default_tied=True, names=BACKBONE)


def build_mamba2(reader: ConfigReader) -> Decoder:
    """The decoder of ``mamba2``."""
    hidden = reader.integer("hidden_size")
    inner = expanded_size(reader, "expand", hidden)
    bias = reader.flag("use_bias")
    sizes = mamba2_sizes(reader, _MAMBA2_FIELDS, hidden, inner=inner, in_bias=bias)
    layer = build_layer(mamba2_mixer("mixer", sizes), FeedForward(), norms(hidden, "norm"))
    layers = [layer] * reader.integer("num_hidden_layers")
    return hybrid_decoder(reader, layers, hidden, names=BACKBONE)


def build_jamba(reader: ConfigReader) -> Decoder:
    """The decoder of ``jamba``: attention and experts each in every n-th layer."""
    hidden = reader.integer("hidden_size")
    num_layers = reader.integer("num_hidden_layers")
    attends = _every(reader, "attn_layer_period", "attn_layer_offset", num_layers)
    routed = _every(reader, "expert_layer_period", "expert_layer_offset", num_layers)
    default = [FULL if attention else LINEAR for attention in attends]
    kinds = block_types(reader, num_layers, default, (LINEAR, FULL))
    sizes = MambaSizes(
        hidden=hidden,
        inner=expanded_size(reader, "mamba_expand", hidden),
        state=reader.integer("mamba_d_state"),
        kernel=reader.integer("mamba_d_conv"),
        time_step_rank=time_step_rank(reader, "mamba_dt_rank", hidden),
        conv_bias=reader.flag("mamba_conv_bias", True),
        proj_bias=reader.flag("mamba_proj_bias"),
        inner_norms=True,
    )
    mixers = {LINEAR: mamba_mixer("mamba", sizes), FULL: attention_mixer(reader, PLAIN, hidden)}
    sparse = _jamba_experts(reader, hidden)
    dense = dense_feed_forward("feed_forward", hidden, reader.integer("intermediate_size"))
    others = norms(hidden, "input_layernorm", "pre_ff_layernorm")
    layers = [
        build_layer(mixers[kind], sparse if experts else dense, others)
        for kind, experts in zip(kinds, routed, strict=True)
    ]
    return hybrid_decoder(reader, layers, hidden, names=_FEED_FORWARD)


def _every(reader: ConfigReader, period: str, offset: str, num_layers: int) -> list[bool]:
    length, first = reader.integer(period), reader.integer(offset, 0, minimum=0)
    if first >= length:
        raise reader.error(f"{offset} = {first} must be smaller than {period} = {length}")
    return [layer % length == first for layer in range(num_layers)]


def _jamba_experts(reader: ConfigReader, hidden: int) -> FeedForward:
    width = reader.integer("intermediate_size")
    num_experts = reader.integer("num_experts")
    if num_experts == 1:
        return dense_feed_forward("feed_forward", hidden, width)
    chosen = chosen_experts(reader, num_experts)
    tensors = [
        *linear("feed_forward.router", num_experts, hidden, Role.ROUTER),
        *gated_mlp("feed_forward.experts.*", hidden, width, Role.EXPERT, count=num_experts),
    ]
    return FeedForward(tuple(tensors), chosen * width, True, num_experts, chosen)


def build_bamba(reader: ConfigReader) -> Decoder:
    """The decoder of ``bamba``: Mamba-2 layers, attention at listed places."""
    hidden = reader.integer("hidden_size")
    num_layers = reader.integer("num_hidden_layers")
    attending = set(reader.integers("attn_layer_indices") or ())
    default = [FULL if layer in attending else LINEAR for layer in range(num_layers)]
    kinds = block_types(reader, num_layers, default, (LINEAR, FULL))
    mixers = {
        LINEAR: mamba2_mixer("mamba", _prefixed_sizes(reader, hidden)),
        FULL: attention_mixer(reader, BIASED, hidden),
    }
    width = reader.integer("intermediate_size")
    mlp = dense_feed_forward("feed_forward", hidden, width, bias=reader.flag("mlp_bias"))
    others = norms(hidden, "input_layernorm", "pre_ff_layernorm")
    layers = [build_layer(mixers[kind], mlp, others) for kind in kinds]
    return hybrid_decoder(reader, layers, hidden, names=_FEED_FORWARD)


def _prefixed_sizes(reader: ConfigReader, hidden: int) -> Mamba2Sizes:
    inner = expanded_size(reader, "mamba_expand", hidden)
    bias = reader.flag("mamba_proj_bias")
    return mamba2_sizes(reader, _PREFIXED_FIELDS, hidden, inner=inner, in_bias=bias)


def build_falcon_h1(reader: ConfigReader) -> Decoder:
    """The decoder of ``falcon_h1``: attention and Mamba-2 side by side in every layer."""
    hidden = reader.integer("hidden_size")
    stated = reader.optional_integer("mamba_d_ssm")
    inner = stated or expanded_size(reader, "mamba_expand", hidden)
    bias = reader.flag("mamba_proj_bias")
    sizes = mamba2_sizes(reader, _PREFIXED_FIELDS, hidden, inner=inner, in_bias=bias)
    mamba = mamba2_mixer(
        "mamba",
        Mamba2Sizes(
            hidden=hidden,
            inner=inner,
            num_heads=sizes.num_heads,
            head_dim=sizes.head_dim,
            groups=sizes.groups,
            state=sizes.state,
            kernel=sizes.kernel,
            conv_bias=sizes.conv_bias,
            in_bias=bias,
            out_bias=reader.flag("projectors_bias"),
            gated_norm=reader.flag("mamba_rms_norm"),
        ),
    )
    attention = attention_mixer(reader, BIASED, hidden)
    both = Mixer(
        (*mamba.tensors, *attention.tensors),
        (*mamba.caches, *attention.caches),
        attention.num_heads,
        attention.head_dim,
    )
    width = reader.integer("intermediate_size")
    mlp = dense_feed_forward("feed_forward", hidden, width, bias=reader.flag("mlp_bias"))
    layer = build_layer(both, mlp, norms(hidden, "input_layernorm", "pre_ff_layernorm"))
    layers = [layer] * reader.integer("num_hidden_layers")
    return hybrid_decoder(reader, layers, hidden, names=_FEED_FORWARD)


def build_granite_hybrid(reader: ConfigReader) -> Decoder:
    """The decoder of ``granitemoehybrid``: Mamba-2 or attention, shared and routed experts."""
    hidden = reader.integer("hidden_size")
    num_layers = reader.integer("num_hidden_layers")
    kinds = block_types(reader, num_layers, [LINEAR] * num_layers, (LINEAR, FULL))
    mixers = {
        LINEAR: mamba2_mixer("mamba", _prefixed_sizes(reader, hidden)),
        FULL: attention_mixer(reader, BIASED, hidden),
    }
    feed_forward = _granite_experts(reader, hidden)
    others = norms(hidden, "input_layernorm", "post_attention_layernorm")
    layers = [build_layer(mixers[kind], feed_forward, others) for kind in kinds]
    return hybrid_decoder(reader, layers, hidden)


def _granite_experts(reader: ConfigReader, hidden: int) -> FeedForward:
    shared = reader.integer("shared_intermediate_size")
    num_experts = reader.integer("num_local_experts", 0, minimum=0)
    role = Role.SHARED_EXPERT if num_experts else Role.MLP
    tensors = [
        *linear("shared_mlp.input_linear", 2 * shared, hidden, role),
        *linear("shared_mlp.output_linear", hidden, shared, role),
    ]
    if num_experts == 0:
        return FeedForward(tuple(tensors), shared)
    width = reader.integer("intermediate_size")
    chosen = chosen_experts(reader, num_experts)
    moe = "block_sparse_moe"
    tensors += [
        *linear(f"{moe}.router.layer", num_experts, hidden, Role.ROUTER),
        *linear(f"{moe}.input_linear.*", 2 * width, hidden, Role.EXPERT, count=num_experts),
        *linear(f"{moe}.output_linear.*", hidden, width, Role.EXPERT, count=num_experts),
    ]
    return FeedForward(tuple(tensors), shared + chosen * width, True, num_experts, chosen)
