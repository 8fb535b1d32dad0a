"""Decoders with remote code whose layers differ: block configurations, experts, MTP layers.

Source of names and shapes: the modelling files published with the checkpoints (DeciLM and
Nemotron-NAS, DeepSeek-MoE 16B, MiniCPM-MoE, MiMo-7B).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from specmemo_sim.inputs.config_reader import MAX_DIMENSION, ConfigReader
from specmemo_sim.inputs.families.dense import build_dense
from specmemo_sim.inputs.families.dense_rule import DenseRule, attention_tensors
from specmemo_sim.inputs.families.parts import Decoder, Heads, gated_mlp, linear, norm, read_heads
from specmemo_sim.inputs.model import Layer, Role, Tensor

_LLAMA = DenseRule(qkv_bias="attention_bias", output_bias="attention_bias", mlp_bias="mlp_bias")
_WIDTH_STEP = 256
"""Nemotron-NAS rounds its feed-forward widths up to a multiple of this."""
_MAX_MTP_LAYERS = 64
_UNKNOWN_ATTENTION = ("is_mamba", "is_llama4", "mamba", "llama4")
_UNKNOWN_FFN = ("is_moe", "moe")


def build_block_configs(reader: ConfigReader) -> Decoder:
    """A Nemotron-NAS decoder: each layer's attention and MLP as its entry of block_configs says."""
    entries = reader.items("block_configs")
    num_layers = reader.integer("num_hidden_layers")
    if entries is None or len(entries) != num_layers:
        raise reader.error(
            f"block_configs must describe each of the {num_layers} layers, but has "
            f"{'none' if entries is None else len(entries)}"
        )
    decoder = _uniform(reader, heads=_query_heads(reader))
    decoder.layers = [_block(reader, number, entry) for number, entry in enumerate(entries)]
    return decoder


def build_deci(reader: ConfigReader) -> Decoder:
    """A DeciLM-7B decoder: Llama's shape with a number of KV heads per layer."""
    counts = reader.integers("num_key_value_heads_per_layer")
    if counts is None:
        return build_dense(reader, _LLAMA)
    num_layers, query = reader.integer("num_hidden_layers"), _query_heads(reader)
    if len(counts) != num_layers:
        raise reader.error(
            f"num_key_value_heads_per_layer has {len(counts)} entries for {num_layers} layers; "
            "give one per layer"
        )
    decoder = _uniform(reader, heads=query)
    mlp, width = _mlp(reader, reader.integer("intermediate_size"))
    decoder.layers = [
        _layer(reader, _grouped(reader, query, count), mlp, width) for count in counts
    ]
    return decoder


def build_deepseek(reader: ConfigReader) -> Decoder:
    """A first-generation DeepSeek-MoE decoder: dense layers, then routed and shared experts."""
    decoder = build_dense(reader, _DEEPSEEK)
    num_experts = reader.optional_integer("n_routed_experts", minimum=0)
    if not num_experts:
        return decoder
    routed = _deepseek_experts(reader, decoder.hidden_size, num_experts)
    first = reader.integer("first_k_dense_replace", 0, minimum=0)
    period = reader.integer("moe_layer_freq", 1)
    decoder.layers = [
        with_experts(layer, routed) if number >= first and number % period == 0 else layer
        for number, layer in enumerate(decoder.layers)
    ]
    return decoder


_DEEPSEEK = replace(_LLAMA, mlp_bias=False)


@dataclass(frozen=True, slots=True)
class Experts:
    """What stands in the place of a layer's MLP."""

    tensors: tuple[Tensor, ...]
    width: int
    """Features of all experts one token passes through."""
    count: int
    chosen: int


def with_experts(layer: Layer, experts: Experts) -> Layer:
    """The layer with experts in the place of its MLP."""
    rest = tuple(tensor for tensor in layer.tensors if tensor.role is not Role.MLP)
    return layer.replace(
        tensors=(*rest, *experts.tensors),
        mlp_width=experts.width,
        num_experts=experts.count,
        experts_per_token=experts.chosen,
    )


def _chosen(reader: ConfigReader, num_experts: int) -> int:
    chosen = reader.integer("num_experts_per_tok")
    if chosen > num_experts:
        raise reader.error(
            f"num_experts_per_tok = {chosen} is more than the {num_experts} experts of a layer"
        )
    return chosen


def _deepseek_experts(reader: ConfigReader, hidden: int, num_experts: int) -> Experts:
    width = reader.integer("moe_intermediate_size")
    chosen = _chosen(reader, num_experts)
    num_shared = reader.optional_integer("n_shared_experts", minimum=0) or 0
    tensors = [
        *linear("mlp.gate", num_experts, hidden, Role.ROUTER),
        *gated_mlp("mlp.experts.*", hidden, width, Role.EXPERT, count=num_experts),
    ]
    if num_shared:
        shared = num_shared * width
        tensors += gated_mlp("mlp.shared_experts", hidden, shared, Role.SHARED_EXPERT)
    return Experts(tuple(tensors), (chosen + num_shared) * width, num_experts, chosen)


def build_minicpm(reader: ConfigReader) -> Decoder:
    """A MiniCPM decoder: Llama's shape with a tied head; some members have experts for the MLP."""
    decoder = build_dense(reader, replace(_DEEPSEEK, default_tied=True))
    num_experts = reader.optional_integer("num_experts", minimum=0)
    if not num_experts:
        return decoder
    hidden, width = decoder.hidden_size, reader.integer("intermediate_size")
    chosen = _chosen(reader, num_experts)
    tensors = linear("mlp.gate", num_experts, hidden, Role.ROUTER)
    for name, shape in (("w1", (width, hidden)), ("w2", (hidden, width)), ("w3", (width, hidden))):
        tensors += linear(f"mlp.experts.*.{name}", *shape, Role.EXPERT, count=num_experts)
    experts = Experts(tuple(tensors), chosen * width, num_experts, chosen)
    decoder.layers = [with_experts(layer, experts) for layer in decoder.layers]
    return decoder


def build_mimo(reader: ConfigReader) -> Decoder:
    """A MiMo decoder: Qwen2's shape, and layers that predict further tokens."""
    decoder = build_dense(reader, DenseRule(qkv_bias=reader.flag("attention_bias", True)))
    layer, hidden = decoder.layers[0], decoder.hidden_size
    own = (
        *norm("token_layernorm", hidden, "rms"),
        *norm("hidden_layernorm", hidden, "rms"),
        *linear("input_proj", hidden, 2 * hidden, Role.OTHER),
        *norm("final_layernorm", hidden, "rms"),
    )
    count = reader.optional_integer("num_nextn_predict_layers", minimum=0) or 0
    if count > _MAX_MTP_LAYERS:
        raise reader.error(
            f"num_nextn_predict_layers = {count} is out of range; allowed is 0 to {_MAX_MTP_LAYERS}"
        )
    decoder.mtp = [layer.replace(tensors=(*own, *layer.tensors))] * count
    return decoder


def _query_heads(reader: ConfigReader) -> Heads:
    """Query heads; the KV heads, which differ by layer, are still to be set."""
    whole = ConfigReader(
        {**reader.given, "num_key_value_heads": None}, reader.model_type, where=reader.where
    )
    return read_heads(whole, reader.integer("hidden_size"))


def _grouped(reader: ConfigReader, query: Heads, num_kv_heads: int) -> Heads:
    if num_kv_heads < 1 or query.num_heads % num_kv_heads:
        raise reader.error(
            f"num_attention_heads = {query.num_heads} is not a multiple of {num_kv_heads} heads of "
            "keys and values; correct one of them"
        )
    return replace(query, num_kv_heads=num_kv_heads)


def _uniform(reader: ConfigReader, *, heads: Heads) -> Decoder:
    """The tensors around the layers, from a Llama of the same hidden size and one plain layer."""
    given = {
        **reader.given,
        "num_hidden_layers": 1,
        "num_key_value_heads": heads.num_heads,
        "intermediate_size": _WIDTH_STEP,
    }
    return build_dense(ConfigReader(given, reader.model_type, where=reader.where), _LLAMA)


def _block(reader: ConfigReader, number: int, entry: object) -> Layer:
    where = f"{reader.where}: block_configs[{number}]"
    block = ConfigReader(entry if isinstance(entry, dict) else {}, "block", where=where)
    attention = ConfigReader(block.nested("attention"), "attention", where=f"{where}.attention")
    ffn = ConfigReader(block.nested("ffn"), "ffn", where=f"{where}.ffn")
    for part, names in ((attention, _UNKNOWN_ATTENTION), (ffn, _UNKNOWN_FFN)):
        for name in names:
            if part.given.get(name):
                raise part.error(
                    f"{name} is set, but such blocks are not known; known are "
                    "attention, gated MLP, linear and no_op"
                )
    mlp, width = _ffn(reader, ffn)
    if attention.flag("no_op"):
        return _layer(reader, None, mlp, width)
    if attention.flag("replace_with_linear"):
        hidden = reader.integer("hidden_size")
        replaced = linear("self_attn.linear_attn", hidden, hidden, Role.OTHER)
        return _layer(reader, None, (*_input_norm(hidden), *replaced, *mlp), width)
    query, size = _query_heads(reader), attention.integer("n_heads_in_group")
    if query.num_heads % size:
        raise attention.error(
            f"n_heads_in_group = {size} does not divide num_attention_heads = {query.num_heads}"
        )
    window = attention.optional_integer("window_length")
    if window is not None:
        window += attention.optional_integer("num_sink_tokens", minimum=0) or 0
    return _layer(reader, _grouped(reader, query, query.num_heads // size), mlp, width, window)


def _ffn(reader: ConfigReader, ffn: ConfigReader) -> tuple[tuple[Tensor, ...], int]:
    """(norm and feed-forward tensors of a block, width of its widest activation)."""
    hidden = reader.integer("hidden_size")
    if ffn.flag("no_op"):
        return (), 0
    if ffn.flag("replace_with_linear"):
        replaced = linear("mlp.linear_mlp", hidden, hidden, Role.MLP)
        return (*norm("post_attention_layernorm", hidden, "rms"), *replaced), hidden
    if not ffn.flag("gated", True):
        raise ffn.error("gated is false, but only gated MLPs are known")
    stated = ffn.optional_integer("intermediate_size")
    return _mlp(reader, stated or _width(ffn, hidden))


def _width(ffn: ConfigReader, hidden: int) -> int:
    """Two thirds of ``ffn_mult`` hidden sizes, rounded up to a multiple of 256."""
    multiple = ffn.number("ffn_mult", 0)
    if not 0 < multiple <= MAX_DIMENSION / hidden:
        raise ffn.error(
            f"ffn_mult = {multiple} is missing or out of range; it must be positive, such as 5.25"
        )
    return -(-int(2 * multiple * hidden / 3) // _WIDTH_STEP) * _WIDTH_STEP


def _mlp(reader: ConfigReader, width: int) -> tuple[tuple[Tensor, ...], int]:
    hidden = reader.integer("hidden_size")
    tensors = gated_mlp("mlp", hidden, width, bias=reader.flag("mlp_bias"))
    return (*norm("post_attention_layernorm", hidden, "rms"), *tensors), width


def _input_norm(hidden: int) -> list[Tensor]:
    return norm("input_layernorm", hidden, "rms")


def _layer(
    reader: ConfigReader,
    heads: Heads | None,
    rest: Sequence[Tensor],
    width: int,
    window: int | None = None,
) -> Layer:
    """A layer with these heads (none: without attention) and these other tensors."""
    gated = any(tensor.name.startswith("mlp.gate_proj") for tensor in rest)
    if heads is None:
        return Layer(tensors=tuple(rest), caches=(), mlp_width=width, mlp_gated=gated)
    hidden = reader.integer("hidden_size")
    attention = attention_tensors(reader, _LLAMA, hidden, heads)
    return Layer(
        tensors=(*_input_norm(hidden), *attention, *rest),
        caches=(heads.cache(window),),
        num_heads=heads.num_heads,
        head_dim=heads.head_dim,
        mlp_width=width,
        mlp_gated=gated,
    )
