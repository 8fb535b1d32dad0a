"""Work of one decoding step in bytes and FLOP, and the roofline time it takes."""

from dataclasses import dataclass

from specmemo_sim.inputs.drafter import (
    Drafter,
    DraftModel,
    EagleHead,
    MedusaHeads,
    MtpLayers,
    eagle_head_tensors,
    medusa_head_tensors,
)
from specmemo_sim.inputs.model import ModelSpec, Role
from specmemo_sim.inputs.quantization import parse_quantization
from specmemo_sim.memory.draft import draft_weight_bytes
from specmemo_sim.memory.kv_cache import CachePolicy, kv_bytes
from specmemo_sim.memory.weights import WeightStream, weight_stream


@dataclass(frozen=True, slots=True)
class StepWork:
    """What one forward pass moves and computes."""

    moved_bytes: float
    work_flop: float
    num_layers: float
    """Decoder layers run, for the fixed cost of launching their kernels."""

    def __add__(self, other: "StepWork") -> "StepWork":
        return StepWork(
            self.moved_bytes + other.moved_bytes,
            self.work_flop + other.work_flop,
            self.num_layers + other.num_layers,
        )

    def times(self, factor: float) -> "StepWork":
        """The same pass ``factor`` times."""
        return StepWork(
            self.moved_bytes * factor, self.work_flop * factor, self.num_layers * factor
        )


NO_WORK = StepWork(0.0, 0.0, 0.0)


def target_work(
    model: ModelSpec,
    weights: WeightStream,
    cache: CachePolicy,
    *,
    nodes: int,
    context: int,
    batch: int,
) -> StepWork:
    """Work of the target over ``nodes`` tokens for each of ``batch`` sequences.

    Bytes: the weights this many tokens touch (routed experts by expectation), the keys and values
    of the context, and those written. FLOP: two per active weight and token, and attention's
    4 * heads * head_dim per query and visible token.

    Args:
        model: The target.
        weights: How many bytes of its weights a pass over so many tokens reads.
        cache: How keys and values are kept.
        nodes: Tokens per sequence of this pass: tree nodes, or prompt tokens.
        context: Committed tokens each query sees.
        batch: Sequences.
    """
    tokens = nodes * batch
    moved = weights.read_bytes(tokens)
    moved += kv_bytes(model, context, batch, cache)
    moved += kv_bytes(model, nodes, batch, cache)
    flop = 2.0 * _matrix_elements_per_token(model) * tokens
    flop += (
        sum(
            4.0 * layer.num_heads * layer.head_dim * (context + nodes / 2)
            for layer in model.layer_sequence()
        )
        * tokens
    )
    return StepWork(float(moved), flop, float(model.num_layers))


_HEAD_LAYERS = 0.25
"""Fixed cost of a Medusa head over that of a decoder layer, by kernel launches: about 4 (linear,
activation, sum, LM head) against about 15."""


def draft_work(
    drafter: Drafter,
    target: ModelSpec,
    cache: CachePolicy,
    *,
    depth: int,
    context: int,
    batch: int,
) -> StepWork:
    """Work of proposing ``depth`` levels once: heads in one go, all others one pass per level."""
    if isinstance(drafter, MedusaHeads):
        used = drafter.replace(num_heads=min(drafter.num_heads, max(depth, 1)))
        tensors = list(medusa_head_tensors(used, target.hidden_size, target.vocab_size))
        elements = sum(tensor.num_elements for tensor in tensors)
        moved = elements * drafter.dtype.bits / 8
        return StepWork(moved, 2.0 * elements * batch, _HEAD_LAYERS * used.num_heads)
    if isinstance(drafter, EagleHead):
        tensors = [t for t in eagle_head_tensors(drafter) if t.role is not Role.EMBEDDING]
        elements = sum(tensor.num_elements for tensor in tensors)
        moved = elements * drafter.dtype.bits / 8
        return StepWork(moved, 2.0 * elements * batch, 1.0).times(depth)
    if isinstance(drafter, DraftModel):
        own = weight_stream(drafter.model, parse_quantization(drafter.model.quantization))
        one = target_work(drafter.model, own, cache, nodes=1, context=context, batch=batch)
        return one.times(depth)
    if isinstance(drafter, MtpLayers):
        moved = draft_weight_bytes(drafter, target)
        return StepWork(moved, 2.0 * target.num_mtp_parameters * batch, 1.0).times(depth)
    return NO_WORK


def roofline_seconds(
    work: StepWork,
    *,
    bytes_per_s: float,
    flop_per_s: float,
    fixed_s_per_layer: float,
    overlap: float,
) -> float:
    """Seconds of a pass: the slower of memory and arithmetic, part of the other, a fixed cost.

    Args:
        work: What the pass moves and computes.
        bytes_per_s: Sustained bandwidth.
        flop_per_s: Sustained arithmetic rate.
        fixed_s_per_layer: Launch cost of one decoder layer.
        overlap: Fraction of the shorter of the two that hides behind the longer, in [0, 1]; 1 is
            the plain roofline.

    Source: roofline model, Williams et al. 2009, doi:10.1145/1498765.1498785. The fixed cost is the
        constant that measured decode speeds need beside it. The overlap departs from the source:
        see ``OVERLAP``.
    """
    moving = work.moved_bytes / bytes_per_s
    computing = work.work_flop / flop_per_s
    longer, shorter = max(moving, computing), min(moving, computing)
    return longer + (1 - overlap) * shorter + fixed_s_per_layer * work.num_layers


OVERLAP = (1.0, 0.5, 0.0)
"""Overlap of moving and computing at the fast, typical and slow end: an estimate.

Measured cases lie at both ends. llama.cpp on an RTX 3090 with 16-bit weights takes 1.10 times as
long for 8 tokens and 1.21 times for 16 as for one, the sum of both terms; Sequoia's A100 table
implies 1.07 for 128 tokens, nearly full overlap behind a host-bound step. Medusa's 64-node step on
an A100 costs 1.2 to 1.3 plain steps.
"""
LOW_BIT_RATE = (1.0, 0.4, 0.2)
"""Arithmetic rate with 4-bit and 8-bit weights over that with 16-bit ones: an estimate.

Weights are de-quantised for every tile. Good kernels hide it (fast end); llama.cpp's Q4_0 on an
RTX 3090 takes 2.17 times as long for 8 tokens as for one, about a quarter of its 16-bit rate.
"""


def _matrix_elements_per_token(model: ModelSpec) -> float:
    """Elements of weight matrices that one token multiplies with."""
    return sum(
        tensor.num_elements * repeats * share
        for tensor, repeats, share in model.active_tensors()
        if len(tensor.shape) >= 2
    )
