"""``PlanRequest``: everything a plan is asked for."""

from dataclasses import dataclass, field

from specmemo_sim.inputs.device import DeviceSpec
from specmemo_sim.inputs.drafter import EagleHead
from specmemo_sim.inputs.model import ModelSpec
from specmemo_sim.inputs.workload import Workload
from specmemo_sim.memory.buffers import BufferModel
from specmemo_sim.planner.drafting import DrafterChoice
from specmemo_sim.planner.precision import KvPrecision, PrecisionPolicy
from specmemo_sim.tree.token_tree import TokenTree

DEFAULT_MAX_NODES = 128
DEFAULT_MAX_HEADS = 5


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What to plan, for which device, and what the planner may choose."""

    model: ModelSpec
    device: DeviceSpec
    workload: Workload = field(default_factory=Workload)
    drafter: DrafterChoice = DrafterChoice.AUTO
    head: EagleHead | None = None
    """Shape of an EAGLE head."""
    draft_model: ModelSpec | None = None
    acceptance_rate: float | None = None
    """Probability per drafted token, for chain drafters."""
    profile: str | None = None
    """Name of the acceptance profile; None chooses by target."""
    precision: PrecisionPolicy = PrecisionPolicy.AUTO
    kv_precision: KvPrecision = KvPrecision.AUTO
    max_heads: int = DEFAULT_MAX_HEADS
    max_nodes: int = DEFAULT_MAX_NODES
    tree: TokenTree | None = None
    """A tree to use as it is instead of searching."""
    buffers: BufferModel = BufferModel.BY_NODE
    drop_outside_window: bool = False
    expand_latent: bool = False
    with_tower: bool = True
    reserved_bytes: int = 0
