"""Decoders with routed experts and ordinary attention, described by one table row per family."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from specmemo_sim.inputs.config_reader import ConfigReader
from specmemo_sim.inputs.families.dense_rule import DenseRule, Switch, attention_tensors, switched
from specmemo_sim.inputs.families.moe_blocks import (
    MIXTRAL,
    ExpertRule,
    MoeFrame,
    Selector,
    dense_first,
    every_layer,
    expert_sizes,
    framed,
    has_experts,
    routed_part,
    sparse_range,
    sparse_step,
)
from specmemo_sim.inputs.families.moe_special import build_dbrx, build_jetmoe
from specmemo_sim.inputs.families.moe_uneven import build_hunyuan, build_llama4, build_mimo_v2
from specmemo_sim.inputs.families.mtp import deepseek_mtp, note_uncounted_mtp
from specmemo_sim.inputs.families.parts import Decoder, Heads, linear, read_heads, vector
from specmemo_sim.inputs.families.recurrent_decoder import mixer_of_heads
from specmemo_sim.inputs.families.recurrent_parts import (
    FeedForward,
    build_layer,
    dense_feed_forward,
)
from specmemo_sim.inputs.families.windows import attention_windows
from specmemo_sim.inputs.model import Role, Tensor


@dataclass(frozen=True, slots=True)
class MoeRule:
    """How one family of routed models differs from Mixtral."""

    attention: DenseRule
    experts: ExpertRule
    sparse: Selector = every_layer
    mlp_bias: Switch = False
    """Bias of dense and of shared feed-forward parts."""
    head_bias: Switch = False
    extra: Callable[[Heads, int], list[Tensor]] | None = None
    """Further attention tensors, from (heads, hidden size)."""
    mtp: bool = False
    """Whether stated multi-token-prediction layers are DeepSeek-V3's."""
    embedding: str = "model.embed_tokens"


def _sinks(heads: Heads, hidden: int) -> list[Tensor]:
    return [vector("self_attn.sinks", heads.num_heads, Role.ATTENTION)]


def _output_gate(heads: Heads, hidden: int) -> list[Tensor]:
    return linear("self_attn.gate_proj", heads.query_size, hidden, Role.ATTENTION)


_BIAS = "attention_bias"
_PLAIN = DenseRule()
_BIASED = DenseRule(qkv_bias=_BIAS, output_bias=_BIAS)
_HEAD_NORM = replace(_BIASED, qk_norm="head")
_QKV_BIASED = DenseRule(qkv_bias=_BIAS)

_MIXTRAL = ExpertRule(
    num_experts="num_local_experts",
    width="intermediate_size",
    router="block_sparse_moe.gate",
    module="block_sparse_moe.experts.*",
    projections=MIXTRAL,
)
_QWEN = ExpertRule()
_GLM = ExpertRule(
    num_experts="n_routed_experts",
    correction="mlp.gate.e_score_correction_bias",
    shared="mlp.shared_experts",
    shared_count="n_shared_experts",
)
_GRANITE = ExpertRule(
    num_experts="num_local_experts",
    width="intermediate_size",
    router="block_sparse_moe.router.layer",
    module="block_sparse_moe",
    projections=("input_linear.*", "output_linear.*"),
)
_GLM_MOE = MoeRule(
    replace(_QKV_BIASED, qk_norm="head", qk_norm_if="use_qk_norm"), _GLM, dense_first(), mtp=True
)

_TABLE: dict[str, MoeRule] = {
    "mixtral": MoeRule(_PLAIN, _MIXTRAL),
    "phimoe": MoeRule(replace(_BIASED, norm="layer"), _MIXTRAL, head_bias="lm_head_bias"),
    "minimax_m2": MoeRule(
        replace(_PLAIN, qk_norm="projection"),
        replace(_MIXTRAL, correction="block_sparse_moe.e_score_correction_bias"),
    ),
    "qwen2_moe": MoeRule(
        DenseRule(qkv_bias="qkv_bias"),
        replace(
            _QWEN,
            shared="mlp.shared_expert",
            shared_width="shared_expert_intermediate_size",
            shared_gate="mlp.shared_expert_gate",
        ),
        sparse_step,
    ),
    "qwen3_moe": MoeRule(_HEAD_NORM, _QWEN, sparse_step),
    "mellum": MoeRule(_HEAD_NORM, _QWEN, dense_first(0)),
    "gpt_oss": MoeRule(
        _BIASED,
        replace(
            _QWEN,
            num_experts="num_local_experts",
            width="intermediate_size",
            router="mlp.router",
            router_bias=True,
            projections=("gate_up_proj", "down_proj"),
            suffix="",
            bias_suffix="_bias",
        ),
        extra=_sinks,
    ),
    "olmoe": MoeRule(
        replace(_BIASED, qk_norm="projection"), replace(_QWEN, width="intermediate_size")
    ),
    "flex_olmo": MoeRule(
        replace(
            _BIASED,
            qk_norm="projection",
            layer_norms=("post_attention_layernorm", "post_feedforward_layernorm"),
        ),
        replace(_QWEN, width="intermediate_size"),
    ),
    "granitemoe": MoeRule(_BIASED, _GRANITE),
    "granitemoeshared": MoeRule(
        _BIASED,
        replace(
            _GRANITE,
            shared="shared_mlp",
            shared_width="shared_intermediate_size",
            shared_fused=("input_linear", "output_linear"),
        ),
    ),
    "glm4_moe": _GLM_MOE,
    "glm4v_moe_text": replace(_GLM_MOE, attention=_QKV_BIASED, mtp=False),
    "sarvam_moe": MoeRule(
        DenseRule(
            fused_qkv="attention.query_key_value",
            qkv_bias=_BIAS,
            output_name="attention.dense",
            qk_norm="head",
            qk_norm_if="use_qk_norm",
            qk_norm_names=("attention.query_layernorm", "attention.key_layernorm"),
        ),
        replace(_GLM, correction="mlp.gate.expert_bias"),
        dense_first(),
        embedding="model.word_embeddings",
    ),
    "bailing_moe": MoeRule(
        DenseRule(
            fused_qkv="attention.query_key_value",
            qkv_bias="use_qkv_bias",
            output_name="attention.dense",
            output_bias="use_bias",
        ),
        replace(_QWEN, shared="mlp.shared_experts", shared_count="num_shared_experts"),
        dense_first(0),
        embedding="model.word_embeddings",
    ),
    "dots1": MoeRule(_HEAD_NORM, _GLM, dense_first()),
    "solar_open": MoeRule(_QKV_BIASED, _GLM),
    "ernie4_5_moe": MoeRule(
        DenseRule(qkv_bias="use_bias", output_bias="use_bias", default_tied=True),
        replace(
            _QWEN,
            num_experts="moe_num_experts",
            chosen="moe_k",
            correction="mlp.moe_statics.e_score_correction_bias",
            correction_rank=2,
            correction_buffer=False,
            shared="mlp.shared_experts",
            shared_count="moe_num_shared_experts",
        ),
        sparse_range,
        mlp_bias="use_bias",
        head_bias="use_bias",
    ),
    "exaone_moe": MoeRule(
        replace(_PLAIN, qk_norm="head"),
        replace(
            _GLM,
            num_experts="num_experts",
            shared_count="num_shared_experts",
            correction="mlp.e_score_correction_bias",
        ),
        dense_first(),
    ),
    "afmoe": MoeRule(
        replace(
            _HEAD_NORM,
            layer_norms=(
                "input_layernorm",
                "post_attention_layernorm",
                "pre_mlp_layernorm",
                "post_mlp_layernorm",
            ),
        ),
        replace(
            _GLM,
            num_experts="num_experts",
            shared_count="num_shared_experts",
            router="mlp.router.gate",
            correction="mlp.expert_bias",
            correction_buffer=False,
        ),
        dense_first(field="num_dense_layers"),
        extra=_output_gate,
    ),
    "hy_v3": MoeRule(
        _HEAD_NORM,
        replace(
            _GLM,
            num_experts="num_experts",
            shared="mlp.shared_mlp",
            shared_count="num_shared_experts",
            router="mlp.router.gate",
            correction="mlp.expert_bias",
        ),
        dense_first(1),
        mlp_bias="mlp_bias",
    ),
}


def build_moe(rule: MoeRule, reader: ConfigReader) -> Decoder:
    """The decoder of a family listed in the table."""
    hidden = reader.integer("hidden_size")
    num_layers = reader.integer("num_hidden_layers")
    heads = read_heads(reader, hidden)
    attention = attention_tensors(reader, rule.attention, hidden, heads)
    if rule.extra:
        attention += rule.extra(heads, hidden)
    routed = has_experts(reader, rule.experts)
    sparse = rule.sparse(reader, num_layers) if routed else [False] * num_layers
    parts = _feed_forward_parts(rule, reader, hidden, sparse)
    frame = MoeFrame(rule.attention, rule.head_bias, rule.embedding)
    windows = attention_windows(reader, num_layers)
    layers = [
        build_layer(mixer_of_heads(attention, heads, window), parts[kind], frame.norms(hidden))
        for window, kind in zip(windows, sparse, strict=True)
    ]
    decoder = framed(reader, frame, layers, hidden)
    if rule.mtp:
        decoder.mtp = deepseek_mtp(reader, layers[-1], hidden, decoder.vocab_size)
    else:
        note_uncounted_mtp(reader)
    return decoder


def _feed_forward_parts(
    rule: MoeRule, reader: ConfigReader, hidden: int, sparse: list[bool]
) -> dict[bool, FeedForward]:
    """The kinds of feed-forward part that occur, by whether they have experts."""
    bias = switched(reader, rule.mlp_bias)
    parts = {}
    if not all(sparse):
        width = reader.integer("intermediate_size")
        parts[False] = dense_feed_forward("mlp", hidden, width, bias=bias)
    if any(sparse):
        sizes = expert_sizes(reader, rule.experts, bias=bias)
        parts[True] = routed_part(rule.experts, hidden, sizes)
    return parts


MOE_RULES: dict[str, Callable[[ConfigReader], Decoder]] = {
    **{name: partial(build_moe, rule) for name, rule in _TABLE.items()},
    "dbrx": build_dbrx,
    "llama4_text": build_llama4,
    "jetmoe": build_jetmoe,
    "hunyuan_v1_moe": build_hunyuan,
    "mimo_v2_flash": build_mimo_v2,
}
"""Rule of each family with routed experts, by ``model_type``."""
