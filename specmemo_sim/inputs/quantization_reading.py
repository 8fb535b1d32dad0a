"""What the parsers of all quantisation methods share: checked values, skip lists, error lines."""

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, ValidationError

from specmemo_sim.errors import ModelConfigError
from specmemo_sim.inputs.model import Role
from specmemo_sim.inputs.quantization_names import Names
from specmemo_sim.inputs.quantization_schemes import Rule, Scheme
from specmemo_sim.spec import Spec, first_problem


def _group(size: int) -> int:
    if size != -1 and not 1 <= size <= 2**20:
        raise ValueError("a group size is -1 (one group per row) or 1 to 1048576")
    return size


def _lower(text: object) -> object:
    return text.lower() if isinstance(text, str) else text


GroupSize = Annotated[int, Field(strict=True), AfterValidator(_group)]
Lower = BeforeValidator(_lower)
Flag = Annotated[bool, Field(strict=True)]
Patterns = tuple[str, ...]
Side = Annotated[int, Field(ge=1, le=2**20, strict=True)]
LAYER_MATRICES = (
    Role.ATTENTION,
    Role.RECURRENT,
    Role.MLP,
    Role.EXPERT,
    Role.SHARED_EXPERT,
    Role.OTHER,
)
"""Roles of the linear layers inside decoder layers."""


class RawConfig(Spec):
    """A method's part of a ``quantization_config``; keys that change no bytes are ignored."""

    model_config = ConfigDict(extra="ignore")


R = TypeVar("R", bound=RawConfig)


def read_config(kind: type[R], config: Mapping[str, object], method: str) -> R:
    """``config`` as a ``kind``.

    Raises:
        ModelConfigError: a value that the method does not allow.
    """
    try:
        return kind.model_validate(dict(config))
    except ValidationError as fault:
        raise config_error(method, first_problem(fault)) from None


def config_error(method: str, problem: str) -> ModelConfigError:
    """The error for a ``quantization_config`` of ``method``, with what to do about it."""
    return ModelConfigError(
        f"quantization_config ({method}): {problem}; "
        "correct it, or remove quantization_config to count unquantised weights"
    )


def all_linear(scheme: Scheme, names: Names | None = None) -> Rule:
    """The rule that stores every linear layer (of these names) in one scheme."""
    return Rule(scheme=scheme, names=names, roles=(*LAYER_MATRICES, Role.LM_HEAD))


def skip_list(patterns: Patterns | None) -> dict[str, Any]:
    """``WeightFormat`` fields as transformers reads a skip list: without one the LM head stays."""
    return {"skip": Names(patterns=patterns or ()), "keeps_lm_head": patterns is None}
