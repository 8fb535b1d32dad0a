"""Text with a unit to base units and back: bytes, bytes/s, FLOP/s, seconds.

GB is 10^9 bytes and GiB is 2^30 bytes; text without a unit is an error.
"""

import re
from decimal import Decimal

from specmemo_sim.errors import UnitError

_DECIMAL = {"": 0, "k": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_BYTES = {prefix + "B": 1000**power for prefix, power in _DECIMAL.items()} | {
    prefix + "iB": 1024**power for prefix, power in _DECIMAL.items() if prefix and prefix != "k"
}
_BYTES["KiB"] = 1024
_BYTES_PER_S = {unit + "/s": factor for unit, factor in _BYTES.items()}
_FLOP_PER_S = {prefix + "FLOP/s": 1000**power for prefix, power in _DECIMAL.items()} | {
    prefix + "OP/s": 1000**power for prefix, power in _DECIMAL.items()
}
_SECONDS = {
    "s": Decimal(1),
    "ms": Decimal("1e-3"),
    "us": Decimal("1e-6"),
    "ns": Decimal("1e-9"),
}

_QUANTITY = re.compile(r"\s*([0-9][0-9_]*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,2})?)\s*([A-Za-z/]*)\s*")
MAX_BYTES = 2**60
"""Larger sizes are typing errors: 1 EiB is more than any machine holds."""
_MAX_RATE = 10**24
_MAX_SECONDS = 10**9


def parse_bytes(text: str | int) -> int:
    """Bytes of a size such as ``"80 GiB"``; an ``int`` is taken as bytes.

    A fractional number of bytes rounds down. Range [0, 2^60].

    Raises:
        UnitError: no unit, an unknown unit, a negative or non-finite number, or out of range.
    """
    if isinstance(text, int) and not isinstance(text, bool):
        value = Decimal(text)
    else:
        value = _parse(text, {unit: Decimal(factor) for unit, factor in _BYTES.items()}, "80 GiB")
    return int(_bounded(value, MAX_BYTES, text, "0 B to 1 EiB"))


def parse_bytes_per_s(text: str | float) -> float:
    """Bytes per second of a rate such as ``"3.35 TB/s"``; a number is taken as bytes per second."""
    return _rate(text, _BYTES_PER_S, "3.35 TB/s")


def parse_flop_per_s(text: str | float) -> float:
    """FLOP (or integer operations) per second of a rate such as ``"989 TFLOP/s"``."""
    return _rate(text, _FLOP_PER_S, "989 TFLOP/s")


def parse_seconds(text: str | float) -> float:
    """Seconds of a time such as ``"1.1 ms"``; a number is taken as seconds."""
    if isinstance(text, int | float) and not isinstance(text, bool):
        value = _finite(text)
    else:
        value = _parse(text, _SECONDS, "1.1 ms")
    return float(_bounded(value, _MAX_SECONDS, text, "0 s to 10^9 s"))


def _rate(text: str | float, units: dict[str, int], example: str) -> float:
    if isinstance(text, int | float) and not isinstance(text, bool):
        value = _finite(text)
    else:
        value = _parse(text, {unit: Decimal(factor) for unit, factor in units.items()}, example)
    return float(_bounded(value, _MAX_RATE, text, "0 to 10^24 per second"))


def _finite(number: float) -> Decimal:
    value = Decimal(number)
    if not value.is_finite():
        raise UnitError(f"{number!r} is not a finite number; give a number such as 1.5")
    return value


def _parse(text: object, units: dict[str, Decimal], example: str) -> Decimal:
    allowed = ", ".join(units)
    if not isinstance(text, str) or len(text) > 60:
        raise UnitError(f"{str(text)[:40]!r} is not a quantity with a unit, such as {example!r}")
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise UnitError(
            f"{text!r} is not a non-negative number followed by a unit, such as {example!r}"
        )
    number, unit = match.groups()
    if unit not in units:
        problem = f"unit {unit!r}" if unit else "the missing unit"
        raise UnitError(
            f"{problem} of {text!r} must be one of {allowed}; write it as in {example!r}"
        )
    return Decimal(number.replace("_", "")) * units[unit]


def _bounded(value: Decimal, limit: int, text: object, allowed: str) -> Decimal:
    if not 0 <= value <= limit:
        raise UnitError(f"{str(text)[:40]!r} is out of range; allowed is {allowed}")
    return value


def format_bytes(size_bytes: int, digits: int = 2) -> str:
    """Size for people in a binary unit, GiB from a tenth of one on, such as ``12.55 GiB``."""
    magnitude = abs(size_bytes)
    for unit in ("GiB", "MiB", "KiB"):
        if magnitude >= _BYTES[unit] or (unit == "GiB" and magnitude >= 0.1 * _BYTES["GiB"]):
            return f"{size_bytes / _BYTES[unit]:,.{digits}f} {unit}"
    return f"{size_bytes:,} B"


def format_seconds(duration_s: float) -> str:
    """Duration for people: ``12.3 ms``, ``1.20 s`` or ``870 us``."""
    if duration_s >= 1:
        return f"{duration_s:.2f} s"
    if duration_s >= 1e-3:
        return f"{duration_s * 1e3:.1f} ms"
    return f"{duration_s * 1e6:.0f} us"


def format_count(number: int) -> str:
    """Count for people: ``6.74 B`` for parameters in billions, ``124.0 M`` for millions."""
    if number >= 10**9:
        return f"{number / 1e9:.2f} B"
    if number >= 10**6:
        return f"{number / 1e6:.1f} M"
    return f"{number:,}"
