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
from specmemo_sim.inputs.model import ModelSpec, Tensor
from specmemo_sim.inputs.quantization import parse_quantization
from specmemo_sim.memory.kv_cache import CachePolicy, kv_bytes, layers_kv_bytes
from specmemo_sim.memory.weights import weight_bytes


def draft_weight_bytes(drafter: Drafter, target: ModelSpec) -> int:
    """Bytes of the drafter's weights; 0 for prompt look-up and for no drafter.

    MTP layers keep the format of the target's checkpoint. Heads keep their own 16-bit type even on
    a quantised target.
    """
    if isinstance(drafter, MedusaHeads):
        tensors = medusa_head_tensors(drafter, target.hidden_size, target.vocab_size)
        return _elements(tensors) * drafter.dtype.bits // 8
    if isinstance(drafter, EagleHead):
        weights = _elements(eagle_head_tensors(drafter)) * drafter.dtype.bits // 8
        return weights + vocabulary_map_bytes(drafter)
    if isinstance(drafter, DraftModel):
        return weight_bytes(drafter.model, parse_quantization(drafter.model.quantization)).total
    if isinstance(drafter, MtpLayers):
        return weight_bytes(target, parse_quantization(target.quantization)).mtp_bytes
    return 0


def draft_kv_bytes(
    drafter: Drafter, target: ModelSpec, tokens: int, batch: int, policy: CachePolicy
) -> int:
    """Bytes of the drafter's own cache for ``batch`` sequences of ``tokens`` tokens.

    Medusa heads and prompt look-up keep none. EAGLE keeps one layer, an MTP drafter its layers, a
    draft model all of its own.
    """
    if isinstance(drafter, EagleHead):
        per_token = 2 * drafter.num_kv_heads * drafter.head_dim
        return batch * tokens * per_token * policy.dtype.bits // 8
    if isinstance(drafter, DraftModel):
        return kv_bytes(drafter.model, tokens, batch, policy)
    if isinstance(drafter, MtpLayers):
        return batch * layers_kv_bytes(target, target.mtp, tokens, policy)
    return 0


def _elements(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.num_elements for tensor in tensors)
