"""Decoders whose modelling code ships with the checkpoint, read from the hub's own config.json.

Source of names and shapes: the modelling files published with the checkpoints (ChatGLM, Baichuan,
InternLM, Qwen, XVERSE, Orion, Yi, Aquila, Skywork, StableLM, EXAONE 3, Phi-2, TeleChat).
"""

from collections.abc import Callable
from dataclasses import replace

from specmemo_sim.inputs.config_reader import ConfigReader
from specmemo_sim.inputs.families.dense import build_dense
from specmemo_sim.inputs.families.dense_rule import DenseRule
from specmemo_sim.inputs.families.parts import (
    Decoder,
    Heads,
    norm,
    read_heads,
    vector,
    vocabulary,
)
from specmemo_sim.inputs.families.remote_layers import (
    build_block_configs,
    build_deci,
    build_deepseek,
    build_mimo,
    build_minicpm,
)
from specmemo_sim.inputs.families.skeleton import (
    ALL_BIASED,
    Biases,
    Names,
    Sizes,
    build,
    read_sizes,
)

_PLAIN = DenseRule()
_LLAMA_LIKE: dict[str, DenseRule] = {
    "baichuan": DenseRule(fused_qkv="self_attn.W_pack"),
    "xverse": _PLAIN,
    "orion": DenseRule(norm="layer", qkv_bias="attention_bias", output_bias="attention_bias"),
    "Yi": DenseRule(layer_norms=("ln1", "ln2")),
    "aquila": _PLAIN,
    "skywork": _PLAIN,
    "internlm3": DenseRule(qkv_bias="qkv_bias", output_bias="bias", mlp_bias="bias"),
    "stablelm_epoch": DenseRule(norm="layer", qkv_bias="use_qkv_bias"),
}
_EXPERT_FIELDS = ("num_experts", "n_routed_experts", "num_local_experts", "moe_intermediate_size")

_CHATGLM2 = Names(
    layers="transformer.encoder.layers",
    embedding="transformer.embedding.word_embeddings",
    norms=("input_layernorm", "post_attention_layernorm"),
    qkv=("self_attention.query_key_value",),
    output="self_attention.dense",
    mlp=("mlp.dense_h_to_4h", "mlp.dense_4h_to_h"),
    final_norm="transformer.encoder.final_layernorm",
    head="transformer.output_layer",
)
_CHATGLM1 = replace(
    _CHATGLM2,
    layers="transformer.layers",
    embedding="transformer.word_embeddings",
    qkv=("attention.query_key_value",),
    output="attention.dense",
    final_norm="transformer.final_layernorm",
    head="lm_head",
)
_INTERNLM2 = Names(
    layers="model.layers",
    embedding="model.tok_embeddings",
    norms=("attention_norm", "ffn_norm"),
    qkv=("attention.wqkv",),
    output="attention.wo",
    mlp=("feed_forward.w1", "feed_forward.w3", "feed_forward.w2"),
    final_norm="model.norm",
    head="output",
)
_QWEN = Names(
    layers="transformer.h",
    embedding="transformer.wte",
    norms=("ln_1", "ln_2"),
    qkv=("attn.c_attn",),
    output="attn.c_proj",
    mlp=("mlp.w2", "mlp.w1", "mlp.c_proj"),
    final_norm="transformer.ln_f",
)
_EXAONE = replace(
    _QWEN,
    qkv=("attn.attention.q_proj", "attn.attention.k_proj", "attn.attention.v_proj"),
    output="attn.attention.out_proj",
    mlp=("mlp.c_fc_0", "mlp.c_fc_1", "mlp.c_proj"),
)
_PHI_MSFT = Names(
    layers="transformer.h",
    embedding="transformer.embd.wte",
    norms=("ln",),
    qkv=("mixer.Wqkv",),
    output="mixer.out_proj",
    mlp=("mlp.fc1", "mlp.fc2"),
    final_norm="lm_head.ln",
    head="lm_head.linear",
)
_TELECHAT = Names(
    layers="transformer.h",
    embedding="transformer.word_embeddings",
    norms=("input_layernorm", "post_attention_layernorm"),
    qkv=("self_attention.query", "self_attention.key_value"),
    output="self_attention.dense",
    mlp=("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"),
    final_norm="transformer.ln_f",
)


def _llama_like(reader: ConfigReader) -> Decoder:
    """A family of ``_LLAMA_LIKE``; relatives with experts share the type and are refused."""
    for name in _EXPERT_FIELDS:
        if reader.has(name):
            raise reader.error(
                f"{name} is given, but only dense {reader.model_type} models are known, so its "
                "experts cannot be counted; use a model of another family"
            )
    return build_dense(reader, _LLAMA_LIKE[reader.model_type])


def _internlm(reader: ConfigReader) -> Decoder:
    bias = reader.flag("bias", True)
    return build_dense(reader, DenseRule(qkv_bias=bias, output_bias=bias))


def _internlm2(reader: ConfigReader) -> Decoder:
    bias = reader.flag("bias", True)
    return build(reader, _INTERNLM2, _gated(reader), Biases(bias, bias, up=False, down=False))


def _gated(reader: ConfigReader, *, tied: bool = False) -> Sizes:
    """Sizes of a decoder of Llama's shape, grouped keys and values included."""
    hidden = reader.integer("hidden_size")
    vocab, tied = vocabulary(reader, hidden, default_tied=tied)
    heads, width = read_heads(reader, hidden), reader.integer("intermediate_size")
    return Sizes(hidden, vocab, tied, heads, width, gated=True, norm="rms")


def _qwen(reader: ConfigReader) -> Decoder:
    # intermediate_size counts both matrices up: each is half as wide.
    stated = reader.integer("intermediate_size")
    if stated % 2:
        raise reader.error(
            f"intermediate_size = {stated} must be even: it is the width of two matrices together"
        )
    sizes = _gated(reader)
    heads = replace(sizes.heads, num_kv_heads=sizes.heads.num_heads)
    bias = not reader.flag("no_bias", True)
    sizes = replace(sizes, heads=heads, width=stated // 2)
    return build(reader, _QWEN, sizes, Biases(qkv=True, output=bias, up=bias, down=bias))


def _exaone(reader: ConfigReader) -> Decoder:
    attention, mlp = reader.flag("attention_bias"), reader.flag("mlp_bias")
    return build(reader, _EXAONE, _gated(reader), Biases(attention, attention, mlp, mlp))


def _phi_msft(reader: ConfigReader) -> Decoder:
    num_kv_heads = reader.optional_integer("num_key_value_heads")
    sizes = read_sizes(reader, tied=False, num_kv_heads=num_kv_heads)
    return build(reader, _PHI_MSFT, sizes, replace(ALL_BIASED, head=True))


def _telechat(reader: ConfigReader) -> Decoder:
    num_kv_heads = reader.optional_integer("num_key_value_heads")
    sizes = read_sizes(reader, tied=True, num_kv_heads=num_kv_heads, norm="rms")
    # The configuration class has an unused intermediate_size of 1 next to ffn_hidden_size.
    width = reader.integer("ffn_hidden_size")
    biases = Biases(qkv=False, output=True, up=False, down=True)
    decoder = build(reader, _TELECHAT, replace(sizes, width=width, gated=True), biases)
    if reader.flag("embed_layernorm"):
        decoder.outer += norm("transformer.word_embeddings_layernorm", sizes.hidden, "rms")
    return decoder


def _chatglm(reader: ConfigReader) -> Decoder:
    """ChatGLM2, ChatGLM3 and GLM-4; the first ChatGLM-6B, told by its fields, has another shape."""
    if reader.given.get("inner_hidden_size") or reader.flag("position_encoding_2d"):
        return _chatglm1(reader)
    hidden = reader.integer("hidden_size")
    heads = _chatglm_heads(reader, hidden)
    sizes = Sizes(
        hidden=hidden,
        vocab=reader.integer("padded_vocab_size"),
        tied=reader.flag("tie_word_embeddings"),
        heads=heads,
        width=reader.integer("ffn_hidden_size"),
        gated=True,
        norm="rms" if reader.flag("rmsnorm", True) else "layer",
    )
    names = _CHATGLM2
    if not reader.flag("post_layer_norm", True):
        names = replace(names, final_norm="")
    bias = reader.flag("add_bias_linear")
    biases = Biases(bias or reader.flag("add_qkv_bias"), bias, bias, bias)
    decoder = build(reader, names, sizes, biases)
    # Rotary embeddings turn half of each head, so a quarter of its size are frequencies.
    decoder.outer.append(
        vector("transformer.rotary_pos_emb.inv_freq", heads.head_dim // 4, buffer=True)
    )
    return decoder


def _chatglm_heads(reader: ConfigReader, hidden: int) -> Heads:
    num_heads = reader.integer("num_attention_heads")
    grouped = reader.flag("multi_query_attention")
    num_kv_heads = reader.integer("multi_query_group_num", 1) if grouped else num_heads
    if num_heads % num_kv_heads:
        raise reader.error(
            f"num_attention_heads = {num_heads} is not a multiple of "
            f"multi_query_group_num = {num_kv_heads}; correct one of them"
        )
    channels = reader.optional_integer("kv_channels") or hidden // num_heads
    # Fewer features than this have no rotary frequencies.
    channels = reader.checked_integer("kv_channels", channels, minimum=4)
    return Heads(num_heads, num_kv_heads, channels, channels)


def _chatglm1(reader: ConfigReader) -> Decoder:
    return build(reader, _CHATGLM1, read_sizes(reader, tied=True))


REMOTE_CODE_RULES: dict[str, Callable[[ConfigReader], Decoder]] = {
    **dict.fromkeys(_LLAMA_LIKE, _llama_like),
    "chatglm": _chatglm,
    "internlm": _internlm,
    "internlm2": _internlm2,
    "qwen": _qwen,
    "exaone": _exaone,
    "phi-msft": _phi_msft,
    "telechat": _telechat,
    "minicpm": build_minicpm,
    "mimo": build_mimo,
    "deepseek": build_deepseek,
    "nemotron-nas": build_block_configs,
    "deci": build_deci,
}
