"""How quantised matrices are stored, and ``WeightFormat``: which matrices are stored how."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field

from specmemo_sim.inputs.dtypes import DType
from specmemo_sim.inputs.model import Role, Tensor
from specmemo_sim.inputs.quantization_names import Names, NameSyntax, alike_groups
from specmemo_sim.spec import Count, Spec

NEVER_QUANTISED = frozenset({Role.NORM, Role.POSITION, Role.ROUTER})
"""Roles of modules that are no linear layers, or that nearly every recipe skips."""


class PackedScheme(Spec):
    """Elements packed row by row, with scales and zero points per rectangular block.

    A matrix is [rows, columns] = [output features, input features]. Which axis a checkpoint packs
    along does not change the bytes as long as ``rows_multiple`` and ``columns_multiple`` hold.
    """

    kind: Literal["packed"] = "packed"
    bits: Annotated[int, Field(ge=1, le=8, strict=True)]
    word_bits: Literal[8, 32] = 8
    """Word that elements are packed into; the last word of a row may be partly empty."""
    block_rows: Count | None = 1
    """Rows that share a scale; None means all."""
    block_columns: Count | None = None
    """Columns that share a scale; None means all."""
    scale_bits: Literal[8, 16, 32] | None = None
    """Bits of a scale; None means the model's dtype."""
    block_values: Count = 1
    """Values of a scale's type per block: a scale, or a scale and an offset."""
    zero_bits: Annotated[int, Field(ge=0, le=8)] = 0
    """Bits of a zero point per block, packed along the rows; 0 without zero points."""
    zero_word_bits: Literal[8, 32] = 8
    column_bytes: Annotated[int, Field(ge=0, le=8)] = 0
    """Bytes per input feature (GPTQ's group index)."""
    constant_bytes: Annotated[int, Field(ge=0, le=4096)] = 0
    """Bytes per matrix whatever its size (a global scale, a static activation scale)."""
    constant_values: Annotated[int, Field(ge=0, le=8)] = 0
    """Values per matrix in the model's dtype (a static activation scale)."""
    rows_multiple: Count = 1
    columns_multiple: Count = 1
    keeps_uneven: bool = False
    """True if matrices whose columns are no multiple of a block keep the model's dtype."""

    def leaves(self, columns: int) -> bool:
        """True if a matrix with this many columns keeps the model's dtype."""
        return self.keeps_uneven and columns % (self.block_columns or 1) != 0


class AwqGemvScheme(Spec):
    """AWQ's matrix-vector layouts: 4-bit groups, their number padded for the kernel."""

    kind: Literal["awq-gemv"] = "awq-gemv"
    group_size: Count | None
    """Input features per group; None means all."""
    fast: bool = False
    """``gemv_fast``: 16-bit zero points instead of packed ones."""


class BitsAndBytesScheme(Spec):
    """NF4 or FP4 of bitsandbytes: blocks of the flattened matrix share an absolute maximum."""

    kind: Literal["bitsandbytes"] = "bitsandbytes"
    block_size: Count = 64
    double_quantised: bool = False
    """Absolute maxima are held in 8 bits, in nested blocks of 256 with an fp32 maximum."""


Scheme = Annotated[PackedScheme | AwqGemvScheme | BitsAndBytesScheme, Field(discriminator="kind")]


class Rule(Spec):
    """A scheme and the modules it is for."""

    scheme: Scheme | None
    """None keeps the model's dtype."""
    names: Names | None = None
    """None means all names."""
    roles: tuple[Role, ...] = ()
    """Empty means all but those of ``NEVER_QUANTISED``, which have to be stated."""

    def applies(self, module: str, role: Role) -> bool:
        """True if the module with this path and role is meant."""
        if role not in self.roles and (self.roles or role in NEVER_QUANTISED):
            return False
        return self.names is None or self.names.matches(module, class_of(role))


class WeightFormat(Spec):
    """How every weight tensor of a model is stored."""

    method: str = "none"
    """Name for people, such as ``awq``; ``none`` for unquantised weights."""
    rules: tuple[Rule, ...] = ()
    """The first rule that applies decides; without one the model's dtype stays."""
    skip: Names = Names()
    """Modules that keep the model's dtype before any rule is asked."""
    keeps_lm_head: bool = False
    """True if the LM head keeps the model's dtype whatever the rules say."""
    layers_only: bool = False
    """True if only decoder layers (and the LM head) are quantised, no vision or audio tower."""
    cast: DType | None = None
    """Type of all weights that are not quantised; None means the model's own."""
    kv_cache_dtype: DType | None = None
    """Type the checkpoint wants its KV cache in; None when it does not say."""
    stores_floats: bool = False
    """True if low-bit weights are floating point (fp8, fp4), which needs kernels of its own."""
    notes: tuple[str, ...] = ()

    def scheme_for(self, tensor: Tensor, module: str) -> Scheme | None:
        """How ``tensor`` is stored, or None when it keeps the model's dtype.

        Args:
            tensor: The tensor; only matrices of linear layers (and embeddings that a rule names by
                class) can be quantised.
            module: Full path of its module, without the parameter's own name.
        """
        if not self.rules or not _quantisable(tensor):
            return None
        if self.keeps_lm_head and tensor.role is Role.LM_HEAD:
            return None
        if self._skips(tensor, module):
            return None
        for rule in self.rules:
            if rule.applies(module, tensor.role):
                return None if _left(rule.scheme, tensor) else rule.scheme
        return None

    def index_groups(self, component: str, indices: Sequence[int]) -> list[tuple[int, int]]:
        """(one index, how many it stands for) for path components ``<component>.<index>``."""
        key = (component, tuple(indices))
        if key not in self._index_groups:
            self._index_groups[key] = alike_groups(self._name_lists(), component, indices)
        return self._index_groups[key]

    @cached_property
    def _index_groups(self) -> dict[tuple[str, tuple[int, ...]], list[tuple[int, int]]]:
        return {}

    def _skips(self, tensor: Tensor, module: str) -> bool:
        if self.skip.matches(module, class_of(tensor.role)):
            return True
        # The experts of a layer may be one module whose name, not the matrix's, is on the list.
        parent, found, _ = module.rpartition(".experts.")
        return bool(found) and self.skip.matches(f"{parent}.experts", "")

    @property
    def num_patterns(self) -> int:
        """Module patterns that every module is matched with; exact paths are looked up instead."""
        lists = (names for names in self._name_lists() if names.syntax is not NameSyntax.EXACT)
        return sum(len(names.patterns) for names in lists)

    def _name_lists(self) -> Iterator[Names]:
        yield self.skip
        for rule in self.rules:
            if rule.names is not None:
                yield rule.names


def class_of(role: Role) -> str:
    """Class of module that a pattern may name instead of a path."""
    return "Embedding" if role is Role.EMBEDDING else "Linear"


def _quantisable(tensor: Tensor) -> bool:
    matrix = tensor.linear or tensor.role is Role.EMBEDDING
    usable = not tensor.buffer and len(tensor.shape) >= 2
    return matrix and usable


def _left(scheme: Scheme | None, tensor: Tensor) -> bool:
    return isinstance(scheme, PackedScheme) and scheme.leaves(tensor.shape[-1])
