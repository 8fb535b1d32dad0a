"""Bytes of one matrix in each storage scheme."""

from specmemo_sim.errors import ModelConfigError
from specmemo_sim.inputs.dtypes import DType
from specmemo_sim.inputs.quantization_schemes import (
    AwqGemvScheme,
    BitsAndBytesScheme,
    PackedScheme,
    Scheme,
)

_NESTED_BLOCK = 256
_FP32_BYTES = 4


def matrix_bytes(scheme: Scheme, rows: int, columns: int, dtype: DType) -> int:
    """Bytes of a matrix [rows, columns] = [output features, input features] with all its scales.

    Args:
        scheme: How it is stored.
        rows: Output features, at least 1.
        columns: Input features, at least 1.
        dtype: The model's dtype, for scales that are held in it.

    Raises:
        ModelConfigError: sizes that the scheme cannot hold.
    """
    if isinstance(scheme, PackedScheme):
        return _packed(scheme, rows, columns, dtype)
    if isinstance(scheme, AwqGemvScheme):
        return _awq_gemv(scheme, rows, columns)
    return _bitsandbytes(scheme, rows * columns)


def _packed(scheme: PackedScheme, rows: int, columns: int, dtype: DType) -> int:
    _require_multiples(rows, columns, scheme.rows_multiple, scheme.columns_multiple)
    word = scheme.word_bits
    elements = rows * _up(columns * scheme.bits, word) * word // 8
    row_blocks = _up(rows, scheme.block_rows or rows)
    column_blocks = _up(columns, scheme.block_columns or columns)
    scale_bits = dtype.bits if scheme.scale_bits is None else scheme.scale_bits
    scales = row_blocks * column_blocks * scheme.block_values * scale_bits // 8
    zero_word = scheme.zero_word_bits
    zeros = column_blocks * _up(row_blocks * scheme.zero_bits, zero_word) * zero_word // 8
    constants = scheme.constant_bytes + scheme.constant_values * dtype.bits // 8
    return elements + scales + zeros + columns * scheme.column_bytes + constants


def _awq_gemv(scheme: AwqGemvScheme, rows: int, columns: int) -> int:
    """Source: ``calculate_zeros_width`` and the buffers around it, AutoAWQ 0.2.9."""
    group = scheme.group_size or columns
    _require_multiples(rows, columns, 8, group)
    padding = 1 if group >= 128 else 128 // group
    words = _up(_up(columns // group, 8), padding) * padding
    zeros = words * 16 if scheme.fast else words * 4
    return rows * (columns // 2 + words * 16 + zeros)


def _bitsandbytes(scheme: BitsAndBytesScheme, elements: int) -> int:
    """Source: ``quantize_4bit`` and ``QuantState``, bitsandbytes 0.50; codes of 16 and 256."""
    blocks = _up(elements, scheme.block_size)
    if scheme.double_quantised:
        nested = _up(blocks, _NESTED_BLOCK)
        offset, nested_codes = 1, 256
        maxima = blocks + (nested + offset + nested_codes) * _FP32_BYTES
    else:
        maxima = blocks * _FP32_BYTES
    return _up(elements, 2) + maxima + 16 * _FP32_BYTES


def _require_multiples(rows: int, columns: int, row_step: int, column_step: int) -> None:
    if rows % row_step or columns % column_step:
        raise ModelConfigError(
            f"a matrix of {rows} output and {columns} input features cannot be stored in the "
            f"stated format, which needs multiples of {row_step} and {column_step}; "
            "correct the group size or list the module among those not converted"
        )


def _up(number: int, step: int) -> int:
    return -(-number // step)
