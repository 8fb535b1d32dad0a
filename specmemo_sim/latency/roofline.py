"""Work of a forward pass in bytes and FLOP, and the roofline time it takes."""

from dataclasses import dataclass, replace

from specmemo_sim.inputs.model import AttentionCache, LatentCache, Layer, ModelSpec, Role
from specmemo_sim.memory.kv_cache import CachePolicy, kv_bytes, tree_slot_bytes
from specmemo_sim.memory.weights import WeightStream


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


@dataclass(frozen=True, slots=True)
class Pass:
    """Tokens of one forward pass."""

    nodes: int
    """Tokens per sequence: tree nodes, or prompt tokens."""
    context: int
    """Committed tokens each query sees, windows aside."""
    batch: int
    """Sequences."""
    logits_rows: int
    """Tokens per sequence whose logits are computed."""


def target_work(
    model: ModelSpec, weights: WeightStream, cache: CachePolicy, forward: Pass
) -> StepWork:
    """Work of a model over one pass.

    Bytes: the weights this many tokens touch (routed experts by expectation), the keys, values and
    states that are read, and those written. A windowed layer reads its window only, whatever the
    cache keeps. FLOP: two per active weight and token (the LM head for the needed rows only), and
    attention's 2 * heads * (key size + value size) per query and visible token.

    Args:
        model: The target, or a draft model.
        weights: How many bytes of its weights a pass over so many tokens reads.
        cache: How keys and values are kept.
        forward: Tokens of the pass.
    """
    tokens = forward.nodes * forward.batch
    visible = replace(cache, drop_outside_window=True)
    moved = weights.read_bytes(tokens)
    moved += kv_bytes(model, forward.context, forward.batch, visible)
    moved += tree_slot_bytes(model, forward.nodes, forward.batch, cache)
    body, head = _matrix_elements(model)
    flop = 2.0 * body * tokens + 2.0 * head * forward.logits_rows * forward.batch
    flop += tokens * sum(_attention_flop(layer, forward, cache) for layer in model.layer_sequence())
    return StepWork(float(moved), flop, float(model.num_layers))


def _attention_flop(layer: Layer, forward: Pass, cache: CachePolicy) -> float:
    """FLOP of one query's scores and weighted sum in one layer."""
    total = 0.0
    for entry in layer.caches:
        seen = forward.context + forward.nodes / 2
        if isinstance(entry, AttentionCache):
            width = entry.key_head_dim + entry.value_head_dim
            seen = min(seen, entry.window) if entry.window else seen
        elif isinstance(entry, LatentCache):
            absorbed = 2 * entry.latent_dim + entry.rope_dim
            expanded = entry.key_head_dim + entry.value_head_dim
            width = expanded if cache.expand_latent else absorbed
        else:
            continue
        total += 2.0 * layer.num_heads * width * seen
    return total


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


def _matrix_elements(model: ModelSpec) -> tuple[float, float]:
    """(elements of weight matrices one token multiplies with, those of the LM head)."""
    body = head = 0.0
    for tensor, repeats, share in model.active_tensors():
        if len(tensor.shape) < 2:
            continue
        elements = tensor.num_elements * repeats * share
        if tensor.role in (Role.LM_HEAD, Role.EMBEDDING):
            head += elements
        else:
            body += elements
    return body, head
