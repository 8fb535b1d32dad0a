"""Zamba and Zamba 2: Mamba layers, some of them fed by a transformer block that is held once."""

from specmemo_sim.inputs.config_reader import ConfigReader
from specmemo_sim.inputs.families.parts import Decoder, Heads, gated_mlp, linear, vector
from specmemo_sim.inputs.families.recurrent_decoder import hybrid_decoder, renamed
from specmemo_sim.inputs.families.recurrent_parts import (
    HYBRID,
    LINEAR,
    FeedForward,
    Mamba2Sizes,
    Mixer,
    block_types,
    build_layer,
    depthwise_conv,
    expanded_size,
    mamba2_mixer,
    norms,
    recurrent_state,
    time_step_rank,
)
from specmemo_sim.inputs.model import Layer, Role, Tensor

_NAMES = ("model.embed_tokens", "model.layers", "model.final_layernorm")
_LONG = [LINEAR] + ([LINEAR] * 5 + [HYBRID]) * 7 + [LINEAR] * 4 + [HYBRID]
_ZAMBA2_LAYERS = [*_LONG, *([LINEAR] * 3), HYBRID, LINEAR, LINEAR]
"""The 54 layers of Zamba2-2.7B. Source: transformers 5.24, class default of zamba2."""


def build_zamba2(reader: ConfigReader) -> Decoder:
    """The decoder of ``zamba2``: shared blocks in turn, each use with its own adapters."""
    hidden = reader.integer("hidden_size")
    num_layers = reader.integer("num_hidden_layers")
    kinds = block_types(reader, num_layers, _zamba2_default(reader, num_layers), (LINEAR, HYBRID))
    heads = _block_heads(reader, hidden, 2 * hidden // reader.integer("num_attention_heads"))
    width = reader.integer("intermediate_size", 4 * hidden)
    layers = _layers(kinds, _zamba2_mamba(reader, hidden), heads, hidden, width)
    layers = [
        layer.replace(tensors=(*layer.tensors, *_adapters(reader, hidden, width)))
        if kind == HYBRID
        else layer
        for layer, kind in zip(layers, kinds, strict=True)
    ]
    decoder = hybrid_decoder(reader, layers, hidden, default_tied=True, names=_NAMES)
    holders = [number for number, kind in enumerate(kinds) if kind == HYBRID]
    bias = reader.flag("add_bias_linear")
    for number in holders[: reader.integer("num_mem_blocks", 1)]:
        prefix = f"model.layers.{number}.shared_transformer"
        decoder.shared += [
            *_shared_attention(prefix, heads, 2 * hidden, hidden),
            *linear(f"{prefix}.feed_forward.gate_up_proj", 2 * width, hidden, Role.MLP, bias=bias),
            *linear(f"{prefix}.feed_forward.down_proj", hidden, width, Role.MLP, bias=bias),
        ]
    return decoder


def _zamba2_default(reader: ConfigReader, num_layers: int) -> list[str]:
    if num_layers != len(_ZAMBA2_LAYERS) and reader.items("layers_block_type") is None:
        raise reader.error(
            f"layers_block_type is missing and has a default for {len(_ZAMBA2_LAYERS)} layers "
            f"only, not for {num_layers}; add it"
        )
    return _ZAMBA2_LAYERS


def _zamba2_mamba(reader: ConfigReader, hidden: int) -> Mixer:
    inner = expanded_size(reader, "mamba_expand", hidden)
    num_heads = reader.integer("n_mamba_heads")
    if inner % num_heads:
        raise reader.error(f"n_mamba_heads = {num_heads} must divide the inner size {inner}")
    bias = reader.flag("add_bias_linear")
    sizes = Mamba2Sizes(
        hidden=hidden,
        inner=inner,
        num_heads=num_heads,
        head_dim=inner // num_heads,
        groups=reader.integer("mamba_ngroups"),
        state=reader.integer("mamba_d_state"),
        kernel=reader.integer("mamba_d_conv"),
        conv_bias=True,
        in_bias=bias,
        out_bias=bias,
    )
    return mamba2_mixer("mamba", sizes)


def _adapters(reader: ConfigReader, hidden: int, width: int) -> list[Tensor]:
    """The low-rank matrices that one use of a shared block adds to it."""
    rank = reader.integer("adapter_rank")
    module = "shared_transformer.feed_forward.gate_up_proj_adapter_list.*"
    tensors = [
        *linear(f"{module}.0", rank, hidden, Role.MLP),
        *linear(f"{module}.1", 2 * width, rank, Role.MLP),
    ]
    if not reader.flag("use_shared_attention_adapter"):
        return tensors
    for letter in "qkv":
        module = f"shared_transformer.self_attn.linear_{letter}_adapter_list.*"
        tensors += linear(f"{module}.0", rank, 2 * hidden, Role.ATTENTION)
        tensors += linear(f"{module}.1", 2 * hidden, rank, Role.ATTENTION)
    return tensors


def build_zamba(reader: ConfigReader) -> Decoder:
    """The decoder of ``zamba``: one shared block, Mamba mixers with several heads."""
    hidden = reader.integer("hidden_size")
    num_layers = reader.integer("num_hidden_layers")
    period, offset = reader.integer("attn_layer_period"), reader.integer("attn_layer_offset")
    periodic = [HYBRID if n % period == offset else LINEAR for n in range(num_layers - 3)]
    kinds = block_types(reader, num_layers, [LINEAR, LINEAR, HYBRID, *periodic], (LINEAR, HYBRID))
    stated = reader.optional_integer("attention_head_dim")
    head_dim = stated or 2 * hidden // reader.integer("num_attention_heads")
    heads = _block_heads(reader, hidden, head_dim)
    inputs = reader.integer("attention_hidden_size", 2 * hidden)
    width = reader.integer("intermediate_size")
    layers = _layers(kinds, _zamba_mamba(reader, hidden), heads, hidden, width)
    decoder = hybrid_decoder(reader, layers, hidden, default_tied=True, names=_NAMES)
    if HYBRID in kinds:
        prefix = f"model.layers.{kinds.index(HYBRID)}.shared_transf"
        decoder.shared = [
            *_shared_attention(prefix, heads, inputs, hidden),
            *gated_mlp(f"{prefix}.feed_forward", hidden, width),
        ]
    return decoder


def _zamba_mamba(reader: ConfigReader, hidden: int) -> Mixer:
    inner = expanded_size(reader, "mamba_expand", hidden)
    heads, state = reader.integer("n_mamba_heads"), reader.integer("mamba_d_state")
    rank = time_step_rank(reader, "mamba_dt_rank", hidden)
    kernel = reader.integer("mamba_d_conv")
    if inner % heads:
        raise reader.error(f"n_mamba_heads = {heads} must divide the inner size {inner}")
    size, bias = inner // heads, reader.flag("mamba_proj_bias")
    shapes = {
        "x_proj_weight": (heads, rank + 2 * state, size),
        "dt_proj_weight": (heads, size, rank),
        "dt_proj_bias": (heads, size),
        "A_log": (heads, size, state),
        "D": (heads, size),
    }
    tensors = [
        *linear("mamba.in_proj", 2 * inner, hidden, Role.RECURRENT, bias=bias),
        *depthwise_conv("mamba.conv1d", inner, kernel, bias=reader.flag("mamba_conv_bias", True)),
        *(
            Tensor(name=f"mamba.{name}", shape=shape, role=Role.RECURRENT)
            for name, shape in shapes.items()
        ),
        *linear("mamba.out_proj", hidden, inner, Role.RECURRENT, bias=bias),
    ]
    return Mixer(tuple(tensors), (recurrent_state(inner, kernel, inner * state),))


def _block_heads(reader: ConfigReader, hidden: int, head_dim: int) -> Heads:
    num_heads = reader.integer("num_attention_heads")
    kv_heads = reader.integer("num_key_value_heads", num_heads)
    if num_heads % kv_heads or head_dim < 1:
        raise reader.error(
            f"num_attention_heads = {num_heads} must be a multiple of num_key_value_heads = "
            f"{kv_heads} and at most twice the hidden size {hidden}"
        )
    return Heads(num_heads, kv_heads, head_dim, head_dim)


def _layers(kinds: list[str], mamba: Mixer, heads: Heads, hidden: int, width: int) -> list[Layer]:
    """Mamba layers, and those that first pass through a shared block."""
    inner_norm = norms(hidden, "input_layernorm")
    plain = build_layer(mamba, FeedForward(), inner_norm)
    wrapped = Mixer(
        renamed([*mamba.tensors, *inner_norm], "", "mamba_decoder."),
        (*mamba.caches, heads.cache()),
        heads.num_heads,
        heads.head_dim,
    )
    connection = linear("linear", hidden, hidden, Role.OTHER)
    hybrid = build_layer(wrapped, FeedForward(width=width), connection)
    return [hybrid if kind == HYBRID else plain for kind in kinds]


def _shared_attention(prefix: str, heads: Heads, inputs: int, hidden: int) -> list[Tensor]:
    module = f"{prefix}.self_attn"
    return [
        *linear(f"{module}.q_proj", heads.query_size, inputs, Role.ATTENTION),
        *linear(f"{module}.k_proj", heads.key_size, inputs, Role.ATTENTION),
        *linear(f"{module}.v_proj", heads.value_size, inputs, Role.ATTENTION),
        *linear(f"{module}.o_proj", hidden, heads.output_size, Role.ATTENTION),
        vector(f"{prefix}.input_layernorm.weight", inputs, Role.NORM),
        vector(f"{prefix}.pre_ff_layernorm.weight", hidden, Role.NORM),
    ]
