"""MLX: affine groups for every linear layer and the embedding, with choices per module."""

from collections.abc import Mapping
from typing import Literal

from specmemo_sim.inputs.model import Role
from specmemo_sim.inputs.quantization_names import Names, NameSyntax
from specmemo_sim.inputs.quantization_reading import (
    LAYER_MATRICES,
    RawConfig,
    config_error,
    read_config,
)
from specmemo_sim.inputs.quantization_schemes import PackedScheme, Rule, WeightFormat

_METHOD = "mlx"
_OWN_KEYS = frozenset({"group_size", "bits", "mode", "quant_method"})
_ROLES = (*LAYER_MATRICES, Role.LM_HEAD, Role.EMBEDDING)
_MIXTRAL = {"gate_proj": "w1", "up_proj": "w3", "down_proj": "w2"}
_MAX_MODULES = 100_000


class _Affine(RawConfig):
    group_size: Literal[32, 64, 128]
    bits: Literal[2, 3, 4, 5, 6, 8]
    mode: Literal["affine"] = "affine"


def looks_like_mlx(config: Mapping[str, object]) -> bool:
    """True for a group size, bits and nothing but entries of modules: MLX names no method."""
    modules = [key for key in config if key not in _OWN_KEYS]
    named = {"group_size", "bits"} <= config.keys()
    return named and all(_is_module(str(key), config[key]) for key in modules)


def _is_module(key: str, value: object) -> bool:
    if isinstance(value, bool):
        return "." in key or key == "lm_head"
    return isinstance(value, Mapping)


def parse_mlx(config: Mapping[str, object]) -> WeightFormat:
    """MLX: groups of input features with a scale and an offset in the model's dtype.

    Linear layers, experts, LM head and embedding are quantised, except those whose input size is no
    multiple of the group. Routers count as unquantised unless an entry names them, towers always.

    Raises:
        ModelConfigError: a mode other than affine, or a value that MLX does not allow.

    Source: ``quantize`` and ``QuantizedLinear``, MLX 0.29; module entries as mlx-lm writes them.
    """
    base = read_config(_Affine, config, _METHOD)
    entries = {str(key): value for key, value in config.items() if key not in _OWN_KEYS}
    if len(entries) > _MAX_MODULES:
        raise config_error(_METHOD, f"it has entries for {len(entries)} modules, too many")
    chosen: dict[PackedScheme | None, list[str]] = {}
    for key, value in entries.items():
        if not _is_module(key, value):
            raise config_error(_METHOD, f"{key[:60]!r} is neither true, false nor an object")
        chosen.setdefault(_entry_scheme(base, value), []).append(_checkpoint_path(key))
    rules = [
        Rule(scheme=scheme, names=_names(paths), roles=(*_ROLES, Role.ROUTER))
        for scheme, paths in chosen.items()
    ]
    rules.append(Rule(scheme=_scheme(base), roles=_ROLES))
    return WeightFormat(method=_METHOD, rules=tuple(rules), layers_only=True)


def _entry_scheme(base: _Affine, value: object) -> PackedScheme | None:
    if value is False:
        return None
    if not isinstance(value, Mapping):
        return _scheme(base)
    stated = {"group_size": base.group_size, "bits": base.bits, **value}
    return _scheme(read_config(_Affine, stated, "mlx, module entry"))


def _scheme(raw: _Affine) -> PackedScheme:
    return PackedScheme(
        bits=raw.bits,
        word_bits=32,
        block_columns=raw.group_size,
        block_values=2,
        keeps_uneven=True,
    )


def _names(paths: list[str]) -> Names:
    return Names(syntax=NameSyntax.EXACT, patterns=tuple(paths))


def _checkpoint_path(path: str) -> str:
    """The path in the original checkpoint: no wrapper's component, Mixtral's names of matrices."""
    plain = path.replace("language_model.", "", 1)
    before, found, matrix = plain.partition(".block_sparse_moe.switch_mlp.")
    return f"{before}{found}{_MIXTRAL.get(matrix, matrix)}" if found else plain
