"""Work of proposing a tree: heads in one go, every other drafter one pass per level."""

from specmemo_sim.inputs.drafter import (
    Drafter,
    DraftModel,
    EagleHead,
    MedusaHeads,
    MtpLayers,
    eagle_head_tensors,
    medusa_head_tensors,
)
from specmemo_sim.inputs.dtypes import DType
from specmemo_sim.inputs.model import Layer, ModelSpec, Role
from specmemo_sim.latency.roofline import NO_WORK, Pass, StepWork, target_work
from specmemo_sim.memory.draft import stored_format
from specmemo_sim.memory.kv_cache import CachePolicy
from specmemo_sim.memory.weights import weight_stream

_HEAD_LAYERS = 0.25
"""Fixed cost of a Medusa head over that of a decoder layer, by kernel launches: about 4 (linear,
activation, sum, LM head) against about 15."""


def draft_work(
    drafter: Drafter,
    target: ModelSpec,
    cache: CachePolicy,
    dtype: DType,
    forward: Pass,
    *,
    depth: int,
) -> StepWork:
    """Work of proposing ``depth`` levels once.

    Args:
        drafter: What proposes.
        target: The model it drafts for.
        cache: How the drafter keeps its own keys and values.
        dtype: Type its unquantised weights are held in.
        forward: One drafted token per sequence behind the committed ones.
        depth: Levels of the tree.
    """
    if isinstance(drafter, MedusaHeads):
        used = drafter.replace(num_heads=min(drafter.num_heads, max(depth, 1)))
        tensors = medusa_head_tensors(used, target.hidden_size, target.vocab_size)
        elements = sum(tensor.num_elements for tensor in tensors)
        moved = elements * drafter.dtype.bits / 8
        return StepWork(moved, 2.0 * elements * forward.batch, _HEAD_LAYERS * used.num_heads)
    if isinstance(drafter, EagleHead):
        return _eagle_pass(drafter, target, cache, forward).times(depth)
    model = drafter.model if isinstance(drafter, DraftModel) else None
    if isinstance(drafter, MtpLayers) and target.mtp:
        model = mtp_model(target)
    if model is None:
        return NO_WORK
    weights = weight_stream(model, stored_format(model, dtype))
    return target_work(model, weights, cache, forward).times(depth)


def mtp_model(target: ModelSpec) -> ModelSpec:
    """The first MTP layer as a one-layer model with the LM head it uses.

    A checkpoint may hold a copy of the LM head in the layer; else the target's serves.
    """
    layer: Layer = target.mtp[0]
    own_head = any(tensor.role is Role.LM_HEAD for tensor in layer.tensors)
    tied = target.tie_word_embeddings and not own_head
    shared = Role.EMBEDDING if tied else Role.LM_HEAD
    outer = () if own_head else tuple(t for t in target.outer if t.role is shared)
    return target.replace(
        layers=(layer,),
        layer_order=(0,),
        outer=outer,
        shared_layer_tensors=(),
        mtp=(),
        tower=(),
        tie_word_embeddings=tied,
    )


def _eagle_pass(head: EagleHead, target: ModelSpec, cache: CachePolicy, forward: Pass) -> StepWork:
    """One pass of an EAGLE head: its matrices, an LM head, and attention over its one layer."""
    elements = sum(
        tensor.num_elements
        for tensor in eagle_head_tensors(head)
        if tensor.role is not Role.EMBEDDING
    )
    if not head.own_lm_head:
        elements += target.vocab_size * target.hidden_size
    kept = 2 * head.num_kv_heads * head.head_dim * cache.dtype.bits // 8
    moved = elements * head.dtype.bits / 8 + forward.batch * kept * (forward.context + 1)
    scores = 4.0 * head.num_heads * head.head_dim * forward.context
    return StepWork(moved, (2.0 * elements + scores) * forward.batch, 1.0)
