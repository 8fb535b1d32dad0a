"""Hybrids of gated delta nets and softmax attention: Qwen3-Next, Qwen3.5 and OLMo Hybrid."""

from specmemo_sim.inputs.config_reader import ConfigReader
from specmemo_sim.inputs.families.dense_rule import DenseRule
from specmemo_sim.inputs.families.parts import (
    Decoder,
    gated_mlp,
    linear,
    norm,
    read_heads,
    vector,
)
from specmemo_sim.inputs.families.recurrent_decoder import (
    attention_mixer,
    chosen_experts,
    hybrid_decoder,
    mixer_of_heads,
)
from specmemo_sim.inputs.families.recurrent_parts import (
    FULL,
    LINEAR,
    DeltaSizes,
    FeedForward,
    Mixer,
    block_types,
    build_layer,
    dense_feed_forward,
    depthwise_conv,
    norms,
)
from specmemo_sim.inputs.model import Layer, Role, Tensor

_NORMS = ("input_layernorm", "post_attention_layernorm")
_MAX_DRAFT_LAYERS = 64
_MTP_FIELDS = {"qwen3_next": "num_nextn_predict_layers"}


def build_qwen(reader: ConfigReader) -> Decoder:
    """The decoder of ``qwen3_next``, ``qwen3_5_text`` and ``qwen3_5_moe_text``."""
    hidden = reader.integer("hidden_size")
    num_layers = reader.integer("num_hidden_layers")
    interval = reader.integer("full_attention_interval", 4)
    default = [LINEAR if (n + 1) % interval else FULL for n in range(num_layers)]
    kinds = block_types(reader, num_layers, default, (LINEAR, FULL))
    mixers = {LINEAR: _qwen_delta_net(reader, hidden), FULL: _gated_attention(reader, hidden)}
    parts = [_qwen_feed_forward(reader, hidden, number) for number in range(num_layers)]
    others = norms(hidden, *_NORMS)
    layers = [
        build_layer(mixers[kind], part, others) for kind, part in zip(kinds, parts, strict=True)
    ]
    decoder = hybrid_decoder(reader, layers, hidden)
    draft = build_layer(mixers[FULL], _qwen_feed_forward(reader, hidden, None), others)
    decoder.mtp = _multi_token_layers(reader, draft, hidden)
    return decoder


def _gated_attention(reader: ConfigReader, hidden: int) -> Mixer:
    """Attention whose query projection also makes a gate for every output feature."""
    heads = read_heads(reader, hidden)
    bias = reader.flag("attention_bias")
    tensors = [
        *linear("self_attn.q_proj", 2 * heads.query_size, hidden, Role.ATTENTION, bias=bias),
        *linear("self_attn.k_proj", heads.key_size, hidden, Role.ATTENTION, bias=bias),
        *linear("self_attn.v_proj", heads.value_size, hidden, Role.ATTENTION, bias=bias),
        *linear("self_attn.o_proj", hidden, heads.output_size, Role.ATTENTION, bias=bias),
        *norm("self_attn.q_norm", heads.head_dim, "rms"),
        *norm("self_attn.k_norm", heads.head_dim, "rms"),
    ]
    return mixer_of_heads(tensors, heads)


def _qwen_delta_net(reader: ConfigReader, hidden: int) -> Mixer:
    sizes = _delta_sizes(reader)
    keys, values, heads = sizes.key_size, sizes.value_size, sizes.num_value_heads
    if reader.model_type == "qwen3_next":
        outputs = {"in_proj_qkvz": 2 * keys + 2 * values, "in_proj_ba": 2 * heads}
    else:
        outputs = {
            "in_proj_qkv": 2 * keys + values,
            "in_proj_z": values,
            "in_proj_b": heads,
            "in_proj_a": heads,
        }
    tensors = [
        *depthwise_conv("linear_attn.conv1d", 2 * keys + values, sizes.kernel, bias=False),
        *_projections(outputs, hidden),
        vector("linear_attn.dt_bias", heads, Role.RECURRENT),
        vector("linear_attn.A_log", heads, Role.RECURRENT),
        *norm("linear_attn.norm", sizes.value_head_dim, "rms"),
        *linear("linear_attn.out_proj", hidden, values, Role.RECURRENT),
    ]
    return Mixer(tuple(tensors), (sizes.cache(),))


def _projections(outputs: dict[str, int], hidden: int) -> list[Tensor]:
    return [
        tensor
        for name, size in outputs.items()
        for tensor in linear(f"linear_attn.{name}", size, hidden, Role.RECURRENT)
    ]


def _delta_sizes(reader: ConfigReader) -> DeltaSizes:
    key_heads = reader.integer("linear_num_key_heads")
    value_heads = reader.integer("linear_num_value_heads")
    if value_heads % key_heads:
        raise reader.error(
            f"linear_num_value_heads = {value_heads} is not a multiple of "
            f"linear_num_key_heads = {key_heads}; correct one of them"
        )
    return DeltaSizes(
        num_key_heads=key_heads,
        num_value_heads=value_heads,
        key_head_dim=reader.integer("linear_key_head_dim"),
        value_head_dim=reader.integer("linear_value_head_dim"),
        kernel=reader.integer("linear_conv_kernel_dim"),
    )


def _qwen_feed_forward(reader: ConfigReader, hidden: int, number: int | None) -> FeedForward:
    """The feed-forward part of layer ``number``; of a draft layer when None."""
    if not _is_sparse(reader, number):
        return dense_feed_forward("mlp", hidden, reader.integer("intermediate_size"))
    num_experts = reader.integer("num_experts")
    chosen = chosen_experts(reader, num_experts)
    width = reader.integer("moe_intermediate_size")
    shared = reader.integer("shared_expert_intermediate_size")
    tensors = [
        *linear("mlp.gate", num_experts, hidden, Role.ROUTER),
        *gated_mlp("mlp.experts.*", hidden, width, Role.EXPERT, count=num_experts),
        *gated_mlp("mlp.shared_expert", hidden, shared, Role.SHARED_EXPERT),
        *linear("mlp.shared_expert_gate", 1, hidden, Role.ROUTER),
    ]
    return FeedForward(tuple(tensors), chosen * width + shared, True, num_experts, chosen)


def _is_sparse(reader: ConfigReader, number: int | None) -> bool:
    if reader.model_type == "qwen3_5_text":
        return False
    if reader.model_type == "qwen3_5_moe_text":
        return True
    if reader.integer("num_experts", 0, minimum=0) == 0:
        return False
    dense = reader.integers("mlp_only_layers") or ()
    step = reader.integer("decoder_sparse_step", 1)
    return number is None or (number not in dense and (number + 1) % step == 0)


def _multi_token_layers(reader: ConfigReader, draft: Layer, hidden: int) -> list[Layer]:
    """The draft layers of the checkpoint; the first one carries the projection before them.

    Source: names and shapes of the ``mtp.`` tensors that vLLM's qwen3_next_mtp model loads.
    """
    field = _MTP_FIELDS.get(reader.model_type, "mtp_num_hidden_layers")
    count = reader.optional_integer(field, minimum=0)
    if count is None and reader.model_type == "qwen3_next":
        reader.notes.append(
            f"{field} is not given, so a multi-token-prediction layer is not counted"
        )
    if not count:
        return []
    if count > _MAX_DRAFT_LAYERS:
        raise reader.error(
            f"{field} = {count} is out of range; allowed is 0 to {_MAX_DRAFT_LAYERS}"
        )
    if reader.flag("mtp_use_dedicated_embeddings"):
        reader.notes.append(
            "the multi-token-prediction layers have embeddings of their own and are not counted"
        )
        return []
    entry = [
        *linear("fc", hidden, 2 * hidden, Role.OTHER),
        *norms(hidden, "pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm"),
    ]
    first = draft.replace(tensors=(*draft.tensors, *entry))
    return [first, *([draft] * (count - 1))]


_OLMO = DenseRule(qkv_bias="attention_bias", output_bias="attention_bias", qk_norm="projection")


def build_olmo_hybrid(reader: ConfigReader) -> Decoder:
    """The decoder of ``olmo_hybrid``: norms after attention, before a delta net."""
    hidden = reader.integer("hidden_size")
    num_layers = reader.integer("num_hidden_layers")
    default = [FULL if n % 4 == 3 else LINEAR for n in range(num_layers)]
    if FULL not in default:
        default[-1] = FULL
    kinds = block_types(reader, num_layers, default, (LINEAR, FULL))
    mlp = dense_feed_forward("mlp", hidden, reader.integer("intermediate_size"))
    after = norms(hidden, "post_attention_layernorm", "post_feedforward_layernorm")
    before = norms(hidden, "attention_layer_norm", "feedforward_layer_norm")
    blocks = {
        LINEAR: build_layer(_olmo_delta_net(reader, hidden), mlp, before),
        FULL: build_layer(attention_mixer(reader, _OLMO, hidden), mlp, after),
    }
    return hybrid_decoder(reader, [blocks[kind] for kind in kinds], hidden)


def _olmo_delta_net(reader: ConfigReader, hidden: int) -> Mixer:
    num_heads = reader.integer("num_attention_heads")
    key_heads = reader.integer("linear_num_key_heads", num_heads)
    key_dim = reader.integer("linear_key_head_dim", max(1, int(0.75 * hidden / key_heads)))
    sizes = DeltaSizes(
        num_key_heads=key_heads,
        num_value_heads=reader.integer("linear_num_value_heads", num_heads),
        key_head_dim=key_dim,
        value_head_dim=reader.integer("linear_value_head_dim", 2 * key_dim),
        kernel=reader.integer("linear_conv_kernel_dim"),
    )
    keys, values, heads = sizes.key_size, sizes.value_size, sizes.num_value_heads
    outputs = {"q_proj": keys, "k_proj": keys, "v_proj": values, "g_proj": values}
    tensors = [
        *_projections({**outputs, "a_proj": heads, "b_proj": heads}, hidden),
        *depthwise_conv("linear_attn.q_conv1d", keys, sizes.kernel, bias=False),
        *depthwise_conv("linear_attn.k_conv1d", keys, sizes.kernel, bias=False),
        *depthwise_conv("linear_attn.v_conv1d", values, sizes.kernel, bias=False),
        vector("linear_attn.A_log", heads, Role.RECURRENT),
        vector("linear_attn.dt_bias", heads, Role.RECURRENT),
        *norm("linear_attn.o_norm", sizes.value_head_dim, "rms"),
        *linear("linear_attn.o_proj", hidden, values, Role.RECURRENT),
    ]
    return Mixer(tuple(tensors), (sizes.cache(),))
