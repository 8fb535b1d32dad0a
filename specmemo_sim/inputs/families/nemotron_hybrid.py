"""Nemotron-H: each layer is one block, a Mamba-2 mixer, attention, an MLP or a set of experts."""

from specmemo_sim.inputs.config_reader import ConfigReader
from specmemo_sim.inputs.families.parts import Decoder, linear, plain_mlp, vector
from specmemo_sim.inputs.families.recurrent_decoder import (
    PLAIN,
    attention_mixer,
    chosen_experts,
    hybrid_decoder,
)
from specmemo_sim.inputs.families.recurrent_parts import (
    FULL,
    LINEAR,
    MLP,
    MOE,
    FeedForward,
    Mixer,
    block_types,
    build_layer,
    mamba2_mixer,
    mamba2_sizes,
    norms,
)
from specmemo_sim.inputs.families.state_space import BACKBONE
from specmemo_sim.inputs.model import Layer, Role

_LETTERS = {"M": LINEAR, "E": MOE, "*": FULL, "-": MLP}


def build_nemotron_h(reader: ConfigReader) -> Decoder:
    """The decoder of ``nemotron_h``: each layer is one Mamba-2, attention, MLP or MoE block."""
    hidden = reader.integer("hidden_size")
    kinds = _nemotron_kinds(reader)
    blocks = {kind: _nemotron_block(reader, kind, hidden) for kind in dict.fromkeys(kinds)}
    if reader.optional_integer("num_nextn_predict_layers", minimum=0):
        reader.notes.append("the multi-token-prediction layers of nemotron_h are not counted")
    layers = [blocks[kind] for kind in kinds]
    return hybrid_decoder(reader, layers, hidden, names=BACKBONE)


def _nemotron_kinds(reader: ConfigReader) -> list[str]:
    pattern = reader.text("hybrid_override_pattern")
    unknown = sorted(set(pattern) - set(_LETTERS))
    if unknown:
        raise reader.error(
            f"hybrid_override_pattern has the letter {unknown[0]!r}; allowed are M (Mamba-2), "
            "* (attention), - (MLP) and E (experts)"
        )
    listed = reader.items("layers_block_type")
    if listed is None and not pattern:
        raise reader.error(
            "hybrid_override_pattern is missing; add it (one letter per layer) or layers_block_type"
        )
    default = [_LETTERS[letter] for letter in pattern]
    num_layers = len(listed) if listed is not None else len(default)
    stated = reader.given.get("num_hidden_layers")
    if stated not in (None, num_layers):
        reader.notes.append(
            f"num_hidden_layers = {str(stated)[:20]} is ignored: {num_layers} layers are listed"
        )
    return block_types(reader, num_layers, default, (LINEAR, MOE, FULL, MLP))


def _nemotron_block(reader: ConfigReader, kind: str, hidden: int) -> Layer:
    others = norms(hidden, "norm")
    if kind == LINEAR:
        return build_layer(_nemotron_mamba(reader, hidden), FeedForward(), others)
    if kind == FULL:
        attention = attention_mixer(reader, PLAIN, hidden, module="mixer")
        return build_layer(attention, FeedForward(), others)
    names = ("mixer.up_proj", "mixer.down_proj")
    if kind == MOE:
        return build_layer(Mixer(()), _nemotron_experts(reader, hidden), others)
    width = reader.integer("intermediate_size")
    tensors = plain_mlp(names, hidden, width, bias=reader.flag("mlp_bias"))
    return build_layer(Mixer(()), FeedForward(tuple(tensors), width, gated=False), others)


def _nemotron_mamba(reader: ConfigReader, hidden: int) -> Mixer:
    inner = reader.integer("mamba_num_heads") * reader.integer("mamba_head_dim")
    fields = {
        "num_heads": "mamba_num_heads",
        "head_dim": "mamba_head_dim",
        "groups": _given(reader, "mamba_n_groups", "n_groups"),
        "state": "ssm_state_size",
        "kernel": _given(reader, "mamba_d_conv", "conv_kernel"),
        "conv_bias": _given(reader, "mamba_conv_bias", "use_conv_bias"),
    }
    bias = reader.flag("use_bias")
    return mamba2_mixer("mixer", mamba2_sizes(reader, fields, hidden, inner=inner, in_bias=bias))


def _given(reader: ConfigReader, old: str, name: str) -> str:
    return old if reader.has(old) else name


def _nemotron_experts(reader: ConfigReader, hidden: int) -> FeedForward:
    num_experts = reader.integer("n_routed_experts")
    chosen = chosen_experts(reader, num_experts)
    width = reader.integer("moe_intermediate_size")
    shared = reader.integer("moe_shared_expert_intermediate_size")
    latent = reader.optional_integer("moe_latent_size")
    size, bias = latent or hidden, reader.flag("mlp_bias")
    names = ("mixer.shared_experts.up_proj", "mixer.shared_experts.down_proj")
    tensors = [
        *linear("mixer.gate", num_experts, hidden, Role.ROUTER),
        vector("mixer.gate.e_score_correction_bias", num_experts, Role.ROUTER, buffer=True),
        *linear("mixer.experts.*.up_proj", width, size, Role.EXPERT, count=num_experts),
        *linear("mixer.experts.*.down_proj", size, width, Role.EXPERT, count=num_experts),
        *plain_mlp(names, hidden, shared, Role.SHARED_EXPERT, bias=bias),
    ]
    if latent:
        tensors += linear("mixer.fc1_latent_proj", latent, hidden, Role.MLP, bias=bias)
        tensors += linear("mixer.fc2_latent_proj", hidden, latent, Role.MLP, bias=bias)
    return FeedForward(tuple(tensors), chosen * width + shared, False, num_experts, chosen)
