"""Bytes of a model's weights in any format, and how many of them one step reads."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from specmemo_sim.errors import InputError, ModelConfigError
from specmemo_sim.inputs.dtypes import DType
from specmemo_sim.inputs.model import Layer, ModelSpec, Role, Tensor
from specmemo_sim.inputs.quantization_schemes import WeightFormat
from specmemo_sim.memory.weight_storage import matrix_bytes

_MAX_MATCHES = 1_000_000
"""Patterns times layers; lists of real checkpoints stay below 50,000."""


@dataclass(frozen=True, slots=True)
class WeightBytes:
    """Stored bytes of a model's weights; towers and MTP layers are numbers of their own."""

    by_role: tuple[tuple[Role, int], ...]
    """(role, bytes) of the language model, for the roles it has."""
    quantized_parameters: int
    """Parameters of the language model that are stored in a quantised scheme."""
    bits_per_weight: float
    """Bits per parameter of the language model, scales and unquantised tensors included."""
    tower_bytes: int
    mtp_bytes: int

    @property
    def total(self) -> int:
        """Bytes of the language model."""
        return sum(size for _, size in self.by_role)

    def role_bytes(self, role: Role) -> int:
        """Bytes of the tensors with this role; 0 when there is none."""
        return dict(self.by_role).get(role, 0)


@dataclass(frozen=True, slots=True)
class _Stored:
    """A tensor of the inventory with the bytes of all its copies in all its layers."""

    tensor: Tensor
    layer: Layer | None
    size_bytes: int
    quantized: int
    """Elements in a quantised scheme."""


def weight_bytes(model: ModelSpec, weight_format: WeightFormat) -> WeightBytes:
    """Bytes of the model's weights by role.

    Args:
        model: The inventory. Tensors of layer ``i`` are named ``<layer_prefix>.<i>.<name>`` and MTP
            layers are numbered on after the last layer; all other names are full paths.
        weight_format: From ``parse_quantization``, ``uniform_format`` or ``cast_format``.

    Raises:
        ModelConfigError: a matrix that the format cannot hold.
    """
    totals: dict[Role, int] = {}
    quantized = 0
    for stored in _language(model, weight_format):
        role = stored.tensor.role
        totals[role] = totals.get(role, 0) + stored.size_bytes
        quantized += stored.quantized
    total = sum(totals.values())
    return WeightBytes(
        by_role=tuple(totals.items()),
        quantized_parameters=quantized,
        bits_per_weight=total * 8 / max(1, model.num_parameters),
        tower_bytes=_tower_bytes(model, weight_format),
        mtp_bytes=sum(
            stored.size_bytes
            for number, layer in enumerate(model.mtp, start=model.num_layers)
            for stored in _layer(model, weight_format, layer, [number])
        ),
    )


def tensor_bytes(tensor: Tensor, weight_format: WeightFormat, full_name: str, dtype: DType) -> int:
    """Bytes of all ``tensor.count`` copies of a tensor in one layer.

    Args:
        tensor: Entry of the inventory.
        weight_format: How the checkpoint stores weights.
        full_name: Path from the root of the model, with ``*`` for the number of the copy.
        dtype: The model's dtype.

    Raises:
        ModelConfigError: a matrix that the format cannot hold.
    """
    return _cost(tensor, weight_format, full_name, dtype)[0]


def expected_distinct_experts(num_experts: int, experts_per_token: int, num_tokens: int) -> float:
    """Mean number of different experts that a layer wakes, in [experts_per_token, num_experts].

    E (1 - (1 - k / E)^n) for n tokens that each choose k of E experts uniformly and independently.
    Real routers are skewed, so this is an upper estimate for one domain of text.
    """
    share = experts_per_token / num_experts
    return float(num_experts * (1 - (1 - share) ** num_tokens))


def streamed_weight_bytes(model: ModelSpec, weight_format: WeightFormat, num_tokens: int) -> int:
    """Bytes of weights that one step over ``num_tokens`` tokens reads; see ``weight_stream``.

    Raises:
        InputError: a number of tokens below 1.
        ModelConfigError: a matrix that the format cannot hold.
    """
    return weight_stream(model, weight_format).read_bytes(num_tokens)


@dataclass(frozen=True, slots=True)
class WeightStream:
    """The weights of a model by how often a step reads them."""

    dense_bytes: int
    """Read once per step, however many tokens it has."""
    tables: tuple[tuple[int, int], ...]
    """(rows, bytes) of look-up tables, of which a step reads one row per token."""
    experts: tuple[tuple[int, int, int], ...]
    """(experts, experts per token, bytes of all layers together) of routed experts."""

    def read_bytes(self, num_tokens: int) -> int:
        """Bytes read by one step over this many tokens of all sequences together.

        Raises:
            InputError: a number of tokens below 1.
        """
        if num_tokens < 1:
            raise InputError(f"a step over {num_tokens} tokens reads nothing; give at least 1")
        total = self.dense_bytes
        for rows, size_bytes in self.tables:
            total += size_bytes * min(num_tokens, rows) // rows
        for experts, chosen, size_bytes in self.experts:
            woken = expected_distinct_experts(experts, chosen, num_tokens)
            total += round(size_bytes * woken / experts)
        return total


def weight_stream(model: ModelSpec, weight_format: WeightFormat) -> WeightStream:
    """What a step reads of the model's weights, as a function of its tokens.

    Dense tensors and the LM head are read whole, routed experts by the expected number of different
    ones per layer, look-up tables by the rows looked up; a tied embedding is read as the LM head.
    Towers and MTP layers do not count.

    Raises:
        ModelConfigError: a matrix that the format cannot hold.
    """
    dense_bytes = 0
    tables: list[tuple[int, int]] = []
    experts: dict[tuple[int, int], int] = {}
    for stored in _language(model, weight_format):
        tensor, layer = stored.tensor, stored.layer
        is_head = model.tie_word_embeddings and tensor.shape[0] == model.vocab_size
        is_table = tensor.role is Role.POSITION or (tensor.role is Role.EMBEDDING and not is_head)
        if tensor.role is Role.EXPERT and layer is not None and layer.num_experts:
            key = (layer.num_experts, layer.experts_per_token)
            experts[key] = experts.get(key, 0) + stored.size_bytes
        elif is_table and len(tensor.shape) > 1:
            tables.append((tensor.shape[0], stored.size_bytes))
        else:
            dense_bytes += stored.size_bytes
    return WeightStream(
        dense_bytes=dense_bytes,
        tables=tuple(tables),
        experts=tuple((*key, size_bytes) for key, size_bytes in experts.items()),
    )


def _language(model: ModelSpec, weight_format: WeightFormat) -> Iterator[_Stored]:
    if weight_format.num_patterns * model.num_layers > _MAX_MATCHES:
        raise ModelConfigError(
            f"{model.name}: {weight_format.num_patterns:,} module patterns are too many to match "
            f"in {model.num_layers:,} layers; name modules by one pattern instead of one by one"
        )
    for tensor in model.outer + model.shared_layer_tensors:
        size_bytes, quantized = _cost(tensor, weight_format, tensor.name, model.dtype)
        yield _Stored(tensor, None, size_bytes, quantized)
    for kind, layer in enumerate(model.layers):
        numbers = [number for number, k in enumerate(model.layer_order) if k == kind]
        yield from _layer(model, weight_format, layer, numbers)


def _layer(
    model: ModelSpec, weight_format: WeightFormat, layer: Layer, numbers: Sequence[int]
) -> Iterator[_Stored]:
    component = model.layer_prefix.rpartition(".")[2]
    groups = weight_format.index_groups(component, numbers)
    for tensor in layer.tensors:
        size_bytes = quantized = 0
        for number, repeats in groups:
            full_name = f"{model.layer_prefix}.{number}.{tensor.name}"
            size, elements = _cost(tensor, weight_format, full_name, model.dtype)
            size_bytes += size * repeats
            quantized += elements * repeats
        yield _Stored(tensor, layer, size_bytes, quantized)


def _tower_bytes(model: ModelSpec, weight_format: WeightFormat) -> int:
    """Bytes of the towers; a skip list may name them from below the root module ``model``."""
    total = 0
    for tensor in model.tower:
        skipped = weight_format.layers_only or weight_format.skip.matches(
            _module(tensor.name).removeprefix("model.")
        )
        applied = weight_format.replace(rules=()) if skipped else weight_format
        total += tensor_bytes(tensor, applied, tensor.name, model.dtype)
    return total


def _cost(
    tensor: Tensor, weight_format: WeightFormat, full_name: str, dtype: DType
) -> tuple[int, int]:
    """(bytes, elements in a quantised scheme) of all copies of a tensor in one layer."""
    plain_bits = (weight_format.cast or dtype).bits
    if not weight_format.rules or len(tensor.shape) < 2:
        return -(-tensor.num_elements * plain_bits // 8), 0
    *outer, rows, columns = tensor.shape
    matrices = 1
    for size in outer:
        matrices *= size
    elements = matrices * rows * columns
    total = quantized = 0
    for module, copies in _copies(tensor, weight_format, _module(full_name)):
        scheme = weight_format.scheme_for(tensor, module)
        if scheme is None:
            total += -(-elements * copies * plain_bits // 8)
            continue
        total += matrix_bytes(scheme, rows, columns, dtype) * matrices * copies
        quantized += elements * copies
    return total, quantized


def _copies(tensor: Tensor, weight_format: WeightFormat, module: str) -> Iterator[tuple[str, int]]:
    """(module path of one copy, how many copies no pattern can tell from it)."""
    before, star, after = module.partition("*")
    if not star:
        yield module, tensor.count
        return
    component = before.rstrip(".").rpartition(".")[2]
    for number, copies in weight_format.index_groups(component, range(tensor.count)):
        yield f"{before}{number}{after.replace('*', '0')}", copies


def _module(name: str) -> str:
    return name.removesuffix(".weight")
