"""``DenseRule``: what one family of decoders adds to Llama, and the tensors that follow from it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from specmemo_sim.inputs.config_reader import ConfigReader
from specmemo_sim.inputs.families.parts import Heads, Norm, linear, norm
from specmemo_sim.inputs.model import Role, Tensor

Switch = bool | str
"""A fact of the family, or the configuration field that states it."""


@dataclass(frozen=True, slots=True)
class DenseRule:
    """How one dense family differs from Llama."""

    norm: Norm = "rms"
    layer_norms: tuple[str, ...] = ("input_layernorm", "post_attention_layernorm")
    final_norm: str = "model.norm"
    qkv_bias: Switch = False
    output_bias: Switch = False
    qk_norm: Literal["no", "head", "projection", "heads", "per_head"] = "no"
    """Over one head's size, shared by all; over the whole projection; over [heads, head size]; one
    norm for each head."""
    qk_norm_if: Switch = True
    qk_norm_names: tuple[str, str] = ("self_attn.q_norm", "self_attn.k_norm")
    qk_norm_kind: Norm = "rms"
    fused_qkv: str = ""
    output_name: str = "self_attn.o_proj"
    fused_gate_up: bool = False
    plain_mlp: tuple[str, str] | None = None
    mlp_bias: Switch = False
    head_bias: bool = False
    default_tied: bool = False
    parallel_if: str = ""
    """Field that, when true, drops the last layer norm (attention and MLP read the same input)."""
    extra: Callable[[ConfigReader, int, int], list[Tensor]] | None = None
    """Further tensors of a layer, from (reader, hidden, intermediate)."""


def switched(reader: ConfigReader, switch: Switch) -> bool:
    """Whether a feature is on: a fact of the family, or what its configuration field says."""
    return reader.flag(switch) if isinstance(switch, str) else switch


def attention_tensors(
    reader: ConfigReader, rule: DenseRule, hidden: int, heads: Heads
) -> list[Tensor]:
    """Query, key, value and output projections with their norms."""
    bias = switched(reader, rule.qkv_bias)
    if rule.fused_qkv:
        size = heads.query_size + heads.key_size + heads.value_size
        tensors = linear(rule.fused_qkv, size, hidden, Role.ATTENTION, bias=bias)
    else:
        tensors = [
            *linear("self_attn.q_proj", heads.query_size, hidden, Role.ATTENTION, bias=bias),
            *linear("self_attn.k_proj", heads.key_size, hidden, Role.ATTENTION, bias=bias),
            *linear("self_attn.v_proj", heads.value_size, hidden, Role.ATTENTION, bias=bias),
        ]
    output_bias = switched(reader, rule.output_bias)
    tensors += linear(rule.output_name, hidden, heads.output_size, Role.ATTENTION, bias=output_bias)
    if rule.qk_norm != "no" and switched(reader, rule.qk_norm_if):
        tensors += _qk_norms(rule, heads)
    return tensors


def _qk_norms(rule: DenseRule, heads: Heads) -> list[Tensor]:
    counts = (heads.num_heads, heads.num_kv_heads)
    tensors: list[Tensor] = []
    for name, count in zip(rule.qk_norm_names, counts, strict=True):
        if rule.qk_norm == "head":
            tensors += norm(name, heads.head_dim, rule.qk_norm_kind)
        elif rule.qk_norm == "projection":
            tensors += norm(name, count * heads.head_dim, rule.qk_norm_kind)
        elif rule.qk_norm == "heads":
            shape = (count, heads.head_dim)
            tensors.append(Tensor(name=f"{name}.weight", shape=shape, role=Role.NORM))
        else:
            shared = norm(f"{name}.*", heads.head_dim, rule.qk_norm_kind)
            tensors += [tensor.replace(count=count) for tensor in shared]
    return tensors


def layer_norm_tensors(reader: ConfigReader, rule: DenseRule, hidden: int) -> list[Tensor]:
    """The norms around attention and feed-forward part."""
    names = rule.layer_norms
    if rule.parallel_if and reader.flag(rule.parallel_if):
        names = names[:-1]
    return [tensor for name in names for tensor in norm(name, hidden, rule.norm)]
