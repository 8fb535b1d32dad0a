"""AutoRound: GPTQ's or AWQ's packing, with choices per module."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AliasChoices, Field, StringConstraints

from specmemo_sim.inputs.quantization_methods import awq_gemm_scheme, gptq_scheme
from specmemo_sim.inputs.quantization_names import Names, NameSyntax
from specmemo_sim.inputs.quantization_reading import (
    GroupSize,
    RawConfig,
    all_linear,
    config_error,
    read_config,
)
from specmemo_sim.inputs.quantization_schemes import PackedScheme, Rule, WeightFormat

_METHOD = "auto-round"
_TOWERS = ("visual", "vision", "audio", "img")
Text = Annotated[str, StringConstraints(to_lower=True, max_length=2000)]


class _AutoRound(RawConfig):
    bits: Literal[2, 3, 4, 8]
    group_size: GroupSize = 128
    data_type: Literal["int"] = "int"
    packing_format: Text = Field(
        default="auto_round:auto_gptq", validation_alias=AliasChoices("packing_format", "backend")
    )
    blocks: Text | tuple[Text | tuple[Text, ...], ...] | None = Field(
        default=None,
        validation_alias=AliasChoices("to_quant_block_names", "block_name_to_quantize"),
    )
    extra_config: dict[str, dict[str, object]] = Field(default_factory=dict, max_length=100_000)


class _Entry(RawConfig):
    bits: Annotated[int, Field(ge=1, le=32, strict=True)] | None = None
    group_size: GroupSize | None = None


class _Quantised(RawConfig):
    bits: Literal[2, 3, 4, 8]
    data_type: Literal["int"] = "int"


def parse_auto_round(config: Mapping[str, object]) -> WeightFormat:
    """AutoRound: integer groups in decoder layers, packed as GPTQ or AWQ packs them.

    Entries of ``extra_config`` with 16 bits or more stay unquantised; the LM head is quantised only
    where an entry says so.

    Raises:
        ModelConfigError: another packing or type of number, blocks of a tower, or an entry that is
            an expression instead of a module's path.

    Source: the packers of AutoRound 0.16: AutoAWQ's layout, or AutoGPTQ's, whose group index its
        own formats leave out.
    """
    raw = read_config(_AutoRound, config, _METHOD)
    _refuse_towers(raw.blocks)
    chosen: dict[PackedScheme | None, list[str]] = {}
    for path, values in raw.extra_config.items():
        if values:
            plain = path.replace("language_model.", "", 1)
            chosen.setdefault(_entry_scheme(raw, values), []).append(plain)
    rules = [_entry_rule(scheme, paths) for scheme, paths in chosen.items()]
    head = any("lm_head" in paths for scheme, paths in chosen.items() if scheme is not None)
    return WeightFormat(
        method=_METHOD,
        rules=(*rules, all_linear(_scheme(raw, raw.bits, raw.group_size))),
        keeps_lm_head=not head,
        layers_only=True,
    )


def _entry_rule(scheme: PackedScheme | None, paths: list[str]) -> Rule:
    names = Names(syntax=NameSyntax.EXACT, patterns=tuple(paths))
    return Rule(scheme=None, names=names) if scheme is None else all_linear(scheme, names)


def _entry_scheme(raw: _AutoRound, values: Mapping[str, object]) -> PackedScheme | None:
    where = f"{_METHOD}, extra_config"
    entry = read_config(_Entry, values, where)
    bits = entry.bits or raw.bits
    if bits >= 16:
        return None
    read_config(_Quantised, {**values, "bits": bits}, where)
    return _scheme(raw, bits, entry.group_size or raw.group_size)


def _scheme(raw: _AutoRound, bits: int, group_size: int) -> PackedScheme:
    packing = raw.packing_format
    if "gptq" in packing or packing == "auto_round":
        indexed = "gptqmodel" in packing or not packing.startswith("auto_round")
        return gptq_scheme(bits, group_size, indexed=indexed)
    if "awq" not in packing:
        problem = f"packing_format {packing[:60]!r} is not modelled; auto_gptq and auto_awq are"
        raise config_error(_METHOD, problem)
    if bits != 4:
        raise config_error(_METHOD, f"AWQ packs 4 bits, not {bits}")
    return awq_gemm_scheme(group_size)


def _refuse_towers(blocks: str | tuple[str | tuple[str, ...], ...] | None) -> None:
    """Refuse what quantises a vision or audio tower, whose blocks are not told apart here."""
    parts = blocks.split(",") if isinstance(blocks, str) else blocks or ()
    for part in parts:
        for name in (part,) if isinstance(part, str) else part:
            if any(tower in name for tower in _TOWERS):
                raise config_error(_METHOD, f"quantised blocks {name[:60]!r} are not modelled")
