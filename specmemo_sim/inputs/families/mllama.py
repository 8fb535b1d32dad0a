"""Llama 3.2 Vision's text decoder: some layers attend to image tokens instead of text."""

from specmemo_sim.inputs.config_reader import ConfigReader
from specmemo_sim.inputs.families.parts import (
    Decoder,
    embedding,
    lm_head,
    norm,
    read_heads,
    vector,
)
from specmemo_sim.inputs.families.recurrent_decoder import (
    PLAIN,
    attention_mixer,
    renamed,
)
from specmemo_sim.inputs.families.recurrent_parts import (
    Mixer,
    build_layer,
    dense_feed_forward,
    norms,
)

_CROSS_LAYERS = [3, 8, 13, 18, 23, 28, 33, 38]
"""Source: transformers 5.24, class default of mllama_text_model."""
_EXTRA_ROWS = 8
"""Rows of the embedding beyond the vocabulary, for the image token and padding."""


def build_mllama(reader: ConfigReader) -> Decoder:
    """The decoder of ``mllama_text_model``; cross-attention layers cache no text token."""
    hidden = reader.integer("hidden_size")
    num_layers = reader.integer("num_hidden_layers")
    listed = reader.integers("cross_attention_layers")
    crossing = {n for n in (_CROSS_LAYERS if listed is None else listed) if n < num_layers}
    mlp = dense_feed_forward("mlp", hidden, reader.integer("intermediate_size"))
    others = norms(hidden, "input_layernorm", "post_attention_layernorm")
    own = attention_mixer(reader, PLAIN, hidden)
    plain = build_layer(own, mlp, others)
    heads = read_heads(reader, hidden)
    cross = build_layer(
        Mixer(
            (
                *renamed(own.tensors, "self_attn", "cross_attn"),
                *norm("cross_attn.q_norm", heads.head_dim, "rms"),
                *norm("cross_attn.k_norm", heads.head_dim, "rms"),
            ),
            (),
            heads.num_heads,
            heads.head_dim,
        ),
        mlp,
        [*others, *(vector(name, 1) for name in ("cross_attn_attn_gate", "cross_attn_mlp_gate"))],
    )
    if crossing:
        per_token = heads.key_size + heads.value_size
        reader.notes.append(
            f"{len(crossing)} cross-attention layers cache {per_token} elements per image token "
            "each and nothing per text token; image tokens are not counted"
        )
    layers = [cross if n in crossing else plain for n in range(num_layers)]
    # The embedding has rows that the LM head lacks, so the two are never one matrix.
    vocab = reader.integer("vocab_size")
    outer = [
        embedding("model.embed_tokens", vocab + _EXTRA_ROWS, hidden),
        *norm("model.norm", hidden, "rms"),
        *lm_head(vocab, hidden),
    ]
    return Decoder(layers, outer, hidden, vocab, tied=False)
