"""``plan_search``: the fastest configuration that fits, or what stands in the way."""

from dataclasses import dataclass, replace
from enum import StrEnum

from specmemo_sim.acceptance.expected import expected_acceptance
from specmemo_sim.acceptance.profile import AcceptanceProfile
from specmemo_sim.errors import InputError
from specmemo_sim.inputs.drafter import MedusaHeads
from specmemo_sim.inputs.dtypes import DType
from specmemo_sim.memory.breakdown import MemoryBreakdown
from specmemo_sim.memory.buffers import BufferModel
from specmemo_sim.memory.kv_cache import has_latent, has_recurrent_state
from specmemo_sim.planner.candidates import Candidate, TierModels
from specmemo_sim.planner.drafting import (
    DrafterChoice,
    Proposal,
    acceptance_basis,
    chain_drafter,
    chain_proposal,
    medusa_proposals,
    profile_for,
)
from specmemo_sim.planner.precision import PrecisionPolicy, Tier, activation_dtype, tiers
from specmemo_sim.planner.request import PlanRequest
from specmemo_sim.tree.tree_file import load_tree

_SMALLEST_TREE = 2
DEFAULT_TREE = "mc_sim_7b_63"
"""Medusa's default tree, 64 nodes with the root: what a plan is compared with."""


class SearchStatus(StrEnum):
    """How a search ended."""

    FITS = "fits"
    DOES_NOT_FIT = "does not fit"


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The chosen configuration with what it is compared to."""

    request: PlanRequest
    status: SearchStatus
    usable_bytes: int
    best: Candidate
    """The fastest that fits; when none fits, the one that needs least memory."""
    plain: Candidate
    """Plain decoding in the best one's precision."""
    reference: Candidate | None
    """Medusa's default tree with the paper's buffers in the same precision, if it has a meaning."""
    alternatives: tuple[Candidate, ...]
    """Fastest of each other weight precision that fits."""
    compute_dtype: DType
    models: TierModels
    """Memory and speed of the best one's precision."""
    profile: AcceptanceProfile | None
    """Accuracies behind the acceptance of Medusa heads; None for other drafters."""
    left_out: Candidate | None
    """Fastest speculation that does not fit, when plain decoding was chosen for that reason."""
    num_evaluated: int
    notes: tuple[str, ...]

    def tokens_from_measured_ranks(self, candidate: Candidate) -> float | None:
        """Tokens per step from measured ranks alone, a lower bound; None without heads."""
        if self.profile is None or not isinstance(candidate.drafter, MedusaHeads):
            return None
        tree = candidate.tree()
        ranks = max(tree.num_ranks, 1)
        table = self.profile.rank_probabilities(ranks, extrapolate=False)
        return expected_acceptance(tree, table).tokens_per_step

    @property
    def tokens(self) -> int:
        """Tokens of one sequence at the end of its last turn."""
        return self.models.budget.tokens

    @property
    def lowered(self) -> bool:
        """Whether weights or cache are held in fewer bits than the first choice has."""
        first = tiers(
            self.request.model,
            self.request.precision,
            self.request.kv_precision,
            self.compute_dtype,
        )[0]
        fits = self.status is SearchStatus.FITS
        automatic = self.request.precision is not PrecisionPolicy.ANY
        return fits and automatic and self.best.tier.label != first.label

    @property
    def margin_bytes(self) -> int:
        """Usable bytes less the high end of the best one's memory; negative if it does not fit."""
        return self.usable_bytes - self.best.memory.high_bytes


def plan_search(request: PlanRequest) -> SearchResult:
    """The fastest configuration whose memory fits, over precision, heads, tree size and KV format.

    Generalises SpecMemo's Algorithms 1 and 2 (arXiv:2506.01986): instead of lowering heads, then
    precision, then the tree by fixed steps, every combination a policy allows is priced and the
    highest predicted tokens per second wins. Under ``auto`` a lower precision is considered only
    when nothing fits in the higher ones; under ``any`` all compete. No speculation is a candidate.

    Raises:
        InputError: an impossible request (unknown profile, missing draft model, no rate known).
    """
    dtype, dtype_note = activation_dtype(request.model, request.device)
    allowed = tiers(request.model, request.precision, request.kv_precision, dtype)
    search = _Search(request, dtype)
    best, considered = search.run(allowed)
    if best is None:
        smallest = min(search.smallest, key=lambda candidate: candidate.memory.high_bytes)
        return search.result(SearchStatus.DOES_NOT_FIT, smallest, (), dtype_note)
    others = search.alternatives(best, considered)
    return search.result(SearchStatus.FITS, best, others, dtype_note)


def least_memory(request: PlanRequest) -> MemoryBreakdown:
    """The least memory that any allowed precision and the wanted drafter can do with.

    Without speculation where that is allowed, else with the given tree or the shortest chain.

    Raises:
        InputError: an impossible request, as for ``plan_search``.
    """
    dtype, _ = activation_dtype(request.model, request.device)
    small = replace(request, max_nodes=_SMALLEST_TREE)
    search = _Search(small, dtype)
    options = [
        candidate.memory
        for tier in tiers(small.model, small.precision, small.kv_precision, dtype)
        for candidate in search.candidates(tier)
    ]
    return min(options, key=lambda memory: memory.high_bytes)


class _Search:
    """One search: proposals, tiers already priced, counters."""

    def __init__(self, request: PlanRequest, dtype: DType) -> None:
        self.request = request
        self.dtype = dtype
        self.usable = request.device.usable_bytes
        self.profile: AcceptanceProfile | None = None
        self.proposals = self._proposals()
        self.models: dict[str, TierModels] = {}
        self.smallest: list[Candidate] = []
        self.num_evaluated = 0

    def run(self, allowed: list[Tier]) -> tuple[Candidate | None, dict[str, Candidate]]:
        """(the winner, the best that fits per tier) over the allowed tiers."""
        found: dict[str, Candidate] = {}
        for tier in allowed:
            best = self.best_of(tier)
            if best is None:
                continue
            found[tier.label] = best
            if self.request.precision is not PrecisionPolicy.ANY:
                return best, found
        return max(found.values(), key=_rank, default=None), found

    def best_of(self, tier: Tier) -> Candidate | None:
        """The fastest candidate of a tier that fits, None when none does."""
        candidates = self.candidates(tier)
        self.num_evaluated += len(candidates)
        self.smallest.append(min(candidates, key=lambda entry: entry.memory.high_bytes))
        fitting = [entry for entry in candidates if entry.memory.high_bytes <= self.usable]
        return max(fitting, key=_rank, default=None)

    def tier_models(self, tier: Tier) -> TierModels:
        """Memory and speed of a tier, made once."""
        if tier.label not in self.models:
            self.models[tier.label] = TierModels(self.request, tier, self.dtype)
        return self.models[tier.label]

    def alternatives(self, best: Candidate, found: dict[str, Candidate]) -> tuple[Candidate, ...]:
        """The best that fits of every other weight precision, with the winner's KV type."""
        if self.request.precision not in (PrecisionPolicy.AUTO, PrecisionPolicy.ANY):
            return ()
        every = tiers(
            self.request.model, PrecisionPolicy.ANY, self.request.kv_precision, self.dtype
        )
        others = []
        for tier in every:
            if tier.weights is best.tier.weights or tier.kv_dtype is not best.tier.kv_dtype:
                continue
            candidate = found.get(tier.label) or self.best_of(tier)
            if candidate is not None:
                others.append(candidate)
        return tuple(others)

    def result(
        self,
        status: SearchStatus,
        best: Candidate,
        alternatives: tuple[Candidate, ...],
        dtype_note: str,
    ) -> SearchResult:
        """Everything a report needs."""
        models = self.tier_models(best.tier)
        return SearchResult(
            request=self.request,
            status=status,
            usable_bytes=self.usable,
            best=best,
            plain=models.plain(),
            reference=self._reference(models),
            alternatives=alternatives,
            compute_dtype=self.dtype,
            models=models,
            profile=self.profile,
            left_out=self._left_out(best),
            num_evaluated=self.num_evaluated,
            notes=tuple(note for note in (dtype_note, *self._notes()) if note),
        )

    def candidates(self, tier: Tier) -> list[Candidate]:
        """All configurations of a tier: plain decoding where allowed, each tree of a proposal."""
        models = self.tier_models(tier)
        request = self.request
        if request.tree is not None and self.profile is not None:
            basis = acceptance_basis(self.profile, request.model)
            return [models.with_tree(request.tree, self.profile, basis)]
        candidates = [models.plain()] if self._plain_allowed() else []
        for proposal in self.proposals:
            candidates += models.speculative(proposal)
        return candidates

    def _left_out(self, best: Candidate) -> Candidate | None:
        """The fastest speculation that would beat plain decoding but does not fit."""
        if best.speculative or self.request.drafter is DrafterChoice.NONE:
            return None
        others = [c for c in self.candidates(best.tier) if c.tokens_per_s > best.tokens_per_s]
        return max(others, key=_rank, default=None)

    def _plain_allowed(self) -> bool:
        """Plain decoding competes unless the user asked for a drafter whose speed is unknown."""
        return all(proposal.growth is not None for proposal in self.proposals)

    def _proposals(self) -> list[Proposal]:
        request = self.request
        choice = request.drafter
        if choice in (DrafterChoice.AUTO, DrafterChoice.MEDUSA):
            self.profile = profile_for(request.model, request.profile)
            return medusa_proposals(
                self.profile,
                request.model,
                self.dtype,
                max_heads=request.max_heads,
                max_nodes=request.max_nodes,
            )
        if request.tree is not None:
            raise InputError(
                f"--tree goes with Medusa heads, not with --drafter {choice.value}; "
                "drop one of them"
            )
        if choice is DrafterChoice.NONE:
            return []
        # A head's 16-bit weights are held in the type the device computes in.
        head = request.head.replace(dtype=self.dtype) if request.head else None
        drafter = chain_drafter(choice, request.model, head, request.draft_model)
        return [chain_proposal(drafter, request.acceptance_rate, max_nodes=request.max_nodes)]

    def _reference(self, models: TierModels) -> Candidate | None:
        if self.profile is None or has_recurrent_state(self.request.model):
            return None
        return models.with_tree(
            load_tree(DEFAULT_TREE),
            self.profile,
            acceptance_basis(self.profile, self.request.model),
            buffers=BufferModel.PAPER,
        )

    def _notes(self) -> list[str]:
        model = self.request.model
        notes = []
        if has_recurrent_state(model):
            notes.append(
                "recurrent layers cannot verify a branching tree: only chains are considered, "
                "and each drafted token keeps a copy of the state"
            )
        if has_latent(model):
            kept = "expanded heads" if self.request.expand_latent else "the compressed latent"
            notes.append(f"MLA cache holds {kept}")
        return notes


def _rank(candidate: Candidate) -> tuple[float, int]:
    """Faster first; of equally fast ones the one that needs less memory."""
    return candidate.tokens_per_s, -candidate.memory.high_bytes
