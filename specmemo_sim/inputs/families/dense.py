"""Dense decoders with separate or fused projections, described by one table row per family."""

from dataclasses import replace
from typing import Any

from specmemo_sim.inputs.config_reader import ConfigReader
from specmemo_sim.inputs.families.dense_rule import (
    DenseRule,
    attention_tensors,
    layer_norm_tensors,
    switched,
)
from specmemo_sim.inputs.families.parts import (
    Decoder,
    embedding,
    gated_mlp,
    linear,
    lm_head,
    norm,
    plain_mlp,
    read_heads,
    vector,
    vocabulary,
)
from specmemo_sim.inputs.families.windows import attention_windows
from specmemo_sim.inputs.model import Layer, Role, Tensor


def _bitnet_norms(reader: ConfigReader, hidden: int, width: int) -> list[Tensor]:
    return [
        *norm("self_attn.attn_sub_norm", hidden, "rms"),
        *norm("mlp.ffn_sub_norm", width, "rms"),
    ]


def _xielu(reader: ConfigReader, hidden: int, width: int) -> list[Tensor]:
    if reader.text("hidden_act") != "xielu":
        return []
    return [vector("mlp.act_fn.alpha_p", 1), vector("mlp.act_fn.alpha_n", 1)]


_SANDWICH = (
    "input_layernorm",
    "post_attention_layernorm",
    "pre_feedforward_layernorm",
    "post_feedforward_layernorm",
)
_POST_ONLY = ("post_attention_layernorm", "post_feedforward_layernorm")
_ATTENTION_BIAS: dict[str, Any] = {"qkv_bias": "attention_bias", "output_bias": "attention_bias"}
_GEMMA = DenseRule(**_ATTENTION_BIAS, default_tied=True)
_MISTRAL = DenseRule()
_LLAMA = DenseRule(**_ATTENTION_BIAS, mlp_bias="mlp_bias")
_QWEN2 = DenseRule(qkv_bias=True)
_OLMO2 = DenseRule(**_ATTENTION_BIAS, layer_norms=_POST_ONLY, qk_norm="projection")
_GLM4V = DenseRule(
    qkv_bias=True,
    fused_gate_up=True,
    layer_norms=(
        "input_layernorm",
        "post_attention_layernorm",
        "post_self_attn_layernorm",
        "post_mlp_layernorm",
    ),
)

DENSE_RULES: dict[str, DenseRule] = {
    "llama": _LLAMA,
    "granite": _LLAMA,
    "smollm3": _LLAMA,
    "mistral": _MISTRAL,
    "ministral": _MISTRAL,
    "ministral3": _MISTRAL,
    "cwm": DenseRule(mlp_bias="mlp_bias"),
    "qwen2": _QWEN2,
    "qwen3": DenseRule(**_ATTENTION_BIAS, qk_norm="head"),
    "gemma": _GEMMA,
    "gemma2": DenseRule(**_ATTENTION_BIAS, default_tied=True, layer_norms=_SANDWICH),
    "gemma3_text": DenseRule(
        **_ATTENTION_BIAS, default_tied=True, layer_norms=_SANDWICH, qk_norm="head"
    ),
    "vaultgemma": DenseRule(
        **_ATTENTION_BIAS,
        default_tied=True,
        layer_norms=("input_layernorm", "pre_feedforward_layernorm"),
    ),
    "phi": DenseRule(
        norm="layer",
        layer_norms=("input_layernorm",),
        final_norm="model.final_layernorm",
        qkv_bias=True,
        output_bias=True,
        output_name="self_attn.dense",
        qk_norm="head",
        qk_norm_if="qk_layernorm",
        qk_norm_names=("self_attn.q_layernorm", "self_attn.k_layernorm"),
        qk_norm_kind="layer",
        plain_mlp=("mlp.fc1", "mlp.fc2"),
        mlp_bias=True,
        head_bias=True,
    ),
    "phi3": DenseRule(fused_qkv="self_attn.qkv_proj", fused_gate_up=True),
    "starcoder2": DenseRule(
        norm="layer",
        qkv_bias="use_bias",
        output_bias="use_bias",
        plain_mlp=("mlp.c_fc", "mlp.c_proj"),
        mlp_bias="use_bias",
        default_tied=True,
    ),
    "stablelm": DenseRule(
        norm="layer",
        qkv_bias="use_qkv_bias",
        qk_norm="per_head",
        qk_norm_if="qk_layernorm",
        qk_norm_names=("self_attn.q_layernorm.norms", "self_attn.k_layernorm.norms"),
        parallel_if="use_parallel_residual",
    ),
    "persimmon": DenseRule(
        norm="layer",
        final_norm="model.final_layernorm",
        fused_qkv="self_attn.query_key_value",
        qkv_bias=True,
        output_bias=True,
        output_name="self_attn.dense",
        qk_norm="head",
        qk_norm_if="qk_layernorm",
        qk_norm_names=("self_attn.q_layernorm", "self_attn.k_layernorm"),
        qk_norm_kind="layer",
        plain_mlp=("mlp.dense_h_to_4h", "mlp.dense_4h_to_h"),
        mlp_bias=True,
    ),
    "cohere": DenseRule(
        **_ATTENTION_BIAS,
        layer_norms=("input_layernorm",),
        qk_norm="heads",
        qk_norm_if="use_qk_norm",
        default_tied=True,
    ),
    "cohere2": DenseRule(**_ATTENTION_BIAS, layer_norms=("input_layernorm",), default_tied=True),
    "olmo": DenseRule(**_ATTENTION_BIAS, norm="none"),
    "olmo2": _OLMO2,
    "olmo3": _OLMO2,
    "glm": DenseRule(qkv_bias="attention_bias", fused_gate_up=True),
    "glm4": replace(_GLM4V, qkv_bias="attention_bias"),
    "glm4v": _GLM4V,
    "glm4v_text": _GLM4V,
    "exaone4": DenseRule(layer_norms=_POST_ONLY, qk_norm="head"),
    "helium": DenseRule(qkv_bias="attention_bias", mlp_bias="mlp_bias"),
    "nemotron": DenseRule(
        **_ATTENTION_BIAS,
        norm="layer",
        plain_mlp=("mlp.up_proj", "mlp.down_proj"),
        mlp_bias="mlp_bias",
    ),
    "seed_oss": DenseRule(
        qkv_bias="attention_bias", output_bias="attention_out_bias", mlp_bias="mlp_bias"
    ),
    "ernie4_5": DenseRule(qkv_bias="use_bias", output_bias="use_bias", mlp_bias="use_bias"),
    "hunyuan_v1_dense": DenseRule(
        **_ATTENTION_BIAS,
        qk_norm="head",
        qk_norm_names=("self_attn.query_layernorm", "self_attn.key_layernorm"),
    ),
    "arcee": DenseRule(
        **_ATTENTION_BIAS, plain_mlp=("mlp.up_proj", "mlp.down_proj"), mlp_bias="mlp_bias"
    ),
    "apertus": DenseRule(
        **_ATTENTION_BIAS,
        layer_norms=("attention_layernorm", "feedforward_layernorm"),
        qk_norm="head",
        plain_mlp=("mlp.up_proj", "mlp.down_proj"),
        extra=_xielu,
    ),
    "bitnet": DenseRule(**_ATTENTION_BIAS, extra=_bitnet_norms),
    "jais2": DenseRule(
        **_ATTENTION_BIAS,
        norm="layer",
        plain_mlp=("mlp.up_proj", "mlp.down_proj"),
        mlp_bias="mlp_bias",
    ),
    "nanochat": DenseRule(**_ATTENTION_BIAS, norm="none", plain_mlp=("mlp.fc1", "mlp.fc2")),
}


def build_dense(reader: ConfigReader, rule: DenseRule | None = None) -> Decoder:
    """The decoder that ``rule`` describes; the family's own in ``DENSE_RULES`` when None."""
    rule = rule or DENSE_RULES[reader.model_type]
    hidden = reader.integer("hidden_size")
    num_layers = reader.integer("num_hidden_layers")
    vocab, tied = vocabulary(reader, hidden, default_tied=rule.default_tied)
    heads = read_heads(reader, hidden)
    width = reader.integer("intermediate_size", 4 * hidden)
    tensors = (
        *attention_tensors(reader, rule, hidden, heads),
        *_mlp_tensors(reader, rule, hidden, width),
        *layer_norm_tensors(reader, rule, hidden),
        *(rule.extra(reader, hidden, width) if rule.extra else ()),
    )
    layers = [
        Layer(
            tensors=tensors,
            caches=(heads.cache(window),),
            num_heads=heads.num_heads,
            head_dim=heads.head_dim,
            mlp_width=width,
            mlp_gated=rule.plain_mlp is None,
        )
        for window in attention_windows(reader, num_layers)
    ]
    outer = [
        embedding("model.embed_tokens", vocab, hidden),
        *norm(rule.final_norm, hidden, rule.norm),
        *lm_head(vocab, hidden, bias=rule.head_bias, tied=tied),
    ]
    return Decoder(layers=layers, outer=outer, hidden_size=hidden, vocab_size=vocab, tied=tied)


def _mlp_tensors(reader: ConfigReader, rule: DenseRule, hidden: int, width: int) -> list[Tensor]:
    bias = switched(reader, rule.mlp_bias)
    if rule.plain_mlp:
        return plain_mlp(rule.plain_mlp, hidden, width, bias=bias)
    if rule.fused_gate_up:
        return [
            *linear("mlp.gate_up_proj", 2 * width, hidden, Role.MLP, bias=bias),
            *linear("mlp.down_proj", hidden, width, Role.MLP, bias=bias),
        ]
    return gated_mlp("mlp", hidden, width, bias=bias)
