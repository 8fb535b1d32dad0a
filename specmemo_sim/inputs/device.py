"""``DeviceSpec``: what a device holds, how fast it moves bytes and how fast it computes.

Absent means unknown. Every number carries the key of an entry of ``sources``, or ``unverified``.
"""

import math
from enum import StrEnum
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from specmemo_sim.errors import CatalogError, InputError
from specmemo_sim.inputs.device_sections import (
    UNVERIFIED,
    Board,
    Chip,
    Compute,
    Link,
    Memory,
    Source,
    SourceKey,
    Text,
)
from specmemo_sim.inputs.dtypes import DType
from specmemo_sim.spec import Spec, validated
from specmemo_sim.units import format_bytes


class DeviceKind(StrEnum):
    """Form a device comes in; the value is the name used in files."""

    DATACENTER = "datacenter"
    WORKSTATION = "workstation"
    DESKTOP = "desktop"
    LAPTOP = "laptop"
    EDGE = "edge"
    APU = "apu"
    APPLE = "apple"
    PHONE = "phone"
    CPU = "cpu"


class DeviceSpec(Spec):
    """One device of the catalogue, or one that a user describes in the same format."""

    schema_version: Literal[1]
    id: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]*$", max_length=80)
    name: str = Field(min_length=1, max_length=120)
    vendor: str = Field(pattern=r"^[a-z][a-z0-9-]*$", max_length=40)
    kind: DeviceKind
    launch_year: int | None = Field(default=None, ge=2005, le=2100)
    memory: Memory
    compute: Compute
    chip: Chip
    link: Link | None = None
    board: Board | None = None
    efficiency_class: str | None = Field(default=None, max_length=40)
    """Class of the efficiency priors, for a device that the rules cannot place."""
    notes: Text = ""
    sources: dict[SourceKey, Source] = Field(default_factory=dict, max_length=40)

    def __hash__(self) -> int:
        # ``sources`` is a dict; equal devices have equal ids, and few different ones share an id.
        return hash((self.id, self.memory))

    @model_validator(mode="after")
    def _sources_defined(self) -> Self:
        for field, key in self.source_keys():
            if key != UNVERIFIED and key not in self.sources:
                raise ValueError(
                    f"{field} names source {key!r}, which [sources] does not define; "
                    f"add [sources.{key}] or write {UNVERIFIED!r}"
                )
        return self

    def source_keys(self) -> tuple[tuple[str, str], ...]:
        """(field path, source key) of every field that names a source."""
        sections: dict[str, Spec | None] = {
            "memory": self.memory,
            "compute": self.compute,
            "chip": self.chip,
            "link": self.link,
            "board": self.board,
        }
        return tuple(
            (f"{section}.{field}", key)
            for section, spec in sections.items()
            if spec is not None
            for field in type(spec).model_fields
            if field == "source" or field.endswith("_source")
            if (key := getattr(spec, field)) is not None
        )

    @property
    def usable_bytes(self) -> int:
        """Bytes a runtime can allocate on an idle device; ``usable_basis`` says how they are known.

        In this order: what the user stated; the total the runtime was seen to report (the lowest,
        if several); for shared memory, capacity times the default share; else the total of
        nvidia-smi (or the capacity) less ``reserve_bytes`` of it, which is an estimate.
        """
        memory = self.memory
        if memory.usable is not None:
            return memory.usable
        if memory.visible is not None:
            return memory.visible
        if memory.shared:
            return math.floor(memory.capacity * memory.default_share)
        total_bytes = memory.capacity if memory.reported is None else memory.reported
        return total_bytes - reserve_bytes(total_bytes)

    @property
    def usable_basis(self) -> str:
        """How ``usable_bytes`` is known: starts with ``given``, ``seen`` or ``estimated``."""
        memory = self.memory
        if memory.usable is not None:
            return "given by the user"
        if memory.visible is not None:
            verified = (memory.visible_source or memory.source) != UNVERIFIED
            return "seen as the runtime's total" if verified else "estimated, unverified total"
        if memory.shared:
            return f"estimated as {memory.default_share:g} of the shared memory"
        total = "marketed" if memory.reported is None else "reported"
        if memory.reported is not None and memory.reported_source == UNVERIFIED:
            total = "unverified reported"
        return f"estimated as {total} total less the driver's reserve"

    def dense_rate(self, dtype: DType) -> float | None:
        """FLOP/s in ``dtype``, None if unknown; an emulated format gives its (slow) measured rate.

        A rate is never borrowed from another format: bf16 before NVIDIA Ampere runs 8 to 20 times
        slower than fp16, and where nobody measured it, it is unknown.
        """
        native = self.compute.dense.of(dtype)
        return native if native is not None else self.compute.emulated.of(dtype)

    def emulates(self, dtype: DType) -> bool:
        """True if ``dtype`` lacks hardware support and ``dense_rate`` is what somebody measured.

        Such a rate is sustained already: no compute fraction applies to it.
        """
        return self.compute.dense.of(dtype) is None and self.compute.emulated.of(dtype) is not None

    def require_bandwidth(self) -> float:
        """Memory bandwidth in bytes per second.

        Raises:
            CatalogError: the device file does not give it.
        """
        if self.memory.bandwidth is None:
            raise CatalogError(
                f"device {self.id!r} has no memory bandwidth, which a speed prediction needs; add "
                f'bandwidth = "... GB/s" under [memory] of a device file and pass that file'
            )
        return self.memory.bandwidth

    def require_dense_rate(self, dtype: DType) -> float:
        """FLOP/s in ``dtype``.

        Raises:
            CatalogError: the device file gives no rate for this format.
        """
        rate = self.dense_rate(dtype)
        if rate is None:
            known = [other.value for other in DType if self.dense_rate(other) is not None]
            raise CatalogError(
                f"device {self.id!r} has no known {dtype.value} rate (known: "
                f"{', '.join(known) or 'none'}); choose another dtype or add {dtype.value} under "
                f"[compute.dense] of a device file and pass that file"
            )
        return rate


def reserve_bytes(total_bytes: int) -> int:
    """Bytes of a listed total that the driver keeps: 1.75 %, at most 896 MiB, rounded up.

    An estimate: a simple rule that covers every seen pair of listed and allocatable total (listed
    in MiB, allocatable in GiB, the lowest where several were seen): RTX 4090 24564 / 23.64, RTX
    3090 24576 / 23.68, T4 15360 / 14.74, V100-16 16384 / 15.78, A100-40 40960 / 39.39, A100-80
    81920 / 79.15, H100 81559 / 79.14, H200 143771 / 139.72. The gaps are 0.5 to 1.7 %. No pair of
    an AMD or Intel card was seen; the same rule is applied to them.
    """
    return min(-(-total_bytes * 7 // 400), 896 * 2**20)


def device_from_dict(data: dict[str, Any], where: str) -> DeviceSpec:
    """The device that the tables of a TOML file describe; ``where`` names the file in errors.

    Raises:
        CatalogError: one line with the path of the field at fault.
    """
    return validated(DeviceSpec, data, where, CatalogError)


def with_memory(device: DeviceSpec, usable_bytes: int) -> DeviceSpec:
    """The device with exactly ``usable_bytes`` of usable memory instead of its own figure.

    Shared memory comes in sizes the buyer chooses, so there the capacity grows if it must; a card
    cannot hold more than its capacity.

    Raises:
        InputError: less than 1 MiB, or more than the card has.
    """
    memory = device.memory
    if isinstance(usable_bytes, bool) or not isinstance(usable_bytes, int) or usable_bytes < 2**20:
        raise InputError(f"usable memory {usable_bytes!r} must be a whole number of at least 1 MiB")
    if usable_bytes > memory.capacity and not memory.shared:
        raise InputError(
            f"usable memory {format_bytes(usable_bytes)} is more than the "
            f"{format_bytes(memory.capacity)} of {device.id!r}; give at most that, or describe a "
            f"modified card in a device file of its own"
        )
    capacity_bytes = max(memory.capacity, usable_bytes)
    changed = memory.model_dump() | {"usable": usable_bytes, "capacity": capacity_bytes}
    return device_from_dict(device.model_dump() | {"memory": changed}, f"device {device.id!r}")
