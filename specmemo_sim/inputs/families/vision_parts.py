"""Building blocks of vision and audio towers, and the plain vision transformers made of them."""

from collections.abc import Iterable

from specmemo_sim.inputs.config_reader import ConfigReader
from specmemo_sim.inputs.families.parts import (
    Norm,
    embedding,
    gated_mlp,
    linear,
    norm,
    plain_mlp,
    vector,
)
from specmemo_sim.inputs.model import Role, Tensor


def repeated(module: str, count: int, tensors: Iterable[Tensor]) -> list[Tensor]:
    """The tensors of ``count`` equal layers of a module list."""
    return [t.replace(name=f"{module}.*.{t.name}", count=count) for t in tensors]


def under(module: str, tensors: Iterable[Tensor]) -> list[Tensor]:
    """The tensors with ``module`` in front of their names."""
    return [t.replace(name=f"{module}.{t.name}") for t in tensors]


def convolution(name: str, shape: tuple[int, ...], *, bias: bool = False) -> list[Tensor]:
    """The kernel of a convolution, output channels first, and its bias."""
    tensors = [Tensor(name=f"{name}.weight", shape=shape, role=Role.OTHER)]
    return [*tensors, vector(f"{name}.bias", shape[0])] if bias else tensors


def pair(reader: ConfigReader, field: str) -> tuple[int, int]:
    """A size in both directions, stated as one number or as two."""
    value = reader.raw(field, note=False)
    if not isinstance(value, list | tuple):
        size = reader.integer(field)
        return size, size
    if len(value) != 2:
        raise reader.error(f"{field} must be one size or two, not {len(value)}")
    return reader.checked_integer(field, value[0]), reader.checked_integer(field, value[1])


def num_patches(reader: ConfigReader) -> int:
    """Patches of one image.

    Raises:
        ModelConfigError: an image smaller than a patch.
    """
    (height, width), (tall, wide) = pair(reader, "image_size"), pair(reader, "patch_size")
    patches = (height // tall) * (width // wide)
    if patches == 0:
        raise reader.error(f"image_size = {height} is smaller than patch_size = {tall}")
    return patches


def patch_kernel(reader: ConfigReader, hidden: int) -> tuple[int, ...]:
    """Shape of the convolution that embeds patches: [hidden, channels, height, width]."""
    return (hidden, reader.integer("num_channels"), *pair(reader, "patch_size"))


def attention(
    module: str, hidden: int, *, output: str = "out_proj", bias: bool = True
) -> list[Tensor]:
    """Query, key, value and output projections of one size."""
    names = ("q_proj", "k_proj", "v_proj", output)
    return [
        tensor
        for name in names
        for tensor in linear(f"{module}.{name}", hidden, hidden, Role.ATTENTION, bias=bias)
    ]


def clip_block(hidden: int, width: int) -> list[Tensor]:
    """One layer of CLIP, SigLIP and their kin: norms, attention and MLP, all with biases."""
    return [
        *attention("self_attn", hidden),
        *norm("layer_norm1", hidden, "layer"),
        *plain_mlp(("mlp.fc1", "mlp.fc2"), hidden, width, bias=True),
        *norm("layer_norm2", hidden, "layer"),
    ]


def clip_layers(reader: ConfigReader, hidden: int) -> list[Tensor]:
    """All layers of a CLIP-like encoder."""
    block = clip_block(hidden, reader.integer("intermediate_size"))
    return repeated("encoder.layers", reader.integer("num_hidden_layers"), block)


def clip_tower(reader: ConfigReader) -> list[Tensor]:
    """The tensors of a CLIP vision model."""
    hidden = reader.integer("hidden_size")
    positions = num_patches(reader) + 1
    return [
        vector("embeddings.class_embedding", hidden),
        *convolution("embeddings.patch_embedding", patch_kernel(reader, hidden)),
        embedding("embeddings.position_embedding", positions, hidden, Role.POSITION),
        *norm("pre_layrnorm", hidden, "layer"),
        *clip_layers(reader, hidden),
        *norm("post_layernorm", hidden, "layer"),
    ]


def siglip_tower(reader: ConfigReader) -> list[Tensor]:
    """The tensors of a SigLIP vision model, pooling head included when it has one."""
    hidden = reader.integer("hidden_size")
    tensors = idefics_tower(reader)
    if reader.flag("vision_use_head", True):
        tensors += _pooling_head(hidden, reader.integer("intermediate_size"))
    return tensors


def idefics_tower(reader: ConfigReader) -> list[Tensor]:
    """The tensors of the vision part of Idefics 3 and SmolVLM: SigLIP without a head."""
    hidden = reader.integer("hidden_size")
    return [
        *convolution("embeddings.patch_embedding", patch_kernel(reader, hidden), bias=True),
        embedding("embeddings.position_embedding", num_patches(reader), hidden, Role.POSITION),
        *clip_layers(reader, hidden),
        *norm("post_layernorm", hidden, "layer"),
    ]


def siglip2_tower(reader: ConfigReader) -> list[Tensor]:
    """The tensors of a SigLIP 2 vision model of any image shape: patches are flattened."""
    hidden = reader.integer("hidden_size")
    inputs = reader.integer("num_channels") * reader.integer("patch_size") ** 2
    patches = reader.integer("num_patches")
    tensors = [
        *linear("embeddings.patch_embedding", hidden, inputs, Role.OTHER, bias=True),
        embedding("embeddings.position_embedding", patches, hidden, Role.POSITION),
        *clip_layers(reader, hidden),
        *norm("post_layernorm", hidden, "layer"),
    ]
    if reader.flag("vision_use_head", True):
        tensors += _pooling_head(hidden, reader.integer("intermediate_size"))
    return tensors


def _pooling_head(hidden: int, width: int) -> list[Tensor]:
    joint = Tensor(
        name="head.attention.in_proj_weight", shape=(3 * hidden, hidden), role=Role.ATTENTION
    )
    return [
        Tensor(name="head.probe", shape=(1, 1, hidden), role=Role.OTHER),
        joint,
        vector("head.attention.in_proj_bias", 3 * hidden),
        *linear("head.attention.out_proj", hidden, hidden, Role.ATTENTION, bias=True),
        *norm("head.layernorm", hidden, "layer"),
        *plain_mlp(("head.mlp.fc1", "head.mlp.fc2"), hidden, width, bias=True),
    ]


def pixtral_tower(reader: ConfigReader) -> list[Tensor]:
    """The tensors of Pixtral's vision model: RMS norms, gated MLPs, no learned positions."""
    hidden = reader.integer("hidden_size")
    block = [
        *norm("attention_norm", hidden, "rms"),
        *gated_mlp("feed_forward", hidden, reader.integer("intermediate_size")),
        *attention("attention", hidden, output="o_proj", bias=False),
        *norm("ffn_norm", hidden, "rms"),
    ]
    return [
        *convolution("patch_conv", patch_kernel(reader, hidden)),
        *norm("ln_pre", hidden, "rms"),
        *repeated("transformer.layers", reader.integer("num_hidden_layers"), block),
    ]


def internvl_tower(reader: ConfigReader) -> list[Tensor]:
    """The tensors of InternVL's vision model."""
    hidden = reader.integer("hidden_size")
    kind: Norm = "rms" if reader.text("norm_type", "layer_norm") == "rms_norm" else "layer"
    bias = reader.flag("attention_bias")
    block = [
        *(
            tensor
            for name in ("q_proj", "k_proj", "v_proj")
            for tensor in linear(f"attention.{name}", hidden, hidden, Role.ATTENTION, bias=bias)
        ),
        *linear("attention.projection_layer", hidden, hidden, Role.ATTENTION, bias=True),
        *plain_mlp(("mlp.fc1", "mlp.fc2"), hidden, reader.integer("intermediate_size"), bias=True),
        *norm("layernorm_before", hidden, kind),
        *norm("layernorm_after", hidden, kind),
        vector("lambda_1", hidden),
        vector("lambda_2", hidden),
    ]
    if reader.flag("use_qk_norm"):
        block += [
            *norm("attention.q_norm", hidden, "rms"),
            *norm("attention.k_norm", hidden, "rms"),
        ]
    projection = "embeddings.patch_embeddings.projection"
    tensors = [
        vector("embeddings.cls_token", hidden),
        *([vector("embeddings.mask_token", hidden)] if reader.flag("use_mask_token") else []),
        *convolution(projection, patch_kernel(reader, hidden), bias=True),
        *repeated("encoder.layer", reader.integer("num_hidden_layers"), block),
    ]
    if reader.flag("use_absolute_position_embeddings", True):
        shape = (1, num_patches(reader) + 1, hidden)
        name = "embeddings.position_embeddings"
        tensors.append(Tensor(name=name, shape=shape, role=Role.POSITION))
    if not reader.flag("use_mean_pooling", True):
        tensors += norm("layernorm", hidden, "layer")
    return tensors


def intern_vit_tower(reader: ConfigReader) -> list[Tensor]:
    """The tensors of InternVL's vision model under the names of the code published with it.

    Source: ``InternVisionModel`` of the InternVL2, 2.5 and 3 checkpoints; it has no final norm.
    """
    hidden = reader.integer("hidden_size")
    kind = reader.text("norm_type", "rms_norm")
    kinds: dict[str, Norm] = {"rms_norm": "rms", "layer_norm": "layer"}
    if kind not in kinds:
        raise reader.error(f"norm_type {kind!r} is unknown; allowed are {', '.join(kinds)}")
    normed = reader.flag("qk_normalization", True)
    qkv_bias = reader.flag("qkv_bias")
    width = reader.integer("intermediate_size")
    block = [
        *linear("attn.qkv", 3 * hidden, hidden, Role.ATTENTION, bias=qkv_bias),
        *linear("attn.proj", hidden, hidden, Role.ATTENTION, bias=True),
        *(norm("attn.q_norm", hidden, "rms") if normed else ()),
        *(norm("attn.k_norm", hidden, "rms") if normed else ()),
        *plain_mlp(("mlp.fc1", "mlp.fc2"), hidden, width, bias=True),
        *norm("norm1", hidden, kinds[kind]),
        *norm("norm2", hidden, kinds[kind]),
        vector("ls1", hidden),
        vector("ls2", hidden),
    ]
    positions = (1, num_patches(reader) + 1, hidden)
    return [
        Tensor(name="embeddings.class_embedding", shape=(1, 1, hidden), role=Role.OTHER),
        *convolution("embeddings.patch_embedding", patch_kernel(reader, hidden), bias=True),
        Tensor(name="embeddings.position_embedding", shape=positions, role=Role.POSITION),
        *repeated("encoder.layers", reader.integer("num_hidden_layers"), block),
    ]
