"""``Candidate``: one complete configuration with its predicted memory and speed."""

from collections.abc import Iterator
from dataclasses import dataclass

from specmemo_sim.acceptance.expected import expected_acceptance
from specmemo_sim.acceptance.profile import AcceptanceProfile
from specmemo_sim.errors import InputError
from specmemo_sim.inputs.drafter import Drafter, MedusaHeads, NoDrafter
from specmemo_sim.inputs.dtypes import DType
from specmemo_sim.inputs.workload import Workload, mean_context
from specmemo_sim.latency.step import Speed, SpeedModel, SpeedSetup
from specmemo_sim.memory.breakdown import PLAIN, MemoryBreakdown, MemoryModel, Setup
from specmemo_sim.memory.buffers import BufferModel, TreeShape
from specmemo_sim.memory.kv_cache import CachePolicy, has_recurrent_state
from specmemo_sim.memory.weights import WeightBytes, weight_bytes, weight_stream
from specmemo_sim.planner.drafting import Proposal
from specmemo_sim.planner.precision import Tier
from specmemo_sim.planner.request import PlanRequest
from specmemo_sim.tree.build import chain
from specmemo_sim.tree.token_tree import TokenTree

ROOT_ONLY = TokenTree(parents=(-1,), ranks=(0,))
"""The tree of plain decoding."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A tier, a drafter and a tree, with what they cost and bring."""

    tier: Tier
    drafter: Drafter
    shape: TreeShape
    memory: MemoryBreakdown
    speed: Speed | None
    """None when acceptance is unknown."""
    tokens_per_step: float | None
    acceptance_basis: str
    proposal: Proposal | None = None
    fixed_tree: TokenTree | None = None

    @property
    def speculative(self) -> bool:
        """Whether it speculates at all."""
        return self.shape.num_nodes > 1

    @property
    def tokens_per_s(self) -> float:
        """Predicted tokens per second; 0 when unknown, so that it never wins."""
        return self.speed.tokens_per_s.typical if self.speed else 0.0

    def tree(self) -> TokenTree:
        """The token tree, root included."""
        if self.fixed_tree is not None:
            return self.fixed_tree
        if self.proposal is None or self.proposal.growth is None:
            return ROOT_ONLY
        return self.proposal.growth.tree_of_size(self.shape.num_nodes)


class TierModels:
    """Memory and speed of one tier; shared by all its candidates."""

    def __init__(self, request: PlanRequest, tier: Tier, dtype: DType) -> None:
        self.request = request
        self.tier = tier
        self._dtype = dtype
        self.weights: WeightBytes = weight_bytes(request.model, tier.format)
        self.cache = CachePolicy(tier.kv_dtype, request.drop_outside_window, request.expand_latent)
        # The drafter's cache keeps 16 bits whatever the target's has, as engines do by default.
        self.draft_cache = CachePolicy(dtype, request.drop_outside_window, request.expand_latent)
        plain_memory = self.memory_model(NoDrafter())
        self.budget = plain_memory.budget
        self.plain_memory = plain_memory.at(PLAIN)
        self.speed = SpeedModel(
            SpeedSetup(
                model=request.model,
                device=request.device,
                weights=weight_stream(request.model, tier.format),
                low_bit=self.weights.quantized_parameters > 0,
                compute_dtype=dtype,
                cache=self.cache,
                draft_cache=self.draft_cache,
                batch=request.workload.batch,
                mean_context=mean_context(request.workload, request.model.max_position_embeddings),
            )
        )

    def memory_model(
        self,
        drafter: Drafter,
        buffers: BufferModel | None = None,
        workload: Workload | None = None,
    ) -> MemoryModel:
        """The memory of this tier with a drafter; other buffers or workload than requested."""
        request = self.request
        return MemoryModel(
            Setup(
                model=request.model,
                device=request.device,
                drafter=drafter,
                workload=workload or request.workload,
                weight_bytes=self.weights.total,
                tower_bytes=self.weights.tower_bytes if request.with_tower else 0,
                activation_dtype=self._dtype,
                cache=self.cache,
                draft_cache=self.draft_cache,
                buffers=buffers or request.buffers,
                reserved_bytes=request.reserved_bytes,
            )
        )

    def plain(self) -> Candidate:
        """Plain decoding in this tier."""
        return Candidate(
            tier=self.tier,
            drafter=NoDrafter(),
            shape=PLAIN,
            memory=self.plain_memory,
            speed=self.speed.plain(),
            tokens_per_step=1.0,
            acceptance_basis="no speculation",
        )

    def speculative(self, proposal: Proposal) -> Iterator[Candidate]:
        """Every tree size of a proposal, smallest first."""
        memory = self.memory_model(proposal.drafter)
        if proposal.growth is None:
            yield self._without_acceptance(proposal, memory)
            return
        for point in proposal.growth.points[1:]:
            shape = TreeShape(point.num_nodes, point.num_leaves, point.depth)
            yield Candidate(
                tier=self.tier,
                drafter=proposal.drafter,
                shape=shape,
                memory=memory.at(shape),
                speed=self.speed.at(
                    proposal.drafter, point.num_nodes, point.depth, point.tokens_per_step
                ),
                tokens_per_step=point.tokens_per_step,
                acceptance_basis=proposal.acceptance_basis,
                proposal=proposal,
            )

    def with_tree(
        self,
        tree: TokenTree,
        profile: AcceptanceProfile,
        basis: str,
        *,
        buffers: BufferModel | None = None,
    ) -> Candidate:
        """A given tree with as many Medusa heads as it has levels.

        Raises:
            InputError: a branching tree on a target with recurrent layers.
        """
        if has_recurrent_state(self.request.model) and tree.num_leaves > 1:
            raise InputError(
                f"{self.request.model.name} has recurrent layers, which cannot verify a branching "
                "tree; give a chain"
            )
        ranks = max(tree.num_ranks, profile.num_measured_ranks)
        table = profile.rank_probabilities(min(ranks, profile.extended_to))
        tokens = expected_acceptance(tree, table).tokens_per_step
        drafter = MedusaHeads(num_heads=max(tree.depth, 1), dtype=self._dtype)
        shape = TreeShape(tree.num_nodes, tree.num_leaves, tree.depth)
        return Candidate(
            tier=self.tier,
            drafter=drafter,
            shape=shape,
            memory=self.memory_model(drafter, buffers).at(shape),
            speed=self.speed.at(drafter, tree.num_nodes, tree.depth, tokens),
            tokens_per_step=tokens,
            acceptance_basis=basis,
            fixed_tree=tree,
        )

    def _without_acceptance(self, proposal: Proposal, memory: MemoryModel) -> Candidate:
        """The default chain of five draft tokens: memory only, since acceptance is unknown."""
        nodes = min(_DEFAULT_CHAIN + 1, self.request.max_nodes)
        shape = TreeShape(nodes, 1, nodes - 1)
        return Candidate(
            tier=self.tier,
            drafter=proposal.drafter,
            shape=shape,
            memory=memory.at(shape),
            speed=None,
            tokens_per_step=None,
            acceptance_basis=proposal.acceptance_basis,
            proposal=proposal,
            fixed_tree=chain(nodes - 1),
        )


_DEFAULT_CHAIN = 5
"""Draft tokens of a chain whose acceptance is unknown; engines' documentation uses 3 to 5."""
