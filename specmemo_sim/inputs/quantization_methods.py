"""Methods with one scheme for the whole model: AWQ, GPTQ, bitsandbytes, EETQ."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AliasChoices, Field

from specmemo_sim.inputs.quantization_names import Names, NameSyntax
from specmemo_sim.inputs.quantization_reading import (
    Flag,
    GroupSize,
    Lower,
    Patterns,
    RawConfig,
    all_linear,
    config_error,
    read_config,
    skip_list,
)
from specmemo_sim.inputs.quantization_schemes import (
    AwqGemvScheme,
    BitsAndBytesScheme,
    PackedScheme,
    Rule,
    Scheme,
    WeightFormat,
)


class _Awq(RawConfig):
    bits: Literal[4] = Field(default=4, validation_alias=AliasChoices("bits", "w_bit"))
    group_size: GroupSize = Field(
        default=128, validation_alias=AliasChoices("group_size", "q_group_size")
    )
    version: Annotated[Literal["gemm", "gemv", "gemv_fast"], Lower] = Field(
        default="gemm", validation_alias=AliasChoices("version", "format")
    )
    modules_to_not_convert: Patterns | None = None


def parse_awq(config: Mapping[str, object]) -> WeightFormat:
    """AWQ: 4-bit groups with fp16 scales; only decoder layers are quantised.

    Raises:
        ModelConfigError: a value that AWQ does not allow.

    Source: buffers of ``WQLinear_GEMM``, ``WQLinear_GEMV``, ``WQLinear_GEMVFast``, AutoAWQ 0.2.9;
        skip list as in ``AwqQuantizer`` of transformers 5.24.
    """
    raw = read_config(_Awq, config, "awq")
    return WeightFormat(
        method="awq",
        rules=(all_linear(_awq_scheme(raw)),),
        skip=Names(patterns=raw.modules_to_not_convert or ()),
        keeps_lm_head=True,
        layers_only=True,
    )


def _awq_scheme(raw: _Awq) -> Scheme:
    group = None if raw.group_size == -1 else raw.group_size
    if raw.version == "gemm":
        return awq_gemm_scheme(raw.group_size)
    if group is not None and group < 128 and group not in (32, 64):
        problem = f"version {raw.version} has no group_size {group}; it has 32, 64 and 128 up"
        raise config_error("awq", problem)
    return AwqGemvScheme(group_size=group, fast=raw.version == "gemv_fast")


def awq_gemm_scheme(group_size: int) -> PackedScheme:
    """AWQ's packing for its matrix-matrix kernel; a group size of -1 makes each row one group."""
    group = None if group_size == -1 else group_size
    return PackedScheme(
        bits=4,
        word_bits=32,
        block_columns=group,
        scale_bits=16,
        zero_bits=4,
        zero_word_bits=32,
        rows_multiple=8,
        columns_multiple=group or 1,
    )


class _GptqOverride(RawConfig):
    bits: Literal[2, 3, 4, 8] | None = None
    group_size: GroupSize | None = None
    method: None = None
    quant_method: None = None
    format: None = None
    adapter: None = None


class _Gptq(RawConfig):
    bits: Literal[2, 3, 4, 8]
    group_size: GroupSize = 128
    lm_head: Flag = False
    pack_dtype: Literal["int32"] = "int32"
    checkpoint_format: Annotated[Literal["gptq", "gptq_v2"], Lower] = Field(
        default="gptq", validation_alias=AliasChoices("checkpoint_format", "format")
    )
    is_marlin_format: Literal[False] = False
    dynamic: dict[str, dict[str, object]] | None = Field(default=None, max_length=4096)
    modules_in_block_to_quantize: tuple[Patterns, ...] | None = None


def parse_gptq(config: Mapping[str, object]) -> WeightFormat:
    """GPTQ: groups of 2, 3, 4 or 8 bits in 32-bit words, and a group index per input feature.

    Raises:
        ModelConfigError: a value that GPTQ does not allow, or a layout other than its own.

    Source: buffers of ``GPTQQuantLinear`` and ``dynamic`` rules, GPTQModel 7.7: the first pattern
        that matches decides, ``-:`` keeps a module unquantised.
    """
    raw = read_config(_Gptq, config, "gptq")
    rules = [_dynamic_rule(raw, pattern, values) for pattern, values in (raw.dynamic or {}).items()]
    base = all_linear(gptq_scheme(raw.bits, raw.group_size))
    if raw.modules_in_block_to_quantize is not None:
        chosen = tuple(name for part in raw.modules_in_block_to_quantize for name in part)
        base = base.replace(names=Names(patterns=(*chosen, "lm_head")))
    return WeightFormat(
        method="gptq", rules=(*rules, base), keeps_lm_head=not raw.lm_head, layers_only=True
    )


def _dynamic_rule(raw: _Gptq, pattern: str, values: Mapping[str, object]) -> Rule:
    if pattern.startswith("-:"):
        return Rule(scheme=None, names=Names(syntax=NameSyntax.GPTQ, patterns=(pattern[2:],)))
    override = read_config(_GptqOverride, values, "gptq, dynamic")
    scheme = gptq_scheme(override.bits or raw.bits, override.group_size or raw.group_size)
    names = Names(syntax=NameSyntax.GPTQ, patterns=(pattern.removeprefix("+:"),))
    return all_linear(scheme).replace(names=names)


def gptq_scheme(bits: int, group_size: int, *, indexed: bool = True) -> PackedScheme:
    """GPTQ's packing; -1 makes each row one group, ``indexed`` stores each input's group."""
    return PackedScheme(
        bits=bits,
        word_bits=32,
        block_columns=None if group_size == -1 else group_size,
        scale_bits=16,
        zero_bits=bits,
        zero_word_bits=32,
        column_bytes=4 if indexed else 0,
    )


class _BitsAndBytes(RawConfig):
    load_in_4bit: Flag = False
    load_in_8bit: Flag = False
    bnb_4bit_quant_type: Literal["nf4", "fp4"] = "fp4"
    bnb_4bit_use_double_quant: Flag = False
    llm_int8_has_fp16_weight: Literal[False] = False
    llm_int8_skip_modules: Patterns | None = None


def parse_bitsandbytes(config: Mapping[str, object]) -> WeightFormat:
    """bitsandbytes: NF4 or FP4 in blocks of 64, or LLM.int8 with an fp32 scale per output feature.

    Raises:
        ModelConfigError: neither or both of 4 and 8 bits, or another impossible value.

    Source: ``QuantState`` and ``Linear8bitLt``, bitsandbytes 0.50; skip list as in transformers
        5.24, where a list replaces the default of keeping the LM head.
    """
    raw = read_config(_BitsAndBytes, config, "bitsandbytes")
    if raw.load_in_4bit == raw.load_in_8bit:
        problem = f"load_in_4bit and load_in_8bit are both {raw.load_in_4bit}; set exactly one"
        raise config_error("bitsandbytes", problem)
    scheme: Scheme = BitsAndBytesScheme(double_quantised=raw.bnb_4bit_use_double_quant)
    if raw.load_in_8bit:
        scheme = PackedScheme(bits=8, scale_bits=32)
    return WeightFormat(
        method="bitsandbytes",
        rules=(all_linear(scheme),),
        **skip_list(raw.llm_int8_skip_modules),
    )


class _Eetq(RawConfig):
    weights: Literal["int8"] = "int8"
    modules_to_not_convert: Patterns | None = None


def parse_eetq(config: Mapping[str, object]) -> WeightFormat:
    """EETQ: int8 with an fp16 scale per output feature.

    Raises:
        ModelConfigError: weights other than int8.

    Source: parameters of ``EetqLinear``, transformers 5.24.
    """
    raw = read_config(_Eetq, config, "eetq")
    return WeightFormat(
        method="eetq",
        rules=(all_linear(PackedScheme(bits=8, scale_bits=16)),),
        **skip_list(raw.modules_to_not_convert),
    )
