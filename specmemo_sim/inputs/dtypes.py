"""Number formats a tensor can be held in."""

from enum import StrEnum

from specmemo_sim.errors import InputError


class DType(StrEnum):
    """Element type of a tensor; the value is the name used in files."""

    FP32 = "fp32"
    BF16 = "bf16"
    FP16 = "fp16"
    FP8 = "fp8"
    INT8 = "int8"
    INT4 = "int4"

    @property
    def bits(self) -> int:
        """Bits per element, without any scale or zero point."""
        return _BITS[self]


_BITS = {
    DType.FP32: 32,
    DType.BF16: 16,
    DType.FP16: 16,
    DType.FP8: 8,
    DType.INT8: 8,
    DType.INT4: 4,
}

_ALIASES = {
    "float32": DType.FP32,
    "float": DType.FP32,
    "bfloat16": DType.BF16,
    "float16": DType.FP16,
    "half": DType.FP16,
    "float8_e4m3fn": DType.FP8,
    "float8_e5m2": DType.FP8,
    "fp8_e4m3": DType.FP8,
    "fp8_e5m2": DType.FP8,
}


def parse_dtype(text: object) -> DType:
    """``DType`` of a name such as ``"bfloat16"``, ``"torch.float16"`` or ``"int8"``.

    Raises:
        InputError: a name that no format goes by.
    """
    name = str(text).removeprefix("torch.").lower()
    if name in _ALIASES:
        return _ALIASES[name]
    try:
        return DType(name)
    except ValueError:
        allowed = ", ".join(DType)
        raise InputError(f"dtype {str(text)[:40]!r} is unknown; use one of {allowed}") from None
