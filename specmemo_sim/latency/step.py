"""``SpeedModel``: tokens per second of plain and of speculative decoding, with intervals."""

from dataclasses import dataclass

from specmemo_sim.inputs.device import DeviceSpec
from specmemo_sim.inputs.drafter import Drafter
from specmemo_sim.inputs.dtypes import DType
from specmemo_sim.inputs.model import ModelSpec
from specmemo_sim.latency.drafting import draft_work
from specmemo_sim.latency.efficiency import Efficiency, efficiency_of
from specmemo_sim.latency.roofline import (
    LOW_BIT_RATE,
    NO_WORK,
    OVERLAP,
    Pass,
    StepWork,
    roofline_seconds,
    target_work,
)
from specmemo_sim.memory.kv_cache import CachePolicy
from specmemo_sim.memory.weights import WeightStream

_ENDS = (0, 1, 2)
"""Fast, typical and slow end of the efficiency priors."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A prediction with the interval that the efficiency priors give it."""

    low: float
    typical: float
    high: float


@dataclass(frozen=True, slots=True)
class Speed:
    """Predicted speed of one configuration."""

    step_s: Estimate
    """One step: drafting, verification, bookkeeping."""
    tokens_per_step: float
    """Mean acceptance length, bonus token included; 1 for plain decoding."""
    tokens_per_s: Estimate
    """Over all sequences of the batch."""
    compute_bound: bool
    """Whether verification is past the ridge: arithmetic takes longer than moving bytes."""


@dataclass(frozen=True, slots=True)
class SpeedSetup:
    """A target on a device, in one precision, whose speed is asked for."""

    model: ModelSpec
    device: DeviceSpec
    weights: WeightStream
    """How many bytes of weights a pass over so many tokens reads."""
    low_bit: bool
    """Whether weights are held in fewer than 16 bits."""
    compute_dtype: DType
    cache: CachePolicy
    draft_cache: CachePolicy
    batch: int
    mean_context: int
    """Tokens in the cache on average over the run."""


class SpeedModel:
    """Step times of a setup for any drafter and tree size.

    Raises:
        InputError: the device has no known bandwidth or no arithmetic rate.
    """

    def __init__(self, setup: SpeedSetup) -> None:
        self.setup = setup
        self.efficiency: Efficiency = efficiency_of(setup.device)
        self._bytes_per_s = setup.device.require_bandwidth()
        self._flop_per_s = setup.device.require_dense_rate(setup.compute_dtype)
        self._low_bit_rate = LOW_BIT_RATE if setup.low_bit else (1.0, 1.0, 1.0)
        self._verifications: dict[int, StepWork] = {}

    def plain(self) -> Speed:
        """Speed of plain decoding: one token a step."""
        return self._speed(self.verification(1), NO_WORK, 1.0)

    def at(self, drafter: Drafter, num_nodes: int, depth: int, tokens_per_step: float) -> Speed:
        """Speed when every step verifies ``num_nodes`` nodes of a tree ``depth`` levels deep.

        Args:
            drafter: What proposes the tree.
            num_nodes: Tokens verified per sequence and step, root included.
            depth: Levels the drafter proposes.
            tokens_per_step: Mean acceptance length, bonus included.
        """
        setup = self.setup
        drafting = draft_work(
            drafter,
            setup.model,
            setup.draft_cache,
            setup.compute_dtype,
            Pass(1, setup.mean_context, setup.batch, 1),
            depth=depth,
        )
        return self._speed(self.verification(num_nodes), drafting, tokens_per_step)

    def verification(self, num_nodes: int) -> StepWork:
        """Work of the target over ``num_nodes`` tokens a sequence, at the mean context."""
        if num_nodes not in self._verifications:
            context = self.setup.mean_context
            self._verifications[num_nodes] = self._target(num_nodes, context, num_nodes)
        return self._verifications[num_nodes]

    def prefill_s(self, prompt_tokens: int, chunk: int) -> Estimate:
        """Seconds to process a prompt in chunks from an empty cache; one row of logits each."""
        work = NO_WORK
        for start in range(0, prompt_tokens, chunk):
            work += self._target(min(chunk, prompt_tokens - start), start, 1)
        return Estimate(*(self._seconds(work, end) for end in _ENDS))

    def _target(self, nodes: int, context: int, logits_rows: int) -> StepWork:
        setup = self.setup
        forward = Pass(nodes, context, setup.batch, logits_rows)
        return target_work(setup.model, setup.weights, setup.cache, forward)

    def _speed(self, verification: StepWork, drafting: StepWork, tokens_per_step: float) -> Speed:
        # Drafting and verification are separate passes: their bytes do not overlap in time.
        low, typical, high = (
            self._seconds(verification, end) + self._seconds(drafting, end) for end in _ENDS
        )
        produced = self.setup.batch * tokens_per_step
        bytes_per_s = self._bytes_per_s * self.efficiency.bandwidth_fraction.typical
        flop_per_s = self._flop_per_s * self.efficiency.compute_fraction.typical
        flop_per_s *= self._low_bit_rate[1]
        return Speed(
            step_s=Estimate(low, typical, high),
            tokens_per_step=tokens_per_step,
            tokens_per_s=Estimate(produced / high, produced / typical, produced / low),
            compute_bound=verification.work_flop / flop_per_s
            > verification.moved_bytes / bytes_per_s,
        )

    def _seconds(self, work: StepWork, end: int) -> float:
        """Seconds at the fast (0), typical (1) or slow (2) end of the efficiency priors."""
        moving, computing = self.efficiency.bandwidth_fraction, self.efficiency.compute_fraction
        fixed = self.efficiency.fixed_cost_per_layer
        return roofline_seconds(
            work,
            bytes_per_s=self._bytes_per_s * (moving.high, moving.typical, moving.low)[end],
            flop_per_s=self._flop_per_s
            * (computing.high, computing.typical, computing.low)[end]
            * self._low_bit_rate[end],
            fixed_s_per_layer=(fixed.low, fixed.typical, fixed.high)[end],
            overlap=OVERLAP[end],
        )
