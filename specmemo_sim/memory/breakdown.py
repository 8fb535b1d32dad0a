"""``MemoryModel``: the memory of one configuration, part by part, for any tree size."""

from dataclasses import dataclass
from enum import StrEnum

from specmemo_sim.inputs.device import DeviceSpec
from specmemo_sim.inputs.drafter import Drafter, DraftModel, EagleHead, MedusaHeads, NoDrafter
from specmemo_sim.inputs.dtypes import DType
from specmemo_sim.inputs.model import ModelSpec
from specmemo_sim.inputs.workload import TokenBudget, Workload, token_budget, turn_tokens
from specmemo_sim.memory.activations import pass_activations
from specmemo_sim.memory.buffers import (
    BufferModel,
    TreeShape,
    by_node_logits_bytes,
    paper_buffer_bytes,
    reference_buffer_bytes,
    tree_structure_bytes,
)
from specmemo_sim.memory.draft import draft_kv_bytes, draft_weight_bytes
from specmemo_sim.memory.kv_cache import (
    CachePolicy,
    has_recurrent_state,
    kv_bytes,
    tree_slot_bytes,
)
from specmemo_sim.memory.overhead import Interval, allocator_slack_bytes, device_context_bytes

PLAIN = TreeShape(num_nodes=1, num_leaves=1, depth=0)
"""The shape of plain decoding: one token a step, no tree."""


PART_KEYS = (
    "target_weights",
    "tower_weights",
    "draft_weights",
    "kv_target",
    "kv_tree_slots",
    "kv_drafter",
    "activations",
    "tree_buffers",
    "device_context",
    "allocator_slack",
    "reserved",
)
"""Keys of a breakdown's parts, in order."""
_RECURRENT_FACTORS = (1, 2, 4)
"""Activations of recurrent models over what is counted: fused kernels hold the projections about
twice; plain torch fall-backs were traced at 14 to 36 times and are not covered."""


class Basis(StrEnum):
    """Where a number of bytes comes from."""

    EXACT = "exact"
    """Follows from shapes and number formats alone."""
    COMPUTED = "computed"
    """Counted for the stated execution style."""
    ESTIMATE = "estimate"
    """A prior with an interval; nothing on this device was measured."""


@dataclass(frozen=True, slots=True)
class MemoryPart:
    """One line of the breakdown, in bytes; low, typical and high are equal unless estimated."""

    key: str
    label: str
    low_bytes: int
    typical_bytes: int
    high_bytes: int
    basis: Basis
    detail: str = ""


@dataclass(frozen=True, slots=True)
class MemoryBreakdown:
    """Parts that add up to the total; the verdict of a plan counts ``high_bytes``."""

    parts: tuple[MemoryPart, ...]
    prefill_peak_bytes: int
    """Activations and logits of the largest prefill pass."""
    verification_peak_bytes: int
    """Activations, logits and gathers of one verification step, tree structures excluded."""
    verification_buffer_bytes: int
    """What the paper calls buffers: logits, gathers and tree structures of one step."""

    @property
    def low_bytes(self) -> int:
        """Sum of the low ends."""
        return sum(part.low_bytes for part in self.parts)

    @property
    def typical_bytes(self) -> int:
        """Sum of the typical values."""
        return sum(part.typical_bytes for part in self.parts)

    @property
    def high_bytes(self) -> int:
        """Sum of the high ends."""
        return sum(part.high_bytes for part in self.parts)

    def part(self, key: str) -> MemoryPart:
        """The part of that key; every breakdown has the same keys."""
        return next(part for part in self.parts if part.key == key)


@dataclass(frozen=True, slots=True)
class Setup:
    """One configuration whose memory is asked for."""

    model: ModelSpec
    device: DeviceSpec
    drafter: Drafter
    workload: Workload
    weight_bytes: int
    """Bytes of the target's weights in the chosen format, towers and MTP layers excluded."""
    tower_bytes: int
    activation_dtype: DType
    cache: CachePolicy
    draft_cache: CachePolicy
    buffers: BufferModel = BufferModel.BY_NODE
    reserved_bytes: int = 0
    """What other programs hold of the usable memory."""


class MemoryModel:
    """The memory of a setup; everything that does not depend on the tree is computed once."""

    def __init__(self, setup: Setup) -> None:
        model, workload = setup.model, setup.workload
        self.setup = setup
        self.budget: TokenBudget = token_budget(workload, model.max_position_embeddings)
        tokens, batch = self.budget.tokens, workload.batch
        self._element_bytes = setup.activation_dtype.bits // 8
        self._draft_weights = draft_weight_bytes(setup.drafter, model, setup.activation_dtype)
        self._kv = kv_bytes(model, tokens, batch, setup.cache)
        self._slot = tree_slot_bytes(model, 2, batch, setup.cache) - tree_slot_bytes(
            model, 1, batch, setup.cache
        )
        self._root_slot = tree_slot_bytes(model, 1, batch, setup.cache)
        self._prefill = self._prefill_peak()
        self._context = device_context_bytes(setup.device)
        self._slack = allocator_slack_bytes(setup.device)

    def at(self, shape: TreeShape) -> MemoryBreakdown:
        """The breakdown when every step verifies a tree of this shape (``PLAIN``: no tree)."""
        buffers = self._verification_buffers(shape)
        structure = self._structure(shape)
        verification = self._verification_peak(shape)
        transient = max(self._prefill, verification)
        # Plain decoding writes its one token inside the budget; a tree needs slots beyond it.
        slots = self._root_slot + (shape.num_nodes - 1) * self._slot if shape.num_nodes > 1 else 0
        setup = self.setup
        parts = (
            _exact(
                "target_weights",
                "target weights",
                setup.weight_bytes,
                "an upper bound" if setup.model.stored_quantized else "",
            ),
            _exact("tower_weights", "vision/audio tower", setup.tower_bytes),
            _exact("draft_weights", "draft weights", self._draft_weights),
            _exact("kv_target", "KV cache, target", self._kv, f"{self.budget.tokens:,} tokens"),
            _exact("kv_tree_slots", "KV cache, tree slots", slots, f"{shape.num_nodes} nodes"),
            _exact("kv_drafter", "KV cache, drafter", self._draft_kv(shape.depth)),
            self._activations(transient),
            _computed("tree_buffers", "tree buffers", structure),
            _estimate("device_context", "device context", self._context),
            _estimate("allocator_slack", "allocator slack", self._slack),
            _exact("reserved", "other programs", setup.reserved_bytes, "as stated"),
        )
        return MemoryBreakdown(parts, self._prefill, verification, buffers + structure)

    def _draft_kv(self, depth: int) -> int:
        setup = self.setup
        return draft_kv_bytes(
            setup.drafter,
            setup.model,
            self.budget.tokens,
            setup.workload.batch,
            setup.draft_cache,
            depth=depth,
        )

    def _activations(self, transient: int) -> MemoryPart:
        """The transient peak; an interval where it hangs on which kernels a recurrent layer has."""
        key, label = "activations", "activations, logits"
        if not has_recurrent_state(self.setup.model):
            return _computed(key, label, transient)
        low, typical, high = (factor * transient for factor in _RECURRENT_FACTORS)
        return _estimate(key, label, Interval(low, typical, high))

    def _prefill_peak(self) -> int:
        """Largest prefill pass of target or drafter, masks and kept features included."""
        setup, workload = self.setup, self.setup.workload
        chunk = min(self.budget.prompt_tokens, workload.prefill_chunk)
        tokens = workload.batch * chunk
        _, output = turn_tokens(workload, setup.model.max_position_embeddings)
        behind_prefix = self.budget.tokens > chunk + output
        # A pass behind a prefix needs its mask twice: as booleans, and cast to the scores' type.
        mask = tokens * self.budget.tokens * (1 + self._element_bytes) if behind_prefix else 0
        models = [setup.model]
        if isinstance(setup.drafter, DraftModel):
            models.append(setup.drafter.model)
        passes = [
            pass_activations(model, tokens, workload.batch, element_bytes=self._element_bytes)
            for model in models
        ]
        features = tokens * _kept_features(setup.drafter) * self._element_bytes
        return max(entry.peak_bytes for entry in passes) + mask + features

    def _verification_peak(self, shape: TreeShape) -> int:
        setup = self.setup
        rows = setup.workload.batch * shape.num_nodes
        layers = pass_activations(setup.model, rows, 0, element_bytes=self._element_bytes)
        buffers = self._verification_buffers(shape)
        return max(layers.peak_bytes, layers.logits_bytes + buffers)

    def _verification_buffers(self, shape: TreeShape) -> int:
        setup, size = self.setup, self._element_bytes
        batch, vocab = setup.workload.batch, setup.model.vocab_size
        heads = setup.drafter.num_heads if isinstance(setup.drafter, MedusaHeads) else 0
        if shape.num_nodes > 1 and setup.buffers is BufferModel.PAPER:
            return paper_buffer_bytes(shape, vocab, size, batch)
        if shape.num_nodes > 1 and setup.buffers is BufferModel.REFERENCE:
            return reference_buffer_bytes(shape, heads, vocab, size, batch)
        copies = setup.model.logits_copies
        return copies * by_node_logits_bytes(shape.num_nodes, heads, vocab, size, batch)

    def _structure(self, shape: TreeShape) -> int:
        if shape.num_nodes == 1 or isinstance(self.setup.drafter, NoDrafter):
            return 0
        return tree_structure_bytes(
            shape, self.budget.tokens, self._element_bytes, self.setup.workload.batch
        )


def _kept_features(drafter: Drafter) -> int:
    """Elements per prompt token of target features that the drafter's own prefill reads."""
    if not isinstance(drafter, EagleHead):
        return 0
    return drafter.target_hidden_size * (3 if drafter.kind == "eagle3" else 1)


def _exact(key: str, label: str, size_bytes: int, detail: str = "") -> MemoryPart:
    return MemoryPart(key, label, size_bytes, size_bytes, size_bytes, Basis.EXACT, detail)


def _computed(key: str, label: str, size_bytes: int) -> MemoryPart:
    return MemoryPart(key, label, size_bytes, size_bytes, size_bytes, Basis.COMPUTED)


def _estimate(key: str, label: str, interval: Interval) -> MemoryPart:
    return MemoryPart(key, label, interval.low, interval.typical, interval.high, Basis.ESTIMATE)
