"""The tables of a device file: memory, compute, chip, link, board and sources."""

from datetime import date
from typing import Annotated, Self

from pydantic import Field, model_validator

from specmemo_sim.inputs.dtypes import DType
from specmemo_sim.spec import Bytes, BytesPerSecond, Count, FlopPerSecond, Spec
from specmemo_sim.units import format_bytes

UNVERIFIED = "unverified"
"""Source of a number that stands in no text that was read: from memory, by rule or by analogy."""

SourceKey = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$", max_length=40)]
MemorySize = Annotated[Bytes, Field(ge=2**20, le=2**50)]
CacheSize = Annotated[Bytes, Field(ge=2**10, le=2**40)]
Bandwidth = Annotated[BytesPerSecond, Field(ge=1e8, le=1e15)]
ComputeRate = Annotated[FlopPerSecond, Field(ge=1e8, le=1e19)]
Text = Annotated[str, Field(max_length=1000)]


class Source(Spec):
    """Where a number was read."""

    title: str = Field(min_length=1, max_length=300)
    url: str | None = Field(default=None, pattern=r"^https://\S+$", max_length=300)
    retrieved: date | None = None


class Memory(Spec):
    """Size and speed of the memory that holds weights and cache.

    Three totals exist: what is marketed, what nvidia-smi or the operating system lists, and what
    the runtime can allocate from. A planner may only count on the last.
    """

    capacity: MemorySize
    """Marketed size. GPU vendors write GB where memory chips hold GiB; here it is GiB."""
    reported: MemorySize | None = None
    """Total that nvidia-smi or the operating system lists."""
    reported_source: SourceKey | None = None
    visible: MemorySize | None = None
    """Total that the runtime (CUDA, Metal) can allocate from; the lowest of several seen totals."""
    visible_high: MemorySize | None = None
    """Highest seen total, where drivers or system versions differ."""
    visible_source: SourceKey | None = None
    usable: MemorySize | None = None
    """What the user says is usable; replaces every estimate."""
    shared: bool = False
    """True where processor and accelerator use the same memory."""
    default_share: float = Field(default=1.0, gt=0, le=1)
    """Fraction of a shared memory that the accelerator may take by default."""
    default_share_source: SourceKey | None = None
    bandwidth: Bandwidth | None = None
    """Peak rate, unless ``bandwidth_measured``."""
    bandwidth_source: SourceKey | None = None
    bandwidth_measured: bool = False
    """True where ``bandwidth`` is a sustained reading rate and not a peak."""
    basis: Text = ""
    source: SourceKey
    """Source of every number of the section without a source of its own."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        limits = {"capacity": self.capacity}
        for name in ("reported", "visible_high", "visible", "usable"):
            size_bytes = getattr(self, name)
            if size_bytes is None:
                continue
            # What a user states may exceed what others saw, but not what the device has.
            bounds = {"capacity": self.capacity} if name == "usable" else limits
            for other, limit_bytes in bounds.items():
                if size_bytes > limit_bytes:
                    raise ValueError(
                        f"{name} {format_bytes(size_bytes)} is larger than {other} "
                        f"{format_bytes(limit_bytes)}; correct one of them"
                    )
            limits[name] = size_bytes
        if self.visible_high is not None and self.visible is None:
            raise ValueError("visible_high is given without visible; give the lowest total too")
        if not self.shared and self.default_share != 1.0:
            raise ValueError("default_share belongs to shared memory; set shared = true or drop it")
        return self


class DenseRates(Spec):
    """Peak dense rate per number format, never the sparse rating; absent means unknown or none."""

    fp32: ComputeRate | None = None
    fp16: ComputeRate | None = None
    bf16: ComputeRate | None = None
    fp8: ComputeRate | None = None
    int8: ComputeRate | None = None

    def of(self, dtype: DType) -> float | None:
        """FLOP/s (or integer operations per second) in ``dtype``, None if unknown."""
        rate: float | None = getattr(self, dtype.value, None)
        return rate


class RateRange(Spec):
    """Lowest and highest of several measurements of one rate."""

    low: ComputeRate
    high: ComputeRate

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.low > self.high:
            raise ValueError("low is larger than high; swap them")
        return self


class Compute(Spec):
    """How fast the device multiplies matrices."""

    dense: DenseRates = DenseRates()
    """Peaks with fp32 accumulation, as PyTorch uses it."""
    basis: Text = ""
    """How the peaks were obtained."""
    measured_gemm_fp16: RateRange | None = None
    """Rate of large fp16 matrix products that somebody measured."""
    measured_source: SourceKey | None = None
    emulated: DenseRates = DenseRates()
    """Measured rate of formats without hardware of their own, such as bf16 before NVIDIA Ampere."""
    emulated_source: SourceKey | None = None
    source: SourceKey


class Chip(Spec):
    """Architecture and on-chip sizes."""

    arch: str = Field(min_length=1, max_length=60)
    """Compute capability (``sm_89``), LLVM target (``gfx1100``), ``metal``, or instruction set."""
    num_units: Count | None = None
    """Streaming multiprocessors, compute units, GPU cores or processor cores."""
    l2_cache: CacheSize | None = None
    last_level_cache: CacheSize | None = None
    """Cache behind L2 (AMD Infinity Cache), or the L3 of a processor."""
    shared_memory_per_block: CacheSize | None = None
    """Most shared (local, threadgroup) memory one block can opt in to."""
    shared_memory_source: SourceKey | None = None
    source: SourceKey


class Link(Spec):
    """How the device reaches its peers and its host."""

    interconnect: Text = ""
    per_direction: Bandwidth | None = None
    """Rate to peers in one direction, all links together."""
    pcie_generation: int | None = Field(default=None, ge=1, le=9)
    pcie_lanes: int | None = Field(default=None, ge=1, le=32)
    source: SourceKey


class Board(Spec):
    """Power and price."""

    power_w: float | None = Field(default=None, gt=0, le=50_000)
    """Power limit in watts."""
    price_usd: float | None = Field(default=None, gt=0, le=10**7)
    """Launch list price."""
    price_source: SourceKey | None = None
    source: SourceKey
