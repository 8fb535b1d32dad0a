"""Parts of routed decoders: experts as a family names and sizes them, and where they are."""

from collections.abc import Callable
from dataclasses import dataclass

from specmemo_sim.inputs.config_reader import ConfigReader
from specmemo_sim.inputs.families.dense_rule import DenseRule, Switch, switched
from specmemo_sim.inputs.families.parts import (
    Decoder,
    embedding,
    gated_mlp,
    linear,
    lm_head,
    norm,
    vocabulary,
)
from specmemo_sim.inputs.families.recurrent_decoder import chosen_experts
from specmemo_sim.inputs.families.recurrent_parts import FeedForward
from specmemo_sim.inputs.model import Layer, Role, Tensor

Selector = Callable[[ConfigReader, int], list[bool]]
"""Per layer whether its feed-forward part has experts, from (reader, number of layers)."""

GATED = ("gate_proj", "up_proj", "down_proj")
MIXTRAL = ("w1", "w3", "w2")


@dataclass(frozen=True, slots=True)
class ExpertRule:
    """How one family names and sizes its experts."""

    num_experts: str = "num_experts"
    """Field with the number of routed experts."""
    chosen: str = "num_experts_per_tok"
    width: str = "moe_intermediate_size"
    router: str = "mlp.gate"
    router_bias: bool = False
    module: str = "mlp.experts.*"
    projections: tuple[str, ...] = GATED
    """Gate, up and down, or a matrix of gate and up, and down; inside ``module``."""
    suffix: str = ".weight"
    bias_suffix: str = ""
    """End of the names of the experts' biases; empty without biases."""
    correction: str = ""
    """Bias that only the choice of experts sees; empty without one."""
    correction_rank: int = 1
    correction_buffer: bool = True
    shared: str = ""
    """Module of the experts that every token passes through; empty without them."""
    shared_count: str = ""
    """Field with their number; each is as wide as a routed expert."""
    shared_width: str = ""
    """Field with the width of all of them together, where a family states that instead."""
    shared_fused: tuple[str, str] | None = None
    """Names of a matrix of gate and up, and of down, of the shared part."""
    shared_gate: str = ""


@dataclass(frozen=True, slots=True)
class ExpertSizes:
    """Sizes of one layer's experts."""

    num_experts: int
    chosen: int
    width: int
    shared_width: int = 0
    bias: bool = False
    """Bias of the shared part."""


def expert_sizes(reader: ConfigReader, rule: ExpertRule, *, bias: bool = False) -> ExpertSizes:
    """The sizes that the configuration states.

    Raises:
        ModelConfigError: a missing size, or more chosen experts than experts.
    """
    num_experts = reader.integer(rule.num_experts)
    width = reader.integer(rule.width)
    shared = 0
    if rule.shared_count:
        shared = width * (reader.optional_integer(rule.shared_count, minimum=0) or 0)
    elif rule.shared_width:
        shared = reader.optional_integer(rule.shared_width, minimum=0) or 0
    chosen = chosen_experts(reader, num_experts, rule.chosen)
    return ExpertSizes(num_experts, chosen, width, shared, bias)


def routed_part(rule: ExpertRule, hidden: int, sizes: ExpertSizes) -> FeedForward:
    """Router, routed experts and shared experts of one layer."""
    count = sizes.num_experts
    tensors = linear(rule.router, count, hidden, Role.ROUTER, bias=rule.router_bias)
    if rule.correction:
        shape = (1,) * (rule.correction_rank - 1) + (count,)
        tensors.append(
            Tensor(
                name=rule.correction,
                shape=shape,
                role=Role.ROUTER,
                buffer=rule.correction_buffer,
            )
        )
    tensors += _experts(rule, hidden, sizes)
    if rule.shared and sizes.shared_width:
        tensors += _shared(rule, hidden, sizes)
    width = sizes.chosen * sizes.width + (sizes.shared_width if rule.shared else 0)
    return FeedForward(tuple(tensors), width, True, count, sizes.chosen)


def _experts(rule: ExpertRule, hidden: int, sizes: ExpertSizes) -> list[Tensor]:
    *ups, down = rule.projections
    rows = sizes.width * (2 if len(ups) == 1 else 1)
    tensors = []
    for name, outputs, inputs in [*((up, rows, hidden) for up in ups), (down, hidden, sizes.width)]:
        path = f"{rule.module}.{name}"
        tensors.append(
            Tensor(
                name=f"{path}{rule.suffix}",
                shape=(outputs, inputs),
                role=Role.EXPERT,
                linear=True,
                count=sizes.num_experts,
            )
        )
        if rule.bias_suffix:
            tensors.append(
                Tensor(
                    name=f"{path}{rule.bias_suffix}",
                    shape=(outputs,),
                    role=Role.EXPERT,
                    count=sizes.num_experts,
                )
            )
    return tensors


def _shared(rule: ExpertRule, hidden: int, sizes: ExpertSizes) -> list[Tensor]:
    width, role = sizes.shared_width, Role.SHARED_EXPERT
    if rule.shared_fused:
        up, down = rule.shared_fused
        return [
            *linear(f"{rule.shared}.{up}", 2 * width, hidden, role, bias=sizes.bias),
            *linear(f"{rule.shared}.{down}", hidden, width, role, bias=sizes.bias),
        ]
    tensors = gated_mlp(rule.shared, hidden, width, role, bias=sizes.bias)
    if rule.shared_gate:
        tensors += linear(rule.shared_gate, 1, hidden, Role.ROUTER)
    return tensors


def has_experts(reader: ConfigReader, rule: ExpertRule) -> bool:
    """Whether the model routes at all; ``null`` or 0 experts make every layer dense."""
    if rule.num_experts in reader.given and reader.given[rule.num_experts] is None:
        return False
    return reader.optional_integer(rule.num_experts, minimum=0) != 0


def every_layer(reader: ConfigReader, num_layers: int) -> list[bool]:
    """Experts in every layer."""
    return [True] * num_layers


def stated_sparse(reader: ConfigReader, num_layers: int) -> list[bool] | None:
    """Per layer whether it has experts, where the file lists it; None when it does not.

    Raises:
        ModelConfigError: a list of the wrong length, or an entry that means neither.
    """
    meanings = {"sparse": True, "moe": True, "1": True, "True": True}
    meanings |= {"dense": False, "mlp": False, "0": False, "False": False}
    for name in ("mlp_layer_types", "is_moe_layer", "moe_layer_freq"):
        if not isinstance(reader.given.get(name), list | tuple):
            continue
        entries = [str(entry)[:40] for entry in reader.items(name) or ()]
        if len(entries) != num_layers:
            raise reader.error(
                f"{name} has {len(entries)} entries for {num_layers} layers; give one per layer"
            )
        for entry in entries:
            if entry not in meanings:
                raise reader.error(
                    f"{name} names {entry!r}; allowed are sparse and dense (or 1 and 0), "
                    "so correct the entry"
                )
        return [meanings[entry] for entry in entries]
    return None


def dense_first(default: int | None = None, field: str = "first_k_dense_replace") -> Selector:
    """Dense layers first, experts in the rest (or in every ``moe_layer_freq``-th of it).

    Args:
        default: Dense layers when neither the file nor the class says.
        field: The family's word for their number.
    """

    def selector(reader: ConfigReader, num_layers: int) -> list[bool]:
        stated = stated_sparse(reader, num_layers)
        if stated is not None:
            return stated
        first = reader.integer(field, default, minimum=0)
        every = reader.integer("moe_layer_freq", 1)
        return [layer >= first and layer % every == 0 for layer in range(num_layers)]

    return selector


def sparse_step(reader: ConfigReader, num_layers: int) -> list[bool]:
    """Experts in every ``decoder_sparse_step``-th layer that ``mlp_only_layers`` does not list."""
    step = reader.integer("decoder_sparse_step", 1)
    dense = set(reader.integers("mlp_only_layers") or ())
    return [layer not in dense and (layer + 1) % step == 0 for layer in range(num_layers)]


def sparse_range(reader: ConfigReader, num_layers: int) -> list[bool]:
    """Experts in every ``moe_layer_interval``-th layer of a range (last layer -1: to the end)."""
    first = _bound(reader, "moe_layer_start_index", min, num_layers)
    last = _bound(reader, "moe_layer_end_index", max, num_layers)
    if last == -1:
        last = num_layers - 1
    every = reader.integer("moe_layer_interval", 1)
    return [first <= layer <= last and (layer + 1) % every == 0 for layer in range(num_layers)]


def _bound(
    reader: ConfigReader, name: str, outermost: Callable[[list[int]], int], num_layers: int
) -> int:
    """One bound of the range; a list states it for several kinds of expert, text first."""
    stated = reader.raw(name, note=False)
    if isinstance(stated, list):
        values = [reader.checked_integer(name, value, minimum=-1) for value in stated[:8]]
        return outermost(values) if values else 0
    default = 0 if outermost is min else num_layers - 1
    value = reader.optional_integer(name, minimum=-1)
    return default if value is None else value


@dataclass(frozen=True, slots=True)
class MoeFrame:
    """What stands around the attention and feed-forward parts."""

    rule: DenseRule
    """Kind and names of the norms, tying."""
    head_bias: Switch = False
    embedding: str = "model.embed_tokens"
    prefix: str = "model.layers"
    final_norm: str = "model.norm"

    def norms(self, hidden: int) -> list[Tensor]:
        """The norms of one layer."""
        names = self.rule.layer_norms
        return [tensor for name in names for tensor in norm(name, hidden, self.rule.norm)]


def framed(reader: ConfigReader, frame: MoeFrame, layers: list[Layer], hidden: int) -> Decoder:
    """The layers between an embedding, a final norm and an LM head."""
    vocab, tied = vocabulary(reader, hidden, default_tied=frame.rule.default_tied)
    bias = switched(reader, frame.head_bias)
    outer = [
        embedding(frame.embedding, vocab, hidden),
        *norm(frame.final_norm, hidden, frame.rule.norm),
        *lm_head(vocab, hidden, bias=bias, tied=tied),
    ]
    return Decoder(layers, outer, hidden, vocab, tied, layer_prefix=frame.prefix)
