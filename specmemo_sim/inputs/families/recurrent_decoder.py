"""What hybrid families share around their mixers: attention, routed experts, outer tensors."""

from collections.abc import Sequence

from specmemo_sim.inputs.config_reader import ConfigReader
from specmemo_sim.inputs.families.dense_rule import DenseRule, attention_tensors
from specmemo_sim.inputs.families.parts import (
    Decoder,
    Heads,
    embedding,
    lm_head,
    norm,
    read_heads,
)
from specmemo_sim.inputs.families.recurrent_parts import Mixer
from specmemo_sim.inputs.model import Layer, Tensor

PLAIN = DenseRule()
BIASED = DenseRule(qkv_bias="attention_bias", output_bias="attention_bias")


def renamed(tensors: Sequence[Tensor], old: str, new: str) -> tuple[Tensor, ...]:
    """The tensors with the leading module ``old`` called ``new``."""
    return tuple(t.replace(name=new + t.name.removeprefix(old)) for t in tensors)


def attention_mixer(
    reader: ConfigReader,
    rule: DenseRule,
    hidden: int,
    *,
    window: int | None = None,
    module: str = "self_attn",
) -> Mixer:
    """Softmax attention as the dense families have it, under another module name if need be."""
    heads = read_heads(reader, hidden)
    tensors = renamed(attention_tensors(reader, rule, hidden, heads), "self_attn", module)
    return Mixer(tensors, (heads.cache(window),), heads.num_heads, heads.head_dim)


def mixer_of_heads(tensors: Sequence[Tensor], heads: Heads, window: int | None = None) -> Mixer:
    """An attention mixer with its own cache."""
    return Mixer(tuple(tensors), (heads.cache(window),), heads.num_heads, heads.head_dim)


def chosen_experts(
    reader: ConfigReader, num_experts: int, field: str = "num_experts_per_tok"
) -> int:
    """Experts a token goes to, at most as many as there are.

    Raises:
        ModelConfigError: more chosen experts than experts.
    """
    chosen = reader.integer(field)
    if chosen > num_experts:
        raise reader.error(
            f"{field} = {chosen} exceeds the {num_experts} experts of a layer; correct one of them"
        )
    return chosen


def hybrid_decoder(
    reader: ConfigReader,
    layers: list[Layer],
    hidden: int,
    *,
    default_tied: bool = False,
    names: tuple[str, str, str] = ("model.embed_tokens", "model.layers", "model.norm"),
    tie_field: str = "tie_word_embeddings",
) -> Decoder:
    """The layers between an embedding, a final RMS norm and an LM head.

    Args:
        reader: The family's configuration.
        layers: The decoder layers in order.
        hidden: Hidden size.
        default_tied: Whether the LM head is the embedding when the file does not say.
        names: Module paths of embedding, layer list and final norm.
        tie_field: The configuration's word for a shared embedding and LM head.
    """
    vocab, tied = reader.integer("vocab_size"), reader.flag(tie_field, default_tied)
    embeddings, prefix, final_norm = names
    outer = [
        embedding(embeddings, vocab, hidden),
        *norm(final_norm, hidden, "rms"),
        *lm_head(vocab, hidden, tied=tied),
    ]
    return Decoder(layers, outer, hidden, vocab, tied, layer_prefix=prefix)
