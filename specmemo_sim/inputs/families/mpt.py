"""MPT: GPT-2's shape with relative positions and several kinds of attention.

Source of names and shapes: the modelling code of transformers 5.24 (Apache-2.0); for the fields
that it leaves out, the code published with the checkpoints (llm-foundry).
"""

from dataclasses import replace

from specmemo_sim.inputs.config_reader import MAX_DIMENSION, ConfigReader
from specmemo_sim.inputs.families.parts import Decoder, Norm, norm
from specmemo_sim.inputs.families.skeleton import (
    ALL_BIASED,
    UNBIASED,
    Names,
    Sizes,
    build,
    read_sizes,
    with_positions,
)
from specmemo_sim.inputs.model import Tensor

_MPT = Names(
    layers="transformer.blocks",
    embedding="transformer.wte",
    positions="transformer.wpe",
    norms=("norm_1", "norm_2"),
    qkv=("attn.Wqkv",),
    output="attn.out_proj",
    mlp=("ffn.up_proj", "ffn.down_proj"),
    final_norm="transformer.norm_f",
)


def build_mpt(reader: ConfigReader) -> Decoder:
    """The decoder of ``mpt``."""
    attention = ConfigReader(
        reader.nested("attn_config"), "mpt attention", where=f"{reader.where}: attn_config"
    )
    bias = not reader.flag("no_bias", True)
    kind = attention.text("attn_type", "multihead_attention")
    heads = {
        "multihead_attention": None,
        "multiquery_attention": 1,
        "grouped_query_attention": attention.optional_integer("kv_n_heads"),
    }
    if kind not in heads:
        raise attention.error(f"attn_type {kind!r} is unknown; allowed are {', '.join(heads)}")
    norm_kind: Norm = "layer" if bias else "rms"
    sizes = read_sizes(reader, tied=True, num_kv_heads=heads[kind], norm=norm_kind)
    sizes = replace(sizes, width=_mpt_width(reader, sizes.hidden))
    # Relative positions replace the table, whatever learned_pos_emb says.
    relative = attention.flag("alibi", True) or attention.flag("rope")
    if reader.flag("learned_pos_emb", True) and not relative:
        sizes = with_positions(reader, sizes)
    extra = _mpt_norms(sizes) if attention.flag("qk_ln") else []
    return build(reader, _MPT, sizes, ALL_BIASED if bias else UNBIASED, extra=extra)


def _mpt_norms(sizes: Sizes) -> list[Tensor]:
    return [
        *norm("attn.q_ln", sizes.heads.query_size, sizes.norm),
        *norm("attn.k_ln", sizes.heads.key_size, sizes.norm),
    ]


def _mpt_width(reader: ConfigReader, hidden: int) -> int:
    kind = reader.nested("ffn_config").get("ffn_type", "mptmlp")
    if kind != "mptmlp":
        raise reader.error(
            f"ffn_config.ffn_type {str(kind)[:40]!r} is not supported; supported is mptmlp"
        )
    ratio = reader.number("expansion_ratio", 4)
    width = int(hidden * ratio) if 0 < ratio <= MAX_DIMENSION else 0
    return reader.checked_integer("expansion_ratio × d_model", width)
