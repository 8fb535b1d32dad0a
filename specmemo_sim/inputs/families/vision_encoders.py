"""Vision towers with a design of their own: Qwen-VL, GLM-V, Llama 3.2 and 4, Gemma 4."""

from specmemo_sim.inputs.config_reader import MAX_DIMENSION, ConfigReader
from specmemo_sim.inputs.families.parts import (
    embedding,
    gated_mlp,
    linear,
    norm,
    plain_mlp,
    vector,
)
from specmemo_sim.inputs.families.vision_parts import (
    attention,
    convolution,
    num_patches,
    pair,
    patch_kernel,
    repeated,
    under,
)
from specmemo_sim.inputs.model import Role, Tensor


def qwen2_tower(reader: ConfigReader) -> list[Tensor]:
    """The tensors of Qwen2-VL's vision model, whose merger is its projector."""
    hidden = reader.integer("embed_dim")
    ratio = reader.number("mlp_ratio", 4.0)
    if not 0 < ratio <= 1024 or not 1 <= int(hidden * ratio) <= MAX_DIMENSION:
        raise reader.error(f"mlp_ratio = {ratio} is out of range; allowed is above 0 to 1024")
    block = [
        *_joint_attention(hidden),
        *norm("norm1", hidden, "layer"),
        *norm("norm2", hidden, "layer"),
        *plain_mlp(("mlp.fc1", "mlp.fc2"), hidden, int(hidden * ratio), bias=True),
    ]
    return [
        *_video_patches(reader, hidden, bias=False),
        *repeated("blocks", reader.integer("depth"), block),
        *norm("merger.ln_q", hidden, "layer"),
        *_merger_mlp(reader, hidden, reader.integer("hidden_size")),
    ]


def qwen2_5_tower(reader: ConfigReader) -> list[Tensor]:
    """The tensors of Qwen2.5-VL's vision model: gated MLPs with biases, RMS norms."""
    hidden = reader.integer("hidden_size")
    block = [
        *_joint_attention(hidden),
        *norm("norm1", hidden, "rms"),
        *norm("norm2", hidden, "rms"),
        *gated_mlp("mlp", hidden, reader.integer("intermediate_size"), bias=True),
    ]
    return [
        *_video_patches(reader, hidden, bias=False),
        *repeated("blocks", reader.integer("depth"), block),
        *norm("merger.ln_q", hidden, "rms"),
        *_merger_mlp(reader, hidden, reader.integer("out_hidden_size")),
    ]


def qwen3_tower(reader: ConfigReader) -> list[Tensor]:
    """The tensors of Qwen3-VL's and Qwen3.5's vision model, deep-stack mergers included."""
    hidden = reader.integer("hidden_size")
    block = [
        *_joint_attention(hidden),
        *norm("norm1", hidden, "layer"),
        *norm("norm2", hidden, "layer"),
        *plain_mlp(
            ("mlp.linear_fc1", "mlp.linear_fc2"),
            hidden,
            reader.integer("intermediate_size"),
            bias=True,
        ),
    ]
    positions = reader.integer("num_position_embeddings")
    mergers = len(reader.items("deepstack_visual_indexes") or ())
    joined = hidden * reader.integer("spatial_merge_size") ** 2
    tensors = [
        *_video_patches(reader, hidden, bias=True),
        embedding("pos_embed", positions, hidden, Role.POSITION),
        *repeated("blocks", reader.integer("depth"), block),
        *under("merger", _qwen3_merger(reader, hidden, joined)),
    ]
    if mergers:
        deep = _qwen3_merger(reader, joined, joined)
        tensors += repeated("deepstack_merger_list", mergers, deep)
    return tensors


def glm4v_tower(reader: ConfigReader) -> list[Tensor]:
    """The tensors of GLM-4.1V's, 4.5V's and 4.6V's vision model, whose merger is its projector."""
    hidden, outputs = reader.integer("hidden_size"), reader.integer("out_hidden_size")
    merge = reader.integer("spatial_merge_size")
    bias = reader.flag("attention_bias")
    block = [
        *norm("norm1", hidden, "rms"),
        *norm("norm2", hidden, "rms"),
        *linear("attn.qkv", 3 * hidden, hidden, Role.ATTENTION, bias=bias),
        *linear("attn.proj", hidden, hidden, Role.ATTENTION),
        *gated_mlp("mlp", hidden, outputs),
    ]
    return [
        *_video_patches(reader, hidden, bias=True),
        embedding("embeddings.position_embedding", num_patches(reader), hidden, Role.POSITION),
        *repeated("blocks", reader.integer("depth"), block),
        *norm("post_conv_layernorm", hidden, "rms"),
        *norm("post_layernorm", hidden, "rms"),
        *convolution("downsample", (outputs, hidden, merge, merge), bias=True),
        *linear("merger.proj", outputs, outputs, Role.MLP),
        *norm("merger.post_projection_norm", outputs, "layer"),
        *gated_mlp("merger", outputs, reader.integer("intermediate_size")),
    ]


def _qwen3_merger(reader: ConfigReader, normed: int, joined: int) -> list[Tensor]:
    outputs = reader.integer("out_hidden_size")
    return [
        *norm("norm", normed, "layer"),
        *linear("linear_fc1", joined, joined, Role.MLP, bias=True),
        *linear("linear_fc2", outputs, joined, Role.MLP, bias=True),
    ]


def _merger_mlp(reader: ConfigReader, hidden: int, outputs: int) -> list[Tensor]:
    joined = hidden * reader.integer("spatial_merge_size") ** 2
    return [
        *linear("merger.mlp.0", joined, joined, Role.MLP, bias=True),
        *linear("merger.mlp.2", outputs, joined, Role.MLP, bias=True),
    ]


def _joint_attention(hidden: int) -> list[Tensor]:
    return [
        *linear("attn.qkv", 3 * hidden, hidden, Role.ATTENTION, bias=True),
        *linear("attn.proj", hidden, hidden, Role.ATTENTION, bias=True),
    ]


def _video_patches(reader: ConfigReader, hidden: int, *, bias: bool) -> list[Tensor]:
    size, frames = reader.integer("patch_size"), reader.integer("temporal_patch_size")
    shape = (hidden, reader.integer("in_channels"), frames, size, size)
    return convolution("patch_embed.proj", shape, bias=bias)


def mllama_tower(reader: ConfigReader) -> list[Tensor]:
    """The tensors of Llama 3.2's vision model: a local and a gated global transformer."""
    hidden = reader.integer("hidden_size")
    width = reader.integer("intermediate_size")
    positions = num_patches(reader) + 1
    tiles = reader.integer("max_num_tiles")
    stated = reader.items("supported_aspect_ratios")
    ratios = 1 + (_MLLAMA_RATIOS if stated is None else len(stated))
    block = [
        *attention("self_attn", hidden, output="o_proj", bias=False),
        *plain_mlp(("mlp.fc1", "mlp.fc2"), hidden, width, bias=True),
        *norm("input_layernorm", hidden, "layer"),
        *norm("post_attention_layernorm", hidden, "layer"),
    ]
    gated = [*block, vector("gate_attn", 1), vector("gate_ffn", 1)]
    place = "gated_positional_embedding"
    tensors = [
        *convolution("patch_embedding", patch_kernel(reader, hidden)),
        vector("class_embedding", hidden),
        vector(f"{place}.gate", 1),
        Tensor(name=f"{place}.embedding", shape=(positions, hidden), role=Role.POSITION),
        embedding(f"{place}.tile_embedding", ratios, tiles * positions * hidden, Role.POSITION),
        *norm("layernorm_pre", hidden, "layer"),
        *norm("layernorm_post", hidden, "layer"),
        *repeated("transformer.layers", reader.integer("num_hidden_layers"), block),
        *repeated("global_transformer.layers", reader.integer("num_global_layers"), gated),
    ]
    for name in ("pre_tile_positional_embedding", "post_tile_positional_embedding"):
        tensors.append(vector(f"{name}.gate", 1))
        tensors.append(embedding(f"{name}.embedding", ratios, tiles * hidden, Role.POSITION))
    return tensors


_MLLAMA_RATIOS = 8
"""Aspect ratios of up to four tiles. Source: transformers 5.24, default of the class."""


def llama4_tower(reader: ConfigReader) -> list[Tensor]:
    """The tensors of Llama 4's vision model, its pixel-shuffle adapter included."""
    hidden = reader.integer("hidden_size")
    width = reader.integer("intermediate_size")
    tall, wide = pair(reader, "patch_size")
    inputs = reader.integer("num_channels") * tall * wide
    joined, output = reader.integer("projector_input_dim"), reader.integer("projector_output_dim")
    block = [
        *attention("self_attn", hidden, output="o_proj"),
        *plain_mlp(("mlp.fc1", "mlp.fc2"), hidden, width, bias=True),
        *norm("input_layernorm", hidden, "layer"),
        *norm("post_attention_layernorm", hidden, "layer"),
    ]
    positions = (num_patches(reader) + 1, hidden)
    return [
        *linear("patch_embedding.linear", hidden, inputs, Role.OTHER),
        vector("class_embedding", hidden),
        Tensor(name="positional_embedding_vlm", shape=positions, role=Role.POSITION),
        *norm("layernorm_pre", hidden, "layer"),
        *norm("layernorm_post", hidden, "layer"),
        *repeated("model.layers", reader.integer("num_hidden_layers"), block),
        *linear("vision_adapter.mlp.fc1", joined, width, Role.MLP),
        *linear("vision_adapter.mlp.fc2", output, output, Role.MLP),
    ]


def gemma4_tower(reader: ConfigReader) -> list[Tensor]:
    """The tensors of Gemma 4's vision model; clipping bounds are scalars and left out."""
    hidden = reader.integer("hidden_size")
    heads, kv_heads = reader.integer("num_attention_heads"), reader.integer("num_key_value_heads")
    head_dim = reader.integer("head_dim")
    shapes = {
        "self_attn.q_proj": (heads * head_dim, hidden),
        "self_attn.k_proj": (kv_heads * head_dim, hidden),
        "self_attn.v_proj": (kv_heads * head_dim, hidden),
        "self_attn.o_proj": (hidden, heads * head_dim),
    }
    width = reader.integer("intermediate_size")
    block = [
        *(
            tensor
            for name, (outputs, inputs) in shapes.items()
            for tensor in linear(f"{name}.linear", outputs, inputs, Role.ATTENTION)
        ),
        *norm("self_attn.q_norm", head_dim, "rms"),
        *norm("self_attn.k_norm", head_dim, "rms"),
        *linear("mlp.gate_proj.linear", width, hidden, Role.MLP),
        *linear("mlp.up_proj.linear", width, hidden, Role.MLP),
        *linear("mlp.down_proj.linear", hidden, width, Role.MLP),
        *norm("input_layernorm", hidden, "rms"),
        *norm("post_attention_layernorm", hidden, "rms"),
        *norm("pre_feedforward_layernorm", hidden, "rms"),
        *norm("post_feedforward_layernorm", hidden, "rms"),
    ]
    table = (2, reader.integer("position_embedding_size"), hidden)
    inputs = 3 * reader.integer("patch_size") ** 2
    tensors = [
        *linear("patch_embedder.input_proj", hidden, inputs, Role.OTHER),
        Tensor(name="patch_embedder.position_embedding_table", shape=table, role=Role.POSITION),
        *repeated("encoder.layers", reader.integer("num_hidden_layers"), block),
    ]
    if reader.flag("standardize"):
        tensors += [vector(name, hidden, buffer=True) for name in ("std_bias", "std_scale")]
    return tensors
