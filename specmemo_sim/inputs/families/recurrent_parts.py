"""Token mixers with a state of fixed size (Mamba, Mamba-2, gated delta nets) and their layers."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from specmemo_sim.inputs.config_reader import MAX_DIMENSION, ConfigReader
from specmemo_sim.inputs.dtypes import DType
from specmemo_sim.inputs.families.parts import gated_mlp, linear, norm, vector
from specmemo_sim.inputs.families.windows import read_layer_types
from specmemo_sim.inputs.model import Cache, Layer, Role, StateCache, Tensor

LINEAR, FULL, SLIDING, HYBRID = (
    "linear_attention", "full_attention", "sliding_attention", "hybrid",
)  # fmt: skip
CONV, MOE, MLP = "conv", "moe", "mlp"
_SYNONYMS = {
    LINEAR: ("mamba", "mamba2", "linear", "recurrent", "ssm", "kda", "lightning"),
    FULL: ("attention", "full", "global", "global_attention"),
    SLIDING: ("sliding", "local", "swa", "local_attention"),
    CONV: ("short_conv",),
}
_BLOCK_NAMES = {name: kind for kind, names in _SYNONYMS.items() for name in names}
_MAX_EXPANSION = 1024


@dataclass(frozen=True, slots=True)
class Mixer:
    """The token-mixing part of a layer: its tensors and what it caches."""

    tensors: tuple[Tensor, ...]
    caches: tuple[Cache, ...] = ()
    num_heads: int = 0
    head_dim: int = 0


@dataclass(frozen=True, slots=True)
class FeedForward:
    """The feed-forward part of a layer: its tensors and its widest activation per token."""

    tensors: tuple[Tensor, ...] = ()
    width: int = 0
    gated: bool = True
    num_experts: int = 0
    experts_per_token: int = 0


def build_layer(mixer: Mixer, feed_forward: FeedForward, others: Iterable[Tensor]) -> Layer:
    """A decoder layer of a mixer, a feed-forward part, and the tensors around them."""
    return Layer(
        tensors=(*mixer.tensors, *feed_forward.tensors, *others),
        caches=mixer.caches,
        num_heads=mixer.num_heads,
        head_dim=mixer.head_dim,
        mlp_width=feed_forward.width,
        mlp_gated=feed_forward.gated,
        num_experts=feed_forward.num_experts,
        experts_per_token=feed_forward.experts_per_token,
    )


def norms(hidden: int, *names: str) -> list[Tensor]:
    """RMS norms over the hidden size."""
    return [tensor for name in names for tensor in norm(name, hidden, "rms")]


def block_types(
    reader: ConfigReader, num_layers: int, default: Sequence[str], allowed: tuple[str, ...]
) -> list[str]:
    """Kind of each layer from ``layer_types`` (old names understood), else ``default``.

    Raises:
        ModelConfigError: a list of the wrong length, or a kind that is not ``allowed``.
    """
    stated = read_layer_types(reader, num_layers)
    kinds = [_BLOCK_NAMES.get(kind, kind) for kind in (default if stated is None else stated)]
    for kind in kinds:
        if kind not in allowed:
            raise reader.error(
                f"layer type {kind!r} is unknown for {reader.model_type}; "
                f"allowed are {', '.join(allowed)}; correct layer_types"
            )
    return kinds


def expanded_size(reader: ConfigReader, field: str, hidden: int) -> int:
    """Inner size of a mixer: hidden size times the expansion factor, rounded down."""
    factor = reader.number(field, 2.0)
    if not 0 < factor <= _MAX_EXPANSION or not 1 <= int(factor * hidden) <= MAX_DIMENSION:
        raise reader.error(
            f"{field} = {factor} is out of range; allowed is above 0 to {_MAX_EXPANSION}"
        )
    return int(factor * hidden)


def size_or_auto(reader: ConfigReader, field: str, automatic: int) -> int:
    """A stated size, or ``automatic`` where the file says ``"auto"`` or nothing."""
    value = reader.raw(field, note=False)
    return automatic if value in (None, "auto") else reader.checked_integer(field, value)


def depthwise_conv(name: str, channels: int, kernel: int, *, bias: bool) -> list[Tensor]:
    """A causal convolution of each channel over the last ``kernel`` tokens."""
    tensors = [Tensor(name=f"{name}.weight", shape=(channels, 1, kernel), role=Role.RECURRENT)]
    return [*tensors, vector(f"{name}.bias", channels, Role.RECURRENT)] if bias else tensors


def recurrent_state(channels: int, kernel: int, state_elements: int) -> StateCache:
    """What one recurrent layer keeps per sequence.

    The convolution keeps its last ``kernel`` inputs in the model's type, the recurrence its state
    in 32 bits. Source: the cache of transformers 5.24; other engines drop the oldest input.
    """
    return StateCache(
        conv_elements=channels * kernel, state_elements=state_elements, state_dtype=DType.FP32
    )


@dataclass(frozen=True, slots=True)
class MambaSizes:
    """Sizes of a Mamba (1) mixer."""

    hidden: int
    inner: int
    state: int
    kernel: int
    time_step_rank: int
    conv_bias: bool
    proj_bias: bool
    inner_norms: bool = False


def time_step_rank(reader: ConfigReader, field: str, hidden: int) -> int:
    """Rank of the time-step projection: as stated, else a sixteenth of the hidden size."""
    return size_or_auto(reader, field, math.ceil(hidden / 16))


def mamba_mixer(prefix: str, sizes: MambaSizes) -> Mixer:
    """A selective state-space mixer with a state per channel.

    Source: Gu and Dao 2023, arXiv:2312.00752, section 3.
    """
    inner, state, rank = sizes.inner, sizes.state, sizes.time_step_rank
    tensors = [
        *linear(f"{prefix}.in_proj", 2 * inner, sizes.hidden, Role.RECURRENT, bias=sizes.proj_bias),
        *depthwise_conv(f"{prefix}.conv1d", inner, sizes.kernel, bias=sizes.conv_bias),
        *linear(f"{prefix}.x_proj", rank + 2 * state, inner, Role.RECURRENT),
        *linear(f"{prefix}.dt_proj", inner, rank, Role.RECURRENT, bias=True),
        Tensor(name=f"{prefix}.A_log", shape=(inner, state), role=Role.RECURRENT),
        vector(f"{prefix}.D", inner, Role.RECURRENT),
        *linear(f"{prefix}.out_proj", sizes.hidden, inner, Role.RECURRENT, bias=sizes.proj_bias),
    ]
    if sizes.inner_norms:
        tensors += norm(f"{prefix}.dt_layernorm", rank, "rms")
        tensors += norm(f"{prefix}.b_layernorm", state, "rms")
        tensors += norm(f"{prefix}.c_layernorm", state, "rms")
    return Mixer(tuple(tensors), (recurrent_state(inner, sizes.kernel, inner * state),))


@dataclass(frozen=True, slots=True)
class Mamba2Sizes:
    """Sizes of a Mamba-2 mixer."""

    hidden: int
    inner: int
    num_heads: int
    head_dim: int
    groups: int
    state: int
    kernel: int
    conv_bias: bool
    in_bias: bool
    out_bias: bool
    gated_norm: bool = True


def mamba2_sizes(
    reader: ConfigReader, fields: dict[str, str], hidden: int, *, inner: int, in_bias: bool
) -> Mamba2Sizes:
    """Sizes of a Mamba-2 mixer, ``fields`` naming the configuration's words for them.

    Raises:
        ModelConfigError: heads whose sizes do not add up to the inner size.
    """
    num_heads = reader.integer(fields["num_heads"])
    head_dim = size_or_auto(reader, fields["head_dim"], inner // num_heads or 1)
    if num_heads * head_dim != inner:
        raise reader.error(
            f"{fields['num_heads']} = {num_heads} heads of size {head_dim} do not make up the "
            f"inner size {inner}; correct {fields['num_heads']} or {fields['head_dim']}"
        )
    return Mamba2Sizes(
        hidden=hidden,
        inner=inner,
        num_heads=num_heads,
        head_dim=head_dim,
        groups=reader.integer(fields["groups"]),
        state=reader.integer(fields["state"]),
        kernel=reader.integer(fields["kernel"]),
        conv_bias=reader.flag(fields["conv_bias"], True),
        in_bias=in_bias,
        out_bias=in_bias,
    )


def mamba2_mixer(prefix: str, sizes: Mamba2Sizes) -> Mixer:
    """A state-space mixer with a matrix state per head.

    Source: Dao and Gu 2024, arXiv:2405.21060, section 7.
    """
    channels = sizes.inner + 2 * sizes.groups * sizes.state
    projected = sizes.inner + channels + sizes.num_heads
    tensors = [
        *linear(f"{prefix}.in_proj", projected, sizes.hidden, Role.RECURRENT, bias=sizes.in_bias),
        *depthwise_conv(f"{prefix}.conv1d", channels, sizes.kernel, bias=sizes.conv_bias),
        vector(f"{prefix}.dt_bias", sizes.num_heads, Role.RECURRENT),
        vector(f"{prefix}.A_log", sizes.num_heads, Role.RECURRENT),
        vector(f"{prefix}.D", sizes.num_heads, Role.RECURRENT),
        *(norm(f"{prefix}.norm", sizes.inner, "rms") if sizes.gated_norm else ()),
        *linear(
            f"{prefix}.out_proj", sizes.hidden, sizes.inner, Role.RECURRENT, bias=sizes.out_bias
        ),
    ]
    state_elements = sizes.inner * sizes.state
    return Mixer(tuple(tensors), (recurrent_state(channels, sizes.kernel, state_elements),))


@dataclass(frozen=True, slots=True)
class DeltaSizes:
    """Sizes of a gated delta net: key heads are shared by groups of value heads."""

    num_key_heads: int
    num_value_heads: int
    key_head_dim: int
    value_head_dim: int
    kernel: int

    @property
    def key_size(self) -> int:
        """Features of all key heads; queries have as many."""
        return self.num_key_heads * self.key_head_dim

    @property
    def value_size(self) -> int:
        """Features of all value heads."""
        return self.num_value_heads * self.value_head_dim

    def cache(self) -> StateCache:
        """The window of queries, keys and values, and one matrix per value head.

        Source: Yang et al. 2024, arXiv:2412.06464, equation 10 (a key by value matrix per head).
        """
        matrix = self.num_value_heads * self.key_head_dim * self.value_head_dim
        return recurrent_state(2 * self.key_size + self.value_size, self.kernel, matrix)


def gated_block(
    names: tuple[str, str, str], hidden: int, width: int, role: Role = Role.MLP, *, count: int = 1
) -> list[Tensor]:
    """Gate, up and down projections under the names a family gives them."""
    gate, up, down = names
    return [
        *linear(gate, width, hidden, role, count=count),
        *linear(up, width, hidden, role, count=count),
        *linear(down, hidden, width, role, count=count),
    ]


def dense_feed_forward(prefix: str, hidden: int, width: int, *, bias: bool = False) -> FeedForward:
    """A gated feed-forward part."""
    return FeedForward(tuple(gated_mlp(prefix, hidden, width, bias=bias)), width)
