"""Multi-token-prediction layers that ship with a checkpoint."""

from specmemo_sim.inputs.config_reader import ConfigReader
from specmemo_sim.inputs.families.parts import embedding, linear, norm
from specmemo_sim.inputs.model import Layer, Role

_FIELD = "num_nextn_predict_layers"
_MAX_MTP_LAYERS = 64


def mtp_count(reader: ConfigReader) -> int:
    """Multi-token-prediction layers that the file states; a class default does not count.

    A checkpoint without such layers may leave the field out although its class defaults to one.

    Raises:
        ModelConfigError: more than 64.
    """
    count = (reader.optional_integer(_FIELD, minimum=0) or 0) if reader.has(_FIELD) else 0
    if count > _MAX_MTP_LAYERS:
        raise reader.error(
            f"{_FIELD} = {count} is out of range; allowed is 0 to {_MAX_MTP_LAYERS}, so correct it"
        )
    return count


def deepseek_mtp(reader: ConfigReader, layer: Layer, hidden: int, vocab: int) -> list[Layer]:
    """The multi-token-prediction layers of DeepSeek-V3 and its relatives.

    Each is a full decoder layer with two norms, the projection [hidden, 2 hidden] of the hidden
    state next to the embedding, a final norm, and copies of the embedding and of the LM head. The
    copies are in the checkpoint (roles EMBEDDING and LM_HEAD), but engines share the main model's:
    DeepSeek counts 11.5 billion parameters per layer without them, 14 billion (rounded) with them.

    Args:
        reader: The family's configuration.
        layer: A decoder layer of the kind that the MTP layer contains.
        hidden: Hidden size.
        vocab: Rows of the vocabulary matrices.

    Source: DeepSeek-V3 technical report, arXiv:2412.19437, section 2.2, equation 21; sizes in the
        weight documentation of the release (README_WEIGHTS.md).
    """
    extra = (
        *norm("enorm", hidden, "rms"),
        *norm("hnorm", hidden, "rms"),
        *linear("eh_proj", hidden, 2 * hidden, Role.OTHER),
        *norm("shared_head.norm", hidden, "rms"),
        embedding("embed_tokens", vocab, hidden),
        *linear("shared_head.head", vocab, hidden, Role.LM_HEAD),
    )
    return [layer.replace(tensors=(*layer.tensors, *extra))] * mtp_count(reader)


def note_uncounted_mtp(reader: ConfigReader) -> None:
    """A note that the stated multi-token-prediction layers are not in the inventory."""
    count = mtp_count(reader)
    if count:
        reader.notes.append(
            f"{_FIELD} = {count}: the multi-token-prediction layers of {reader.model_type} "
            "are not counted"
        )
