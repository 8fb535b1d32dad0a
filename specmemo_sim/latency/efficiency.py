"""How much of its peak a device reaches in decoding, and what each layer costs besides.

The model that uses them is ``specmemo_sim.latency.roofline.roofline_seconds``.
"""

import functools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

import device_catalog
from specmemo_sim.errors import CatalogError
from specmemo_sim.inputs.device import DeviceKind, DeviceSpec
from specmemo_sim.inputs.files import read_toml
from specmemo_sim.spec import Seconds, Spec, validated

Fraction = Annotated[float, Field(gt=0, le=4)]
"""Part of a peak; a rate above the listed peak gives more than 1."""

# NVIDIA architectures whose discrete parts carry HBM (P100, V100, A100 and A30, H100 and H200, B200
# and B300); the others carry GDDR.
_HBM_ARCHS = frozenset({"sm_60", "sm_70", "sm_80", "sm_90", "sm_100", "sm_103"})
_CARD_SPREAD = 0.10


class FractionRange(Spec):
    """Plausible low, typical and plausible high fraction of a peak."""

    low: Fraction
    typical: Fraction
    high: Fraction

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.low <= self.typical <= self.high:
            raise ValueError("low, typical and high must not decrease")
        return self


class SecondsRange(Spec):
    """Plausible low, typical and plausible high duration in seconds."""

    low: Seconds
    typical: Seconds
    high: Seconds

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.low <= self.typical <= self.high:
            raise ValueError("low, typical and high must not decrease")
        return self


class EfficiencyClass(Spec):
    """Priors of one class of device."""

    bandwidth_fraction: FractionRange
    compute_fraction: FractionRange
    fixed_cost_per_layer: SecondsRange
    basis: Literal["calibrated", "prior"]
    """``calibrated`` on published measurements, or a ``prior`` that covers what was seen."""
    source: str = Field(min_length=1, max_length=2000)


class Efficiency(EfficiencyClass):
    """Priors of one device."""

    device_class: str
    compute_basis: Literal["class", "measured"]
    """``measured`` where ``compute_fraction`` is the device's own measured rate over its peak."""


class EfficiencyTable(Spec):
    """The file ``device_catalog/efficiency.toml``."""

    schema_version: Literal[1]
    classes: dict[str, EfficiencyClass] = Field(min_length=1, max_length=100)


def efficiency_of(device: DeviceSpec) -> Efficiency:
    """Fractions of peak and fixed cost per layer to expect of ``device``.

    The class is that of ``device_class``. Where large fp16 matrix products were measured on the
    device, their rate over the fp16 peak replaces the class's ``compute_fraction``.

    Raises:
        CatalogError: no rule places the device, or it names a class that does not exist.
    """
    name = device_class(device)
    found = efficiency_classes().get(name)
    if found is None:
        raise CatalogError(
            f"efficiency_class {name!r} of device {device.id!r} does not exist; "
            f"use one of {', '.join(efficiency_classes())}"
        )
    measured = _measured_compute_fraction(device)
    fields = found.model_dump() | {
        "device_class": name,
        "compute_basis": "class" if measured is None else "measured",
        "compute_fraction": found.compute_fraction if measured is None else measured,
    }
    return validated(Efficiency, fields, f"device {device.id!r}", CatalogError)


def device_class(device: DeviceSpec) -> str:
    """Name of the efficiency class of ``device``: its own, if the file names one, else by rule.

    Rules, first match: a processor is ``cpu`` (``cpu_streaming`` where the bandwidth is a measured
    read); a phone, or anything of Qualcomm, is ``phone``; Apple is ``metal``; Intel is
    ``intel_gpu``; AMD is ``apu`` with shared memory, else ``rocm``; NVIDIA is ``cuda_shared`` with
    shared memory, ``cuda_hbm`` for the architectures whose parts carry HBM, else ``cuda_gddr``.

    Raises:
        CatalogError: none of them applies.
    """
    if device.efficiency_class is not None:
        return device.efficiency_class
    if device.kind is DeviceKind.CPU:
        return "cpu_streaming" if device.memory.bandwidth_measured else "cpu"
    if device.kind is DeviceKind.PHONE:
        return "phone"
    shared = device.memory.shared
    by_vendor = {
        "apple": "metal",
        "intel": "intel_gpu",
        "qualcomm": "phone",
        "amd": "apu" if shared else "rocm",
        "nvidia": "cuda_shared" if shared else _cuda_class(device.chip.arch),
    }
    if device.vendor not in by_vendor:
        raise CatalogError(
            f"no efficiency is known for vendor {device.vendor!r} of device {device.id!r}; add "
            f"efficiency_class = ... to its file, one of {', '.join(efficiency_classes())}"
        )
    return by_vendor[device.vendor]


def _cuda_class(arch: str) -> str:
    return "cuda_hbm" if arch in _HBM_ARCHS else "cuda_gddr"


def _measured_compute_fraction(device: DeviceSpec) -> FractionRange | None:
    """Measured over peak fp16 rate; the middle of the measurements is the typical one.

    At least 10 % either way, since one measurement does not stand for every card: on the RTX 3080,
    where several were made, they lie 9 % around their middle. fp16 stands for the other formats
    too: the catalogue holds no measurement of them.
    """
    measured, peak = device.compute.measured_gemm_fp16, device.compute.dense.fp16
    if measured is None or peak is None:
        return None
    low, high = measured.low / peak, measured.high / peak
    typical = (low + high) / 2
    fractions = {
        "low": min(low, (1 - _CARD_SPREAD) * typical),
        "typical": typical,
        "high": max(high, (1 + _CARD_SPREAD) * typical),
    }
    where = f"device {device.id!r}: compute.measured_gemm_fp16 over compute.dense.fp16"
    return validated(FractionRange, fractions, where, CatalogError)


@functools.cache
def efficiency_classes() -> Mapping[str, EfficiencyClass]:
    """All classes by name, in the order of the file."""
    data = read_toml(device_catalog.EFFICIENCY, error=CatalogError)
    table = validated(EfficiencyTable, data, "efficiency.toml", CatalogError)
    return MappingProxyType(table.classes)
