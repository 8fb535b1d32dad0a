"""compressed-tensors: several groups of modules, each with its own scheme."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from specmemo_sim.inputs.dtypes import DType
from specmemo_sim.inputs.quantization_names import Names, NameSyntax
from specmemo_sim.inputs.quantization_reading import (
    Flag,
    GroupSize,
    Lower,
    Patterns,
    RawConfig,
    Side,
    config_error,
    read_config,
)
from specmemo_sim.inputs.quantization_schemes import PackedScheme, Rule, WeightFormat

_METHOD = "compressed-tensors"
Strategy = Annotated[
    Literal["tensor", "channel", "group", "block", "token", "tensor_group", "attn_head"], Lower
]
Format = Literal[
    "pack-quantized",
    "int-quantized",
    "float-quantized",
    "naive-quantized",
    "nvfp4-pack-quantized",
    "mxfp4-pack-quantized",
    "mxfp8-quantized",
]
_FLOAT_BITS = {
    "float-quantized": 8,
    "nvfp4-pack-quantized": 4,
    "mxfp4-pack-quantized": 4,
    "mxfp8-quantized": 8,
}
"""Formats for floating-point weights, and the bits each can hold."""


class _Arguments(RawConfig):
    """How one operand (weights or activations) is quantised."""

    num_bits: Annotated[int, Field(ge=1, le=8, strict=True)] = 8
    type: Annotated[Literal["int", "float"], Lower] = "int"
    symmetric: Flag = True
    group_size: GroupSize | None = None
    strategy: Strategy | None = None
    block_structure: tuple[Side, Side] | None = None
    dynamic: Flag | Literal["local"] = False
    actorder: Literal["weight", "static", False] | None = None

    @property
    def scope(self) -> str:
        """The strategy as stated, or what the group size implies."""
        if self.strategy is not None:
            return self.strategy
        if self.group_size is None:
            return "tensor"
        return "channel" if self.group_size == -1 else "group"


class _Group(RawConfig):
    targets: Patterns = Field(min_length=1)
    weights: _Arguments | None = None
    input_activations: _Arguments | None = None
    output_activations: _Arguments | None = None
    format: Format | None = None


class _Config(RawConfig):
    config_groups: dict[str, _Group] = Field(min_length=1, max_length=4096)
    format: Format | Literal["mixed-precision"] | None = None
    ignore: Patterns | None = None
    kv_cache_scheme: _Arguments | None = None
    sparsity_config: dict[str, object] | None = None


def parse_compressed_tensors(config: Mapping[str, object]) -> WeightFormat:
    """compressed-tensors: per group of targets a scheme, an ignore list, and a KV cache scheme.

    A module takes the group whose target names it exactly, then by expression, then by class.

    Raises:
        ModelConfigError: a format or strategy that is not stored as weights and scales, a sparse
            checkpoint, or sizes that contradict each other.

    Source: ``match_targets`` and the compressors of compressed-tensors 0.20.
    """
    raw = read_config(_Config, config, _METHOD)
    sparsity = (raw.sparsity_config or {}).get("format", "dense")
    if sparsity != "dense":
        raise config_error(_METHOD, f"sparsity format {str(sparsity)[:40]!r} is not modelled")
    schemes: dict[str, PackedScheme | None] = {}
    for name, group in raw.config_groups.items():
        scheme = _scheme(name, group, raw.format)
        schemes.update(dict.fromkeys(group.targets, scheme))
    return WeightFormat(
        method=_METHOD,
        rules=tuple(_rules(schemes)),
        skip=Names(syntax=NameSyntax.COMPRESSED_TENSORS, patterns=raw.ignore or ()),
        kv_cache_dtype=_kv_cache_dtype(raw.kv_cache_scheme),
        stores_floats=any(
            group.weights is not None and group.weights.type == "float"
            for group in raw.config_groups.values()
        ),
    )


def _rules(schemes: Mapping[str, PackedScheme | None]) -> list[Rule]:
    classes = ("Linear", "Embedding")

    def priority(target: str) -> tuple[bool, bool, str]:
        return (target in classes, "re:" in target, target)

    return [
        Rule(
            scheme=schemes[target],
            names=Names(syntax=NameSyntax.COMPRESSED_TENSORS, patterns=(target,)),
        )
        for target in sorted(schemes, key=priority)
    ]


def _scheme(name: str, group: _Group, stated: str | None) -> PackedScheme | None:
    if group.weights is None:
        return None
    form = group.format or stated
    where = f"{_METHOD}, {name[:40]}"
    if form is None or form == "mixed-precision":
        raise config_error(where, "the format of the weights is missing; state format")
    weights = group.weights
    _check_kind(where, form, weights)
    rows, columns = _block(where, weights)
    packed = form == "pack-quantized"
    micro_block = form in _FLOAT_BITS and form != "float-quantized"
    if micro_block:
        _check_micro_block(where, form, columns)
    zero_bits = 0 if weights.symmetric else weights.num_bits if packed else 8
    whole_tensor = rows is None and columns is None
    global_bytes, values = _activation_constants(group)
    return PackedScheme(
        bits=weights.num_bits if packed or form in _FLOAT_BITS else 8,
        word_bits=32 if packed else 8,
        block_rows=rows,
        block_columns=columns,
        scale_bits=8 if micro_block else None,
        # The zero point of a whole tensor is one int8, which the packer leaves alone.
        zero_bits=8 if zero_bits and whole_tensor else zero_bits,
        zero_word_bits=32 if packed and not whole_tensor else 8,
        # weight_shape: two int64 of pack-quantized; weight_global_scale: one fp32 of nvfp4.
        constant_bytes=global_bytes
        + {"pack-quantized": 16, "nvfp4-pack-quantized": 4}.get(form, 0),
        constant_values=values,
        columns_multiple=_columns_multiple(weights, columns),
    )


def _check_kind(where: str, form: str, weights: _Arguments) -> None:
    floating = weights.type == "float"
    holds = {"naive-quantized": (True, False)}.get(form, (form in _FLOAT_BITS,))
    bits = _FLOAT_BITS.get(form, 8) if floating else weights.num_bits
    if floating not in holds or weights.num_bits != bits:
        given = f"{weights.num_bits}-bit {weights.type} weights"
        raise config_error(where, f"format {form} does not hold {given}")
    if floating and not weights.symmetric:
        raise config_error(where, "floating-point weights have no zero points; set symmetric")


def _block(where: str, weights: _Arguments) -> tuple[int | None, int | None]:
    """Rows and columns that share a scale, None for all."""
    size = weights.group_size
    match weights.scope:
        case "tensor":
            return None, None
        case "channel":
            return 1, None
        case "group" | "tensor_group":
            if size is None or size == -1:
                raise config_error(where, f"strategy {weights.scope} needs a group_size above 0")
            return 1, size
        case "block":
            if weights.block_structure is None:
                raise config_error(where, "strategy block needs a block_structure [rows, columns]")
            return weights.block_structure
        case other:
            raise config_error(where, f"strategy {other} is not one for weights")


def _check_micro_block(where: str, form: str, columns: int | None) -> None:
    expected = 16 if form == "nvfp4-pack-quantized" else 32
    if columns != expected:
        raise config_error(where, f"format {form} has a group_size of {expected}, not {columns}")


def _columns_multiple(weights: _Arguments, columns: int | None) -> int:
    divides = weights.scope == "tensor_group" or (weights.type == "float" and weights.num_bits == 4)
    return columns or 2 if divides else 1


def _activation_constants(group: _Group) -> tuple[int, int]:
    """(bytes of fp32 global scales, values in the model's dtype) that activations add per matrix.

    Source: ``initialize_qparams``, compressed-tensors 0.20: nothing for fully dynamic scales.
    """
    global_bytes = values = 0
    for operand in (group.input_activations, group.output_activations):
        if operand is None or operand.dynamic is True:
            continue
        global_bytes += 4 if operand.scope == "tensor_group" else 0
        if operand.dynamic is False and operand.scope == "tensor":
            values += 1
            global_bytes += 0 if operand.symmetric else 1
    return global_bytes, values


def _kv_cache_dtype(scheme: _Arguments | None) -> DType | None:
    if scheme is None:
        return None
    kinds = {("float", 8): DType.FP8, ("int", 8): DType.INT8, ("int", 4): DType.INT4}
    return kinds.get((scheme.type, scheme.num_bits))
