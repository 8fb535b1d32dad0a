"""``parse_quantization``: the ``quantization_config`` of a checkpoint as a ``WeightFormat``."""

from collections.abc import Callable, Mapping
from typing import Literal

from pydantic import ValidationError

from specmemo_sim.errors import InputError, ModelConfigError
from specmemo_sim.inputs.dtypes import DType
from specmemo_sim.inputs.quantization_autoround import parse_auto_round
from specmemo_sim.inputs.quantization_float import (
    parse_fbgemm_fp8,
    parse_fp8,
    parse_modelopt,
    parse_mxfp4,
)
from specmemo_sim.inputs.quantization_groups import parse_compressed_tensors
from specmemo_sim.inputs.quantization_methods import (
    parse_awq,
    parse_bitsandbytes,
    parse_eetq,
    parse_gptq,
)
from specmemo_sim.inputs.quantization_mlx import looks_like_mlx, parse_mlx
from specmemo_sim.inputs.quantization_reading import LAYER_MATRICES, config_error
from specmemo_sim.inputs.quantization_schemes import PackedScheme, Rule, WeightFormat
from specmemo_sim.spec import first_problem

__all__ = ["METHODS", "WeightFormat", "cast_format", "parse_quantization", "uniform_format"]

METHODS: Mapping[str, Callable[[Mapping[str, object]], WeightFormat]] = {
    "awq": parse_awq,
    "gptq": parse_gptq,
    "bitsandbytes": parse_bitsandbytes,
    "fp8": parse_fp8,
    "fine_grained_fp8": parse_fp8,
    "fbgemm_fp8": parse_fbgemm_fp8,
    "mxfp4": parse_mxfp4,
    "compressed-tensors": parse_compressed_tensors,
    "modelopt": parse_modelopt,
    "modelopt_fp4": parse_modelopt,
    "eetq": parse_eetq,
    "auto-round": parse_auto_round,
    "intel/auto-round": parse_auto_round,
    "mlx": parse_mlx,
}
"""Parser of each ``quant_method``."""


def parse_quantization(config: Mapping[str, object] | None) -> WeightFormat:
    """How a checkpoint with this ``quantization_config`` stores its weights.

    Args:
        config: The mapping from ``config.json``, or the content of ``hf_quant_config.json``; None
            for an unquantised checkpoint.

    Raises:
        ModelConfigError: an unknown method, a value the method does not allow, or an option that
            changes what is stored in a way that is not modelled.
    """
    if config is None:
        return WeightFormat()
    if not isinstance(config, Mapping):
        raise config_error("unknown method", "it is not a mapping")
    method = config.get("quant_method")
    name = _implied_method(config) if method is None else str(method)[:60].lower()
    if name not in METHODS:
        raise ModelConfigError(
            f"quantization_config: quant_method {name!r} is not modelled; supported are "
            f"{', '.join(METHODS)}; remove quantization_config to count unquantised weights"
        )
    try:
        return METHODS[name](config)
    except ValidationError as fault:
        raise config_error(name, first_problem(fault)) from None


def _implied_method(config: Mapping[str, object]) -> str:
    """The method that an old configuration without ``quant_method`` can only mean."""
    signs = {
        "bitsandbytes": "load_in_4bit" in config or "load_in_8bit" in config,
        "mlx": looks_like_mlx(config),
        "gptq": {"bits", "desc_act"} <= config.keys(),
        "awq": bool({"w_bit", "q_group_size"} & config.keys())
        or {"zero_point", "version"} <= config.keys(),
        "modelopt": "quantization" in config or "quant_algo" in config,
    }
    implied = [method for method, seen in signs.items() if seen]
    if len(implied) != 1:
        found = ", ".join(str(key)[:40] for key in list(config)[:8]) or "no key"
        raise ModelConfigError(
            f"quantization_config without quant_method is ambiguous (it has {found}); "
            f"state quant_method as one of {', '.join(METHODS)}"
        )
    return implied[0]


def uniform_format(bits: Literal[8, 4], cast: DType | None = None) -> WeightFormat:
    """A 16-bit checkpoint quantised for planning: every linear layer of the decoder layers.

    Args:
        bits: 8 for int8 with an fp16 scale per output feature; 4 for groups of 128 input features
            with an fp16 scale and a 4-bit zero point each, 4.156 bits per element. Embeddings, LM
            head, norms, routers and biases are not quantised.
        cast: Type those are held in; None keeps the checkpoint's.

    Raises:
        InputError: any other number of bits.
    """
    schemes = {
        8: PackedScheme(bits=8, scale_bits=16),
        4: PackedScheme(bits=4, block_columns=128, scale_bits=16, zero_bits=4),
    }
    if isinstance(bits, bool) or bits not in schemes:
        raise InputError(f"{bits!r} bits are not modelled as a uniform format; use 8 or 4")
    return WeightFormat(
        method=f"int{bits}",
        rules=(Rule(scheme=schemes[bits], roles=LAYER_MATRICES),),
        keeps_lm_head=True,
        layers_only=True,
        cast=cast,
    )


def cast_format(dtype: DType) -> WeightFormat:
    """Every weight in one 16-bit or 32-bit type.

    Raises:
        InputError: a type of fewer bits, which needs scales.
    """
    if dtype.bits < 16:
        raise InputError(f"weights cannot simply be cast to {dtype}; use fp32, bf16 or fp16")
    return WeightFormat(method=dtype.value, cast=dtype)
