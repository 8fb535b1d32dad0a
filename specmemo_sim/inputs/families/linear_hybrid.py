"""Hybrids with lightning or Kimi delta attention: MiniMax (Text-01, M1) and Kimi Linear."""

from specmemo_sim.inputs.config_reader import ConfigReader
from specmemo_sim.inputs.families.latent import latent_attention
from specmemo_sim.inputs.families.moe_blocks import stated_sparse
from specmemo_sim.inputs.families.parts import (
    Decoder,
    gated_mlp,
    linear,
    norm,
    read_heads,
    vector,
)
from specmemo_sim.inputs.families.recurrent_decoder import (
    PLAIN,
    attention_mixer,
    chosen_experts,
    hybrid_decoder,
)
from specmemo_sim.inputs.families.recurrent_parts import (
    FULL,
    LINEAR,
    FeedForward,
    Mixer,
    block_types,
    build_layer,
    dense_feed_forward,
    depthwise_conv,
    gated_block,
    norms,
    recurrent_state,
)
from specmemo_sim.inputs.model import Role, StateCache, Tensor

_NORMS = ("input_layernorm", "post_attention_layernorm")
_MOE = "block_sparse_moe"
_EXPERT_NAMES = (f"{_MOE}.experts.*.w1", f"{_MOE}.experts.*.w3", f"{_MOE}.experts.*.w2")


def build_minimax(reader: ConfigReader) -> Decoder:
    """The decoder of ``minimax`` and of its first checkpoints, ``minimax_text_01`` and ``_m1``."""
    hidden = reader.integer("hidden_size")
    num_layers = reader.integer("num_hidden_layers")
    kinds = block_types(reader, num_layers, _minimax_default(reader, num_layers), (LINEAR, FULL))
    window = reader.optional_integer("sliding_window", minimum=0) or None
    mixers = {
        LINEAR: _lightning(reader, hidden),
        FULL: attention_mixer(reader, PLAIN, hidden, window=window),
    }
    num_experts = reader.integer("num_local_experts")
    chosen = chosen_experts(reader, num_experts)
    width = reader.integer("intermediate_size")
    tensors = [
        *linear(f"{_MOE}.gate", num_experts, hidden, Role.ROUTER),
        *gated_block(_EXPERT_NAMES, hidden, width, Role.EXPERT, count=num_experts),
    ]
    experts = FeedForward(tuple(tensors), chosen * width, True, num_experts, chosen)
    layers = [build_layer(mixers[kind], experts, norms(hidden, *_NORMS)) for kind in kinds]
    if reader.integer("shared_intermediate_size", 0, minimum=0):
        reader.notes.append("shared_intermediate_size: shared experts of MiniMax are not counted")
    return hybrid_decoder(reader, layers, hidden)


def _minimax_default(reader: ConfigReader, num_layers: int) -> list[str]:
    numbered = reader.integers("attn_type_list")
    if numbered is None:
        return [FULL if (n + 1) % 2 else LINEAR for n in range(num_layers)]
    if len(numbered) != num_layers or not set(numbered) <= {0, 1}:
        raise reader.error(
            f"attn_type_list must give 0 (lightning) or 1 (softmax) for each of {num_layers} layers"
        )
    return [FULL if kind else LINEAR for kind in numbered]


def _lightning(reader: ConfigReader, hidden: int) -> Mixer:
    """Linear attention with one key by value matrix per head, kept in the model's type.

    Source: Qin et al. 2024, arXiv:2405.17381; the state's type is that of transformers 5.24.
    """
    heads = read_heads(reader, hidden)
    size = heads.query_size
    tensors = [
        *linear("self_attn.qkv_proj", 3 * size, hidden, Role.RECURRENT),
        *linear("self_attn.output_gate", size, hidden, Role.RECURRENT),
        *norm("self_attn.norm", size, "rms"),
        *linear("self_attn.out_proj", hidden, size, Role.RECURRENT),
    ]
    state = StateCache(conv_elements=0, state_elements=size * heads.head_dim)
    return Mixer(tuple(tensors), (state,))


def build_kimi_linear(reader: ConfigReader) -> Decoder:
    """The decoder of ``kimi_linear``: delta attention layers, latent attention in between."""
    hidden = reader.integer("hidden_size")
    num_layers = reader.integer("num_hidden_layers")
    kinds = block_types(reader, num_layers, _kimi_default(reader, num_layers), (LINEAR, FULL))
    mixers = {LINEAR: _kimi_delta(reader, hidden), FULL: latent_attention(reader, hidden)}
    dense = dense_feed_forward("mlp", hidden, reader.integer("intermediate_size"))
    sparse = _kimi_experts(reader, hidden)
    others = norms(hidden, *_NORMS)
    layers = [
        build_layer(mixers[kind], sparse if routed else dense, others)
        for kind, routed in zip(kinds, _kimi_routed(reader, num_layers), strict=True)
    ]
    return hybrid_decoder(reader, layers, hidden)


def _kimi_default(reader: ConfigReader, num_layers: int) -> list[str]:
    """Kinds from the 1-based lists of ``linear_attn_config``, else every fourth layer is full."""
    nested = ConfigReader(reader.nested("linear_attn_config"), "", where=reader.where)
    full, delta = nested.integers("full_attn_layers"), nested.integers("kda_layers")
    if full is None or delta is None:
        return [FULL if n and n % 4 == 0 else LINEAR for n in range(num_layers)]
    if sorted(full + delta) != list(range(1, num_layers + 1)):
        raise reader.error(
            "linear_attn_config must list each layer from 1 to "
            f"{num_layers} once, in full_attn_layers or in kda_layers"
        )
    return [FULL if n + 1 in full else LINEAR for n in range(num_layers)]


def _kimi_routed(reader: ConfigReader, num_layers: int) -> list[bool]:
    stated = stated_sparse(reader, num_layers)
    if stated is not None:
        return stated
    first = reader.integer("first_k_dense_replace", 1, minimum=0)
    return [n >= first for n in range(num_layers)]


def _kimi_delta(reader: ConfigReader, hidden: int) -> Mixer:
    """Delta attention with a gate per key feature. Source: Kimi team 2025, arXiv:2510.26692."""
    nested = ConfigReader(reader.nested("linear_attn_config"), "", where=reader.where)
    heads = nested.optional_integer("num_heads") or reader.integer("linear_num_heads")
    size = nested.optional_integer("head_dim") or reader.integer("linear_head_dim")
    stated_kernel = nested.optional_integer("short_conv_kernel_size")
    kernel = stated_kernel or reader.integer("linear_conv_kernel_dim")
    total = heads * size
    shapes = {
        "q_proj": (total, hidden),
        "k_proj": (total, hidden),
        "v_proj": (total, hidden),
        "f_a_proj": (size, hidden),
        "f_b_proj": (total, size),
        "b_proj": (heads, hidden),
        "g_a_proj": (size, hidden),
        "g_b_proj": (total, size),
        "o_proj": (hidden, total),
    }
    tensors = [
        tensor
        for name, (outputs, inputs) in shapes.items()
        for tensor in linear(f"self_attn.{name}", outputs, inputs, Role.RECURRENT)
    ]
    for letter in "qkv":
        tensors += depthwise_conv(f"self_attn.{letter}_conv1d", total, kernel, bias=False)
    tensors += [
        Tensor(name="self_attn.A_log", shape=(1, 1, heads, 1), role=Role.RECURRENT),
        vector("self_attn.dt_bias", total, Role.RECURRENT),
        *norm("self_attn.o_norm", size, "rms"),
    ]
    return Mixer(tuple(tensors), (recurrent_state(3 * total, kernel, total * size),))


def _kimi_experts(reader: ConfigReader, hidden: int) -> FeedForward:
    num_experts = reader.integer("num_local_experts")
    chosen = chosen_experts(reader, num_experts)
    width = reader.integer("moe_intermediate_size")
    shared = width * reader.integer("n_shared_experts")
    tensors = [
        *linear(f"{_MOE}.gate", num_experts, hidden, Role.ROUTER),
        vector(f"{_MOE}.gate.e_score_correction_bias", num_experts, Role.ROUTER, buffer=True),
        *gated_block(_EXPERT_NAMES, hidden, width, Role.EXPERT, count=num_experts),
        *gated_mlp(f"{_MOE}.shared_experts", hidden, shared, Role.SHARED_EXPERT),
    ]
    return FeedForward(tuple(tensors), chosen * width + shared, True, num_experts, chosen)
