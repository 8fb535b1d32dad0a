"""Routed families with their own layout: nested configuration (DBRX), routed attention (JetMoe)."""

from specmemo_sim.inputs.config_reader import ConfigReader
from specmemo_sim.inputs.families.dense_rule import DenseRule, attention_tensors
from specmemo_sim.inputs.families.moe_blocks import (
    ExpertRule,
    MoeFrame,
    expert_sizes,
    framed,
    routed_part,
)
from specmemo_sim.inputs.families.parts import Decoder, Heads, linear, vector
from specmemo_sim.inputs.families.recurrent_decoder import mixer_of_heads
from specmemo_sim.inputs.families.recurrent_parts import build_layer
from specmemo_sim.inputs.model import Role

_DBRX = ExpertRule(
    num_experts="moe_num_experts",
    chosen="moe_top_k",
    width="ffn_hidden_size",
    router="ffn.router.layer",
    module="ffn.experts.mlp.*",
    projections=("w1", "v1", "w2"),
    suffix="",
)


def build_dbrx(reader: ConfigReader) -> Decoder:
    """The decoder of ``dbrx``; its checkpoint stacks the experts' matrices into one."""
    hidden = reader.integer("hidden_size")
    attention = ConfigReader(reader.nested("attn_config"), "dbrx attn_config", where=reader.where)
    experts = ConfigReader(reader.nested("ffn_config"), "dbrx ffn_config", where=reader.where)
    num_heads, num_kv_heads = reader.integer("num_attention_heads"), attention.integer("kv_n_heads")
    if hidden % num_heads or num_heads % num_kv_heads:
        raise reader.error(
            f"d_model = {hidden}, n_heads = {num_heads} and kv_n_heads = {num_kv_heads} do not "
            "divide each other in this order; correct one of them"
        )
    heads = Heads(num_heads, num_kv_heads, hidden // num_heads, hidden // num_heads)
    rule = DenseRule(
        fused_qkv="norm_attn_norm.attn.Wqkv",
        output_name="norm_attn_norm.attn.out_proj",
        layer_norms=("norm_attn_norm.norm_1", "norm_attn_norm.norm_2"),
    )
    frame = MoeFrame(
        rule,
        embedding="transformer.wte",
        prefix="transformer.blocks",
        final_norm="transformer.norm_f",
    )
    layer = build_layer(
        mixer_of_heads(attention_tensors(reader, rule, hidden, heads), heads),
        routed_part(_DBRX, hidden, expert_sizes(experts, _DBRX)),
        frame.norms(hidden),
    )
    return framed(reader, frame, [layer] * reader.integer("num_hidden_layers"), hidden)


_JETMOE = ExpertRule(
    num_experts="num_local_experts",
    width="intermediate_size",
    router="mlp.router.layer",
    module="mlp",
    projections=("input_linear.*", "output_linear.*"),
)


def build_jetmoe(reader: ConfigReader) -> Decoder:
    """The decoder of ``jetmoe``: query and output projections are experts too."""
    hidden = reader.integer("hidden_size")
    num_kv_heads, head_dim = reader.integer("num_key_value_heads"), reader.integer("kv_channels")
    experts = expert_sizes(reader, _JETMOE)
    # Each chosen expert brings one query head per KV head.
    heads = Heads(num_kv_heads * experts.chosen, num_kv_heads, head_dim, head_dim)
    module = "self_attention.experts"
    count, size = experts.num_experts, heads.key_size
    attention = [
        *linear(f"{module}.router.layer", count, hidden, Role.ROUTER),
        *linear(f"{module}.input_linear.*", size, hidden, Role.EXPERT, count=count),
        *linear(f"{module}.output_linear.*", hidden, size, Role.EXPERT, count=count),
        vector(f"{module}.bias", hidden, Role.ATTENTION),
        *linear("self_attention.kv_proj", 2 * size, hidden, Role.ATTENTION),
    ]
    rule = DenseRule(default_tied=True)
    frame = MoeFrame(rule)
    layer = build_layer(
        mixer_of_heads(attention, heads),
        routed_part(_JETMOE, hidden, experts),
        [*frame.norms(hidden), vector("mlp.bias", hidden, Role.MLP)],
    )
    return framed(reader, frame, [layer] * reader.integer("num_hidden_layers"), hidden)
