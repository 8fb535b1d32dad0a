"""Precision tiers: which formats of weights and KV cache a plan may use, in order of preference."""

from dataclasses import dataclass
from enum import StrEnum

from specmemo_sim.errors import InputError
from specmemo_sim.inputs.device import DeviceSpec
from specmemo_sim.inputs.dtypes import DType
from specmemo_sim.inputs.model import ModelSpec
from specmemo_sim.inputs.quantization import cast_format, parse_quantization, uniform_format
from specmemo_sim.inputs.quantization_schemes import WeightFormat


class WeightPrecision(StrEnum):
    """What the target's weights are held in."""

    CHECKPOINT = "checkpoint"
    """As the checkpoint's quantization_config stores them."""
    FP32 = "fp32"
    """On a device without any 16-bit arithmetic."""
    SIXTEEN_BIT = "16bit"
    INT8 = "int8"
    INT4 = "int4"


class PrecisionPolicy(StrEnum):
    """How the planner may change precision."""

    AUTO = "auto"
    """Lower precision only as far as needed to fit (the paper's Algorithm 1)."""
    ANY = "any"
    """Every precision competes on predicted tokens per second."""
    SIXTEEN_BIT = "16bit"
    INT8 = "int8"
    INT4 = "int4"


class KvPrecision(StrEnum):
    """Precision of the KV cache the planner may use."""

    AUTO = "auto"
    SIXTEEN_BIT = "16bit"
    FP8 = "fp8"


@dataclass(frozen=True, slots=True)
class Tier:
    """One choice of weight and KV precision."""

    weights: WeightPrecision
    format: WeightFormat
    kv_dtype: DType

    @property
    def label(self) -> str:
        """Short name for people."""
        kv = {32: "fp32", 16: "16-bit", 8: self.kv_dtype.value}[self.kv_dtype.bits]
        weights = "16-bit" if self.weights is WeightPrecision.SIXTEEN_BIT else self.weights.value
        return f"{weights} weights, {kv} KV"


def activation_dtype(model: ModelSpec, device: DeviceSpec) -> tuple[DType, str]:
    """(16-bit type to compute in, a note when it is not the checkpoint's own).

    bf16 runs 8 to 20 times slower than fp16 where the device only emulates it (NVIDIA before
    Ampere), so such a device computes in fp16; a device without any 16-bit rate computes in fp32.

    Raises:
        InputError: the device states no arithmetic rate at all.
    """
    own = model.dtype if model.dtype in (DType.FP16, DType.BF16) else DType.FP16
    for choice in (own, DType.FP16, DType.BF16, DType.FP32):
        if device.dense_rate(choice) is not None and not device.emulates(choice):
            if choice is own:
                cast = f"the fp32 checkpoint is cast to {choice.value}"
                return choice, cast if model.dtype is DType.FP32 else ""
            return choice, f"computes in {choice.value}: {device.name} has no fast {own.value}"
    raise InputError(
        f"device {device.id!r} states no arithmetic rate; add one under [compute.dense] of a "
        "device file and pass that file"
    )


def tiers(model: ModelSpec, policy: PrecisionPolicy, kv: KvPrecision, dtype: DType) -> list[Tier]:
    """The tiers a policy allows, most faithful first.

    Raises:
        InputError: the checkpoint is quantised and another precision is asked for.
    """
    half = dtype if dtype.bits == 16 else DType.FP16
    kv_dtypes = {
        KvPrecision.AUTO: tuple(dict.fromkeys((dtype, half, DType.FP8))),
        KvPrecision.SIXTEEN_BIT: (half,),
        KvPrecision.FP8: (DType.FP8,),
    }[kv]
    return [
        Tier(precision, weight_format, kv_dtype)
        for precision, weight_format in _weight_formats(model, policy, dtype)
        for kv_dtype in kv_dtypes
    ]


def _weight_formats(
    model: ModelSpec, policy: PrecisionPolicy, dtype: DType
) -> list[tuple[WeightPrecision, WeightFormat]]:
    if model.quantization is not None:
        if policy not in (PrecisionPolicy.AUTO, PrecisionPolicy.ANY):
            raise InputError(
                f"{model.name} is already quantised, so precision {policy.value!r} does not apply; "
                "leave it at auto or name the 16-bit checkpoint"
            )
        return [(WeightPrecision.CHECKPOINT, parse_quantization(model.quantization))]
    full = WeightPrecision.SIXTEEN_BIT if dtype.bits == 16 else WeightPrecision.FP32
    choices = {
        full: cast_format(dtype),
        WeightPrecision.INT8: uniform_format(8, dtype),
        WeightPrecision.INT4: uniform_format(4, dtype),
    }
    if policy in (PrecisionPolicy.AUTO, PrecisionPolicy.ANY):
        return list(choices.items())
    chosen = WeightPrecision(policy.value)
    if chosen not in choices:
        raise InputError(
            "the device has no 16-bit arithmetic rate, so precision '16bit' cannot be planned; "
            "leave it at auto, or add a rate to a device file"
        )
    return [(chosen, choices[chosen])]
