"""What the driver and the allocator take besides tensors: estimates with intervals."""

from dataclasses import dataclass

from specmemo_sim.inputs.device import DeviceSpec

_MIB = 2**20


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate in bytes; the verdict of a plan counts the high end."""

    low: int
    typical: int
    high: int


_CONTEXT_MIB = {
    "consumer": (250, 350, 600),
    "datacenter": (400, 550, 900),
    "unified": (50, 150, 400),
    "cpu": (150, 300, 600),
}
_SLACK_MIB = {
    "cuda": (16, 128, 512),
    "other": (0, 64, 256),
}


def device_context_bytes(device: DeviceSpec) -> Interval:
    """Memory resident before the first tensor: driver context, loaded kernels, BLAS workspace.

    Source: process sizes seen in public reports for PyTorch with lazily loaded kernels: 290-330 MiB
        on consumer cards, 612-614 MiB on A100 and H200; eager loading passed 1000 MiB before
        CUDA 11.7. The intervals are judged from those reports.
    """
    if device.kind == "cpu":
        return _interval(_CONTEXT_MIB["cpu"])
    if device.memory.shared:
        return _interval(_CONTEXT_MIB["unified"])
    group = "datacenter" if device.kind == "datacenter" else "consumer"
    return _interval(_CONTEXT_MIB[group])


def allocator_slack_bytes(device: DeviceSpec) -> Interval:
    """Memory the caching allocator holds but no tensor uses.

    Source: 0.12 to 0.38 GiB reserved but unallocated in public out-of-memory messages, 0.48 GiB in
        a replay of a 7B prefill through a model of the caching allocator; the low end is the
        rounding to 2 MiB segments of an engine that allocates once.
    """
    return _interval(_SLACK_MIB["other" if device.memory.shared else "cuda"])


def _interval(mebibytes: tuple[int, int, int]) -> Interval:
    low, typical, high = (value * _MIB for value in mebibytes)
    return Interval(low, typical, high)
