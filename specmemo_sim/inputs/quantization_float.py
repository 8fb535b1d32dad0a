"""Floating-point quantisation methods: FP8 in blocks, FBGEMM FP8, MXFP4, and ModelOpt's formats."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AliasChoices, Field, StringConstraints

from specmemo_sim.inputs.dtypes import DType
from specmemo_sim.inputs.model import Role
from specmemo_sim.inputs.quantization_names import Names, NameSyntax
from specmemo_sim.inputs.quantization_reading import (
    Lower,
    Patterns,
    RawConfig,
    Side,
    all_linear,
    config_error,
    read_config,
    skip_list,
)
from specmemo_sim.inputs.quantization_schemes import PackedScheme, Rule, WeightFormat


class _Fp8(RawConfig):
    weight_block_size: tuple[Side, Side] | None = None
    activation_scheme: Annotated[Literal["dynamic", "static"], Lower] = "dynamic"
    scale_fmt: Literal["float", "ue8m0"] | None = None
    expert_dtype: Literal["fp8", "fp4"] = "fp8"
    dequantize: Literal[False] = False
    modules_to_convert: tuple[()] | None = None
    modules_to_not_convert: Patterns | None = Field(
        default=None, validation_alias=AliasChoices("modules_to_not_convert", "ignored_layers")
    )


def parse_fp8(config: Mapping[str, object]) -> WeightFormat:
    """FP8 with a scale per block of the matrix, or one per matrix where no block size is stated.

    Raises:
        ModelConfigError: an impossible block size, or an option that changes what is stored.

    Source: parameters of ``FP8Linear`` and ``FP8Experts``, transformers 5.24.
    """
    raw = read_config(_Fp8, config, "fp8")
    scale_bits: Literal[8, 32] = 8 if raw.scale_fmt == "ue8m0" else 32
    static_bytes = 4 if raw.activation_scheme == "static" else 0
    block = raw.weight_block_size or (None, None)
    scheme = PackedScheme(
        bits=8,
        block_rows=block[0],
        block_columns=block[1],
        scale_bits=scale_bits if raw.weight_block_size else 32,
        constant_bytes=static_bytes,
    )
    rules: tuple[Rule, ...] = (all_linear(scheme),)
    if raw.expert_dtype == "fp4":
        experts = PackedScheme(
            bits=4,
            block_columns=32,
            scale_bits=scale_bits,
            constant_bytes=static_bytes,
            columns_multiple=2,
        )
        rules = (Rule(scheme=experts, roles=(Role.EXPERT,)), *rules)
    notes: tuple[str, ...] = ()
    if raw.scale_fmt == "ue8m0":
        notes = (
            "FP8 block scales counted as 1 byte (ue8m0); some checkpoints store them in fp32.",
        )
    return WeightFormat(
        method="fp8",
        stores_floats=True,
        rules=rules,
        notes=notes,
        **skip_list(raw.modules_to_not_convert),
    )


class _SkipOnly(RawConfig):
    modules_to_not_convert: Patterns | None = None
    dequantize: Literal[False] = False


def parse_fbgemm_fp8(config: Mapping[str, object]) -> WeightFormat:
    """FBGEMM FP8: an fp32 scale per output feature.

    Raises:
        ModelConfigError: a damaged skip list.

    Source: parameters of ``FbgemmFp8Linear``, transformers 5.24.
    """
    raw = read_config(_SkipOnly, config, "fbgemm_fp8")
    return WeightFormat(
        method="fbgemm_fp8",
        stores_floats=True,
        rules=(all_linear(PackedScheme(bits=8, scale_bits=32)),),
        **skip_list(raw.modules_to_not_convert),
    )


def parse_mxfp4(config: Mapping[str, object]) -> WeightFormat:
    """MXFP4: expert matrices in 4 bits, with an 8-bit exponent per 32 input features.

    Raises:
        ModelConfigError: a damaged skip list, or ``dequantize``.

    Source: ``Mxfp4GptOssExperts``, transformers 5.24, which replaces expert blocks only; OCP
        Microscaling Formats 1.0, section 5.
    """
    raw = read_config(_SkipOnly, config, "mxfp4")
    scheme = PackedScheme(bits=4, block_columns=32, scale_bits=8, columns_multiple=32)
    return WeightFormat(
        method="mxfp4",
        stores_floats=True,
        rules=(Rule(scheme=scheme, roles=(Role.EXPERT,)),),
        skip=Names(patterns=raw.modules_to_not_convert or ()),
    )


_MODELOPT = {
    "FP8": PackedScheme(bits=8, block_rows=None, scale_bits=32, constant_bytes=4),
    "FP8_PER_CHANNEL_PER_TOKEN": PackedScheme(bits=8, scale_bits=32),
    "FP8_PB_WO": PackedScheme(bits=8, block_rows=128, block_columns=128, scale_bits=32),
    "NVFP4": PackedScheme(
        bits=4, block_columns=16, scale_bits=8, constant_bytes=8, columns_multiple=16
    ),
}
_MODELOPT_KV = {"FP8": DType.FP8, "INT8": DType.INT8}


class _ModelOpt(RawConfig):
    quant_algo: Annotated[str, StringConstraints(to_upper=True, max_length=60)]
    ignore: Patterns = Field(default=(), validation_alias=AliasChoices("ignore", "exclude_modules"))
    group_size: Literal[16] | None = None
    kv_cache_quant_algo: Annotated[str, StringConstraints(to_upper=True, max_length=60)] | None = (
        None
    )
    kv_cache_scheme: dict[str, object] | None = None


def parse_modelopt(config: Mapping[str, object]) -> WeightFormat:
    """ModelOpt: FP8 with fp32 scales, or NVFP4 with an FP8 scale per 16 input features.

    Towers stay as they are: its recipes quantise the language model only.

    Accepts ``quantization_config`` of a model configuration and the older file
    ``hf_quant_config.json`` with its ``quantization`` section.

    Raises:
        ModelConfigError: an algorithm other than these.

    Source: tensors named in vLLM's ModelOpt loader: ``weight_scale`` and ``input_scale`` in fp32
        for FP8; ``weight_scale`` in FP8, ``weight_scale_2`` and ``input_scale`` in fp32 for NVFP4.
    """
    inner = config.get("quantization", config)
    if not isinstance(inner, Mapping):
        raise config_error("modelopt", "its quantization section is not a mapping")
    raw = read_config(_ModelOpt, inner, "modelopt")
    if raw.quant_algo not in _MODELOPT:
        allowed = ", ".join(_MODELOPT)
        raise config_error("modelopt", f"quant_algo {raw.quant_algo!r} is not one of {allowed}")
    if raw.group_size is not None and raw.quant_algo != "NVFP4":
        raise config_error("modelopt", f"group_size does not belong to {raw.quant_algo}")
    kv_algorithm = raw.kv_cache_quant_algo or ""
    if raw.kv_cache_scheme is not None and raw.kv_cache_scheme.get("num_bits") == 8:
        kv_algorithm = "FP8" if raw.kv_cache_scheme.get("type") == "float" else "INT8"
    return WeightFormat(
        method="modelopt",
        stores_floats=True,
        rules=(all_linear(_MODELOPT[raw.quant_algo]),),
        skip=Names(syntax=NameSyntax.MODELOPT, patterns=raw.ignore),
        layers_only=True,
        kv_cache_dtype=_MODELOPT_KV.get(kv_algorithm),
    )
