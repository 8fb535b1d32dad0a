"""Bytes of the drafter: its weights and its KV cache."""

from collections.abc import Iterable

from specmemo_sim.inputs.drafter import (
    Drafter,
    DraftModel,
    EagleHead,
    MedusaHeads,
    MtpLayers,
    eagle_head_tensors,
    medusa_head_tensors,
    vocabulary_map_bytes,
)
from specmemo_sim.inputs.dtypes import DType
from specmemo_sim.inputs.model import ModelSpec, Tensor
from specmemo_sim.inputs.quantization import cast_format, parse_quantization
from specmemo_sim.inputs.quantization_schemes import WeightFormat
from specmemo_sim.memory.kv_cache import CachePolicy, kv_bytes, layers_kv_bytes, tree_slot_bytes
from specmemo_sim.memory.weights import weight_bytes


def draft_weight_bytes(drafter: Drafter, target: ModelSpec, dtype: DType | None = None) -> int:
    """Bytes of the drafter's weights; 0 for prompt look-up and for no drafter.

    Heads keep their own type even on a quantised target. MTP layers keep the format of the target's
    checkpoint, a draft model that of its own.

    Args:
        drafter: What proposes tokens.
        target: The model it drafts for.
        dtype: Type that unquantised weights of a draft model or MTP layer are cast to; None keeps
            the checkpoint's.
    """
    if isinstance(drafter, MedusaHeads):
        tensors = medusa_head_tensors(drafter, target.hidden_size, target.vocab_size)
        return _elements(tensors) * drafter.dtype.bits // 8
    if isinstance(drafter, EagleHead):
        weights = _elements(eagle_head_tensors(drafter)) * drafter.dtype.bits // 8
        return weights + vocabulary_map_bytes(drafter)
    if isinstance(drafter, DraftModel):
        return weight_bytes(drafter.model, stored_format(drafter.model, dtype)).total
    if isinstance(drafter, MtpLayers):
        return weight_bytes(target, stored_format(target, dtype)).mtp_bytes
    return 0


def stored_format(model: ModelSpec, dtype: DType | None) -> WeightFormat:
    """The checkpoint's own format, its unquantised weights cast to ``dtype`` where given."""
    if model.quantization is None and dtype is not None:
        return cast_format(dtype)
    return parse_quantization(model.quantization)


def draft_kv_bytes(
    drafter: Drafter,
    target: ModelSpec,
    tokens: int,
    batch: int,
    policy: CachePolicy,
    *,
    depth: int = 0,
) -> int:
    """Bytes of the drafter's own cache for ``batch`` sequences of ``tokens`` tokens.

    Medusa heads and prompt look-up keep none. EAGLE keeps one layer, an MTP drafter its layers, a
    draft model all of its own, and each a slot (or a copy of a recurrent state) for every token of
    the ``depth`` that it drafts ahead.
    """
    if isinstance(drafter, EagleHead):
        per_token = 2 * drafter.num_kv_heads * drafter.head_dim
        return batch * (tokens + depth) * per_token * policy.dtype.bits // 8
    if isinstance(drafter, DraftModel):
        model = drafter.model
        ahead = tree_slot_bytes(model, depth + 1, batch, policy)
        return kv_bytes(model, tokens, batch, policy) + ahead
    if isinstance(drafter, MtpLayers):
        return batch * layers_kv_bytes(target, target.mtp, tokens + depth, policy)
    return 0


def _elements(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.num_elements for tensor in tensors)
