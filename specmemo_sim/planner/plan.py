"""``Plan``: the file that carries a chosen configuration to a backend, an engine or a person."""

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from specmemo_sim.errors import PlanFileError
from specmemo_sim.inputs.device import DeviceSpec
from specmemo_sim.inputs.drafter import Drafter, MedusaHeads, MtpLayers, NoDrafter
from specmemo_sim.inputs.dtypes import DType
from specmemo_sim.inputs.files import read_json, write_text_atomically
from specmemo_sim.inputs.model import ModelSpec
from specmemo_sim.inputs.workload import Workload, token_budget
from specmemo_sim.memory.breakdown import PART_KEYS, Basis
from specmemo_sim.memory.buffers import BufferModel
from specmemo_sim.memory.kv_cache import has_recurrent_state
from specmemo_sim.planner.precision import WeightPrecision
from specmemo_sim.spec import Spec, validated
from specmemo_sim.tree.token_tree import TokenTree

SCHEMA_VERSION = 1
_MAX_PLAN_BYTES = 32 * 2**20

SizeBytes = Annotated[int, Field(ge=0, le=2**62, strict=True)]
Rate = Annotated[float, Field(ge=0, le=1e15)]


class Span(Spec):
    """A predicted quantity with its interval."""

    low: Rate
    typical: Rate
    high: Rate

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.low <= self.typical <= self.high:
            raise ValueError("low, typical and high must not decrease")
        return self


class PlannedPart(Spec):
    """One line of the predicted memory, in bytes."""

    label: str = Field(max_length=100)
    low_bytes: SizeBytes
    typical_bytes: SizeBytes
    high_bytes: SizeBytes
    basis: Basis
    detail: str = Field(default="", max_length=200)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.low_bytes <= self.typical_bytes <= self.high_bytes:
            raise ValueError("low_bytes, typical_bytes and high_bytes must not decrease")
        return self


class Precision(Spec):
    """Number formats of the plan."""

    weights: WeightPrecision
    effective_bits_per_weight: float = Field(gt=0, le=64)
    """Stored bits over parameters, scales and unquantised tensors included."""
    kv_cache: DType
    draft_kv_cache: DType
    activations: DType


class KvBudget(Spec):
    """Slots the KV cache must have, per sequence."""

    tokens: int = Field(ge=1, le=2**26)
    """Committed tokens at the end of the last turn."""
    tree_slots: int = Field(ge=0, le=4096)
    """Slots beyond them, one per node of the tree; 0 without speculation."""
    turns_held: int | None = Field(default=None, ge=0)
    """Whole turns that fit the budget at once; None when only a context was asked for."""
    truncated: bool = False
    """Oldest turns must be dropped before the last one ends."""
    bytes_per_token: SizeBytes
    """Of one sequence, while no window is full."""
    drop_outside_window: bool = False
    expand_latent: bool = False


class PlannedMemory(Spec):
    """Predicted peak memory."""

    parts: dict[str, PlannedPart]
    total_low_bytes: SizeBytes
    total_typical_bytes: SizeBytes
    total_high_bytes: SizeBytes
    usable_bytes: SizeBytes
    margin_bytes: Annotated[int, Field(ge=-(2**62), le=2**62, strict=True)]
    """Usable less the high end of the total."""
    buffer_model: BufferModel
    verification_buffer_bytes: SizeBytes
    """Logits, gathers and tree structures of one step: what the paper calls buffers."""
    prefill_peak_bytes: SizeBytes
    verification_peak_bytes: SizeBytes

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        for end in ("low", "typical", "high"):
            total = sum(getattr(part, f"{end}_bytes") for part in self.parts.values())
            stated = getattr(self, f"total_{end}_bytes")
            if total != stated:
                raise ValueError(f"the parts add up to {total} B, total_{end}_bytes says {stated}")
        if self.margin_bytes != self.usable_bytes - self.total_high_bytes:
            raise ValueError("margin_bytes is not usable_bytes less total_high_bytes")
        return self


class PlannedSpeed(Spec):
    """Predicted speed; every span comes from efficiency priors, not from a measurement."""

    tokens_per_step: float = Field(ge=1, le=4096)
    tokens_per_step_measured_ranks: float | None = Field(default=None, ge=1, le=4096)
    """From measured ranks of the heads alone, a lower bound; None without Medusa heads."""
    acceptance_basis: str = Field(max_length=300)
    step_s: Span
    tokens_per_s: Span
    plain_tokens_per_s: Span
    speedup: Span
    """Over plain decoding in the same precision on the same device."""
    prefill_s: Span
    """Seconds to process the longest prompt."""
    compute_bound: bool
    efficiency_class: str = Field(max_length=60)


class Plan(Spec):
    """A configuration with everything that is needed to run it and to check its predictions."""

    schema_version: Literal[1] = 1
    kind: Literal["specmemo-plan"] = "specmemo-plan"
    specmemo_version: str = Field(max_length=40)
    fits: bool
    model: ModelSpec
    device: DeviceSpec
    workload: Workload
    drafter: Drafter
    tree: tuple[tuple[Annotated[int, Field(ge=0, le=4096, strict=True)], ...], ...] = Field(
        max_length=4096
    )
    """Paths of child ranks from the root, root excluded; empty for plain decoding."""
    precision: Precision
    kv_budget: KvBudget
    memory: PlannedMemory
    speed: PlannedSpeed | None
    """None when acceptance is unknown."""
    not_modelled: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        tree = self.token_tree()
        for problem in (
            self._tree_problem(tree),
            self._budget_problem(tree),
            self._memory_problem(),
        ):
            if problem:
                raise ValueError(problem)
        return self

    def _tree_problem(self, tree: TokenTree) -> str:
        drafter = self.drafter
        if isinstance(drafter, NoDrafter) and tree.num_nodes > 1:
            return "a plan without drafter cannot have a tree"
        if isinstance(drafter, MedusaHeads) and tree.depth > drafter.num_heads:
            return f"a tree {tree.depth} levels deep needs as many heads, not {drafter.num_heads}"
        if isinstance(drafter, MtpLayers) and not self.model.mtp:
            return "the model has no MTP layer to draft with"
        if tree.num_leaves > 1 and has_recurrent_state(self.model):
            return "a model with recurrent layers cannot verify a branching tree"
        if self.speed is not None and self.speed.tokens_per_step > tree.depth + 1:
            return f"a tree {tree.depth} levels deep gives at most {tree.depth + 1} tokens a step"
        return ""

    def _budget_problem(self, tree: TokenTree) -> str:
        nodes = tree.num_nodes
        if self.kv_budget.tree_slots != (nodes if nodes > 1 else 0):
            return (
                f"kv_budget.tree_slots is {self.kv_budget.tree_slots} for a tree of {nodes} nodes"
            )
        tokens = token_budget(self.workload, self.model.max_position_embeddings).tokens
        if self.kv_budget.tokens != tokens:
            return f"kv_budget.tokens is {self.kv_budget.tokens}, the workload needs {tokens}"
        return ""

    def _memory_problem(self) -> str:
        if tuple(self.memory.parts) != PART_KEYS:
            return f"memory.parts must be {', '.join(PART_KEYS)}"
        if self.memory.usable_bytes != self.device.usable_bytes:
            return "memory.usable_bytes is not what the device says"
        if self.fits != (self.memory.margin_bytes >= 0):
            return "fits contradicts memory.margin_bytes"
        return ""

    def token_tree(self) -> TokenTree:
        """The tree of the plan; a single node for plain decoding."""
        return TokenTree.from_paths(self.tree)


def plan_document(plan: Plan) -> dict[str, Any]:
    """The plan as a JSON object with its digest, ready to be written."""
    content = plan.model_dump(mode="json")
    return {**content, "digest": _digest(content)}


def write_plan(plan: Plan, path: str | Path) -> None:
    """Write the plan file in one piece.

    Raises:
        InputError: the path cannot be written; nothing is left behind.
    """
    text = json.dumps(plan_document(plan), indent=2, ensure_ascii=False) + "\n"
    write_text_atomically(path, text)


def read_plan(path: str | Path) -> Plan:
    """The plan in a file.

    Raises:
        PlanFileError: not a plan, another version, an unknown key, an impossible value, or a
            digest that does not match the content; one line.
    """
    data = read_json(path, max_bytes=_MAX_PLAN_BYTES, error=PlanFileError)
    if data.get("kind") != "specmemo-plan":
        raise PlanFileError(
            f"{path}: not a SpecMemo plan; write one with specmemo plan ... -o FILE"
        )
    version = data.get("schema_version")
    if version != SCHEMA_VERSION or isinstance(version, bool):
        raise PlanFileError(
            f"{path}: plan version {str(version)[:20]!r} cannot be read, only {SCHEMA_VERSION}; "
            "make the plan again with this release"
        )
    digest = data.pop("digest", None)
    plan = validated(Plan, data, str(path), PlanFileError)
    if digest != _digest(plan.model_dump(mode="json")):
        raise PlanFileError(
            f"{path}: the digest does not match, so the plan was altered after it was written; "
            "make it again"
        )
    return plan


def _digest(content: dict[str, Any]) -> str:
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()
