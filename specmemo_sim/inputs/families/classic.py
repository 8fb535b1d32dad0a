"""Classic decoders: GPT-2 and its relatives, OPT, BLOOM, MPT, Falcon.

Source of names and shapes: the modelling code of transformers 5.24 (Apache-2.0); for SantaCoder,
the code published with it.
"""

from collections.abc import Callable
from dataclasses import replace

from specmemo_sim.inputs.config_reader import ConfigReader
from specmemo_sim.inputs.families.mpt import build_mpt
from specmemo_sim.inputs.families.parts import Decoder, linear, norm
from specmemo_sim.inputs.families.skeleton import (
    MAX_LAYERS,
    Biases,
    Names,
    build,
    read_sizes,
    with_positions,
)
from specmemo_sim.inputs.model import Role

_GPT2 = Names(
    layers="transformer.h",
    embedding="transformer.wte",
    positions="transformer.wpe",
    norms=("ln_1", "ln_2"),
    qkv=("attn.c_attn",),
    output="attn.c_proj",
    mlp=("mlp.c_fc", "mlp.c_proj"),
    final_norm="transformer.ln_f",
)
_SANTACODER = replace(_GPT2, qkv=("attn.q_attn", "attn.kv_attn"))
_HEAD_TYPES = {"multihead": None, "multiquery": 1}
"""Heads of keys and values of GPT-2 and of SantaCoder, which shares its type name."""
_OPENAI = replace(
    _GPT2,
    embedding="transformer.tokens_embed",
    positions="transformer.positions_embed",
    final_norm="",
)
_GPTJ = replace(
    _GPT2,
    positions="",
    norms=("ln_1",),
    qkv=("attn.q_proj", "attn.k_proj", "attn.v_proj"),
    output="attn.out_proj",
    mlp=("mlp.fc_in", "mlp.fc_out"),
)
_CODEGEN = replace(_GPTJ, qkv=("attn.qkv_proj",))
_GPT_NEO = replace(
    _GPT2,
    qkv=("attn.attention.q_proj", "attn.attention.k_proj", "attn.attention.v_proj"),
    output="attn.attention.out_proj",
)
_GPT_NEOX = Names(
    layers="gpt_neox.layers",
    embedding="gpt_neox.embed_in",
    norms=("input_layernorm", "post_attention_layernorm"),
    qkv=("attention.query_key_value",),
    output="attention.dense",
    mlp=("mlp.dense_h_to_4h", "mlp.dense_4h_to_h"),
    final_norm="gpt_neox.final_layer_norm",
    head="embed_out",
)
_OPT = Names(
    layers="model.decoder.layers",
    embedding="model.decoder.embed_tokens",
    positions="model.decoder.embed_positions",
    norms=("self_attn_layer_norm", "final_layer_norm"),
    qkv=("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    output="self_attn.out_proj",
    mlp=("fc1", "fc2"),
    final_norm="model.decoder.final_layer_norm",
)
_XGLM = replace(
    _OPT,
    layers="model.layers",
    embedding="model.embed_tokens",
    positions="",
    final_norm="model.layer_norm",
)
_BIOGPT = replace(
    _OPT,
    layers="biogpt.layers",
    embedding="biogpt.embed_tokens",
    positions="biogpt.embed_positions",
    final_norm="biogpt.layer_norm",
    head="output_projection",
)
_BLOOM = Names(
    layers="transformer.h",
    embedding="transformer.word_embeddings",
    norms=("input_layernorm", "post_attention_layernorm"),
    qkv=("self_attention.query_key_value",),
    output="self_attention.dense",
    mlp=("mlp.dense_h_to_4h", "mlp.dense_4h_to_h"),
    final_norm="transformer.ln_f",
)
_OFFSET = 2
"""Rows that OPT and BioGPT keep in front of the first position."""


def _gpt2(reader: ConfigReader) -> Decoder:
    # Conv1D stores [inputs, outputs]; shapes here are those of the linear layer it computes.
    kind = reader.text("attention_head_type", "multihead")
    if kind not in _HEAD_TYPES:
        raise reader.error(
            f"attention_head_type {kind!r} is unknown; allowed are {', '.join(_HEAD_TYPES)}"
        )
    sizes = read_sizes(reader, tied=True, num_kv_heads=_HEAD_TYPES[kind])
    names = _GPT2 if kind == "multihead" else _SANTACODER
    return build(reader, names, with_positions(reader, sizes))


def _openai_gpt(reader: ConfigReader) -> Decoder:
    sizes = with_positions(reader, read_sizes(reader, tied=True))
    return build(reader, _OPENAI, replace(sizes, width=4 * sizes.hidden))


def _gpt_bigcode(reader: ConfigReader) -> Decoder:
    one_head = 1 if reader.flag("multi_query", True) else None
    sizes = read_sizes(reader, tied=True, num_kv_heads=one_head)
    return build(reader, _GPT2, with_positions(reader, sizes))


def _rotary_gpt(names: Names) -> Callable[[ConfigReader], Decoder]:
    """GPT-J and CodeGen: one norm for both branches, no attention bias, a head with a bias."""

    def rule(reader: ConfigReader) -> Decoder:
        biases = Biases(qkv=False, output=False, head=True)
        return build(reader, names, read_sizes(reader, tied=False), biases)

    return rule


def _gpt_neo(reader: ConfigReader) -> Decoder:
    sizes = with_positions(reader, read_sizes(reader, tied=True))
    window = reader.integer("window_size", 256)
    windows = [window if kind == "local" else None for kind in _attention_kinds(reader)]
    return build(reader, _GPT_NEO, sizes, Biases(qkv=False), windows=windows)


def _attention_kinds(reader: ConfigReader) -> list[str]:
    """``attention_types`` unrolled: [[["global", "local"], 12]] stands for 24 layers."""
    kinds: list[str] = []
    for entry in reader.items("attention_types") or [[["global", "local"], 12]]:
        if not (isinstance(entry, list | tuple) and len(entry) == 2 and isinstance(entry[0], list)):
            raise reader.error(
                "attention_types must be a list of [[kinds], repeats], such as "
                '[[["global", "local"], 12]]'
            )
        repeats = reader.checked_integer("attention_types repeats", entry[1])
        if len(entry[0]) * repeats > MAX_LAYERS:
            raise reader.error(f"attention_types stands for more than {MAX_LAYERS} layers")
        kinds += [str(kind)[:40] for kind in entry[0]] * repeats
    unknown = sorted(set(kinds) - {"global", "local"})
    if unknown:
        raise reader.error(f"attention_types names {unknown[0]!r}; allowed are global and local")
    num_layers = reader.integer("num_hidden_layers")
    if len(kinds) != num_layers:
        raise reader.error(
            f"attention_types stands for {len(kinds)} layers, but there are {num_layers}; "
            "correct one of them"
        )
    return kinds


def _gpt_neox(reader: ConfigReader) -> Decoder:
    bias = reader.flag("attention_bias", True)
    sizes = read_sizes(reader, tied=False)
    return build(reader, _GPT_NEOX, sizes, Biases(qkv=bias, output=bias))


def _opt(reader: ConfigReader) -> Decoder:
    affine = reader.flag("layer_norm_elementwise_affine", True)
    sizes = read_sizes(reader, tied=True, norm="layer" if affine else "none")
    columns = reader.integer("word_embed_proj_dim", sizes.hidden)
    sizes = with_positions(reader, replace(sizes, embedding_width=columns), _OFFSET)
    names = _OPT
    if not reader.flag("do_layer_norm_before", True) or reader.flag("_remove_final_layer_norm"):
        names = replace(_OPT, final_norm="")
    bias = reader.flag("enable_bias", True)
    decoder = build(reader, names, sizes, Biases(bias, bias, bias, bias))
    if columns != sizes.hidden:
        decoder.outer += [
            *linear("model.decoder.project_in", sizes.hidden, columns, Role.OTHER),
            *linear("model.decoder.project_out", columns, sizes.hidden, Role.OTHER),
        ]
    return decoder


def _xglm(reader: ConfigReader) -> Decoder:
    return build(reader, _XGLM, read_sizes(reader, tied=True))


def _biogpt(reader: ConfigReader) -> Decoder:
    return build(reader, _BIOGPT, with_positions(reader, read_sizes(reader, tied=True), _OFFSET))


def _bloom(reader: ConfigReader) -> Decoder:
    sizes = read_sizes(reader, tied=True)
    decoder = build(reader, _BLOOM, replace(sizes, width=4 * sizes.hidden))
    decoder.outer += norm("transformer.word_embeddings_layernorm", sizes.hidden, "layer")
    return decoder


def _falcon(reader: ConfigReader) -> Decoder:
    new = _is_new_falcon(reader)
    stated = reader.optional_integer("num_key_value_heads")
    num_kv_heads = stated if new else 1 if reader.flag("multi_query", True) else None
    sizes = read_sizes(reader, tied=True, num_kv_heads=num_kv_heads)
    if new and sizes.heads.num_kv_heads < sizes.heads.num_heads:
        reader.notes.append(
            f"the cache holds {sizes.heads.num_kv_heads} heads of keys and values; transformers' "
            f"own Falcon code repeats them to {sizes.heads.num_heads} before caching"
        )
    bias = reader.flag("bias")
    names = replace(_BLOOM, norms=_falcon_norms(reader, new))
    return build(reader, names, sizes, Biases(bias, bias, bias, bias))


def _is_new_falcon(reader: ConfigReader) -> bool:
    """Grouped keys and values; the first Falcon-40B said so by its type name alone."""
    if reader.has("new_decoder_architecture"):
        return reader.flag("new_decoder_architecture")
    return reader.given.get("model_type") == "RefinedWeb"


def _falcon_norms(reader: ConfigReader, new: bool) -> tuple[str, ...]:
    if not reader.flag("parallel_attn", True):
        return ("input_layernorm", "post_attention_layernorm")
    count = reader.integer("num_ln_in_parallel_attn", 2 if new else 1)
    return ("ln_attn", "ln_mlp") if count == 2 else ("input_layernorm",)


CLASSIC_RULES: dict[str, Callable[[ConfigReader], Decoder]] = {
    "gpt2": _gpt2,
    "openai-gpt": _openai_gpt,
    "gpt_bigcode": _gpt_bigcode,
    "gptj": _rotary_gpt(_GPTJ),
    "codegen": _rotary_gpt(_CODEGEN),
    "gpt_neo": _gpt_neo,
    "gpt_neox": _gpt_neox,
    "opt": _opt,
    "xglm": _xglm,
    "biogpt": _biogpt,
    "bloom": _bloom,
    "mpt": build_mpt,
    "falcon": _falcon,
}
