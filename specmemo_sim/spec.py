"""``Spec``: the base of everything that is read from or written to a file."""

from typing import Annotated, Any, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from specmemo_sim.errors import InputError
from specmemo_sim.units import parse_bytes, parse_bytes_per_s, parse_flop_per_s, parse_seconds

Bytes = Annotated[int, BeforeValidator(parse_bytes)]
"""Size in bytes; a file may write ``"80 GiB"``."""
BytesPerSecond = Annotated[float, BeforeValidator(parse_bytes_per_s), Field(gt=0)]
"""Rate in bytes per second; a file may write ``"3.35 TB/s"``."""
FlopPerSecond = Annotated[float, BeforeValidator(parse_flop_per_s), Field(gt=0)]
"""Rate in FLOP per second; a file may write ``"989 TFLOP/s"``."""
Seconds = Annotated[float, BeforeValidator(parse_seconds)]
"""Duration in seconds; a file may write ``"1.1 ms"``."""
Count = Annotated[int, Field(ge=1, le=2**40, strict=True)]
"""Whole number, at least 1; the bound keeps products far from anything absurd."""


class Spec(BaseModel):
    """Immutable, and an unknown key is an error."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        allow_inf_nan=False,
        protected_namespaces=(),
    )

    def replace(self, **changes: Any) -> Self:
        """Return a validated copy; ``model_copy(update=...)`` would skip validation."""
        return type(self).model_validate(self.model_dump() | changes)


def first_problem(error: ValidationError) -> str:
    """The first fault of a pydantic error in one line: field, what is wrong, what was given."""
    fault = error.errors(include_url=False)[0]
    path = ".".join(str(part) for part in fault["loc"]) or "the file"
    message = fault["msg"].removeprefix("Value error, ")
    given = fault.get("input")
    # An integer of thousands of digits has no text form, and nobody needs it.
    is_long = isinstance(given, int) and abs(given) > 2**64
    shown = "" if is_long or isinstance(given, dict | list) else f" (given: {str(given)[:60]!r})"
    if fault["type"] == "missing":
        return f"{path} is missing"
    return f"{path}: {message[0].lower() + message[1:]}{shown}"


S = TypeVar("S", bound="Spec")


def validated(kind: type[S], data: object, where: str, error: type[InputError]) -> S:
    """``data`` as a ``kind``, or ``error`` with one line that starts with ``where``."""
    try:
        return kind.model_validate(data)
    except ValidationError as fault:
        raise error(f"{where}: {first_problem(fault)}") from None
