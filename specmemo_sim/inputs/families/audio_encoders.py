"""Audio towers: Whisper-like encoders and Gemma 4's conformer."""

from specmemo_sim.inputs.config_reader import ConfigReader
from specmemo_sim.inputs.families.parts import embedding, linear, norm, plain_mlp, vector
from specmemo_sim.inputs.families.vision_parts import convolution, repeated, under
from specmemo_sim.inputs.model import Role, Tensor


def whisper_tower(reader: ConfigReader) -> list[Tensor]:
    """The tensors of a Whisper encoder, as in Qwen2-Audio and Voxtral.

    Source: Radford et al. 2022, arXiv:2212.04356, figure 1; keys have no bias.
    """
    hidden = reader.integer("hidden_size")
    bands = reader.integer("num_mel_bins")
    positions = reader.integer("max_source_positions")
    block = [
        *linear("self_attn.k_proj", hidden, hidden, Role.ATTENTION),
        *linear("self_attn.v_proj", hidden, hidden, Role.ATTENTION, bias=True),
        *linear("self_attn.q_proj", hidden, hidden, Role.ATTENTION, bias=True),
        *linear("self_attn.out_proj", hidden, hidden, Role.ATTENTION, bias=True),
        *norm("self_attn_layer_norm", hidden, "layer"),
        *plain_mlp(("fc1", "fc2"), hidden, reader.integer("intermediate_size"), bias=True),
        *norm("final_layer_norm", hidden, "layer"),
    ]
    return [
        *convolution("conv1", (hidden, bands, 3), bias=True),
        *convolution("conv2", (hidden, hidden, 3), bias=True),
        embedding("embed_positions", positions, hidden, Role.POSITION),
        *repeated("layers", reader.integer("num_hidden_layers"), block),
        *norm("layer_norm", hidden, "layer"),
    ]


def gemma4_audio_tower(reader: ConfigReader) -> list[Tensor]:
    """The tensors of Gemma 4's audio conformer; clipping bounds are scalars and left out."""
    hidden = reader.integer("hidden_size")
    channels = reader.integers("subsampling_conv_channels") or []
    if len(channels) != 2 or min(channels) < 4:
        raise reader.error(
            "subsampling_conv_channels must be two channel counts of at least 4, such as [128, 32]"
        )
    first, second = channels
    outputs = reader.integer("output_proj_dims")
    subsampling = [
        *convolution("layer0.conv", (first, 1, 3, 3)),
        *norm("layer0.norm", first, "rms"),
        *convolution("layer1.conv", (second, first, 3, 3)),
        *norm("layer1.norm", second, "rms"),
        *linear("input_proj_linear", hidden, first // 4 * second, Role.OTHER),
    ]
    return [
        *under("subsample_conv_projection", subsampling),
        *repeated("layers", reader.integer("num_hidden_layers"), _conformer_block(reader, hidden)),
        *linear("output_proj", outputs, hidden, Role.OTHER, bias=True),
    ]


def _conformer_block(reader: ConfigReader, hidden: int) -> list[Tensor]:
    """Two half feed-forward blocks around attention and a light convolution.

    Source: Gulati et al. 2020, arXiv:2005.08100, figure 1.
    """
    heads = reader.integer("num_attention_heads")
    if hidden % heads:
        raise reader.error(f"hidden_size = {hidden} is not a multiple of {heads} attention heads")
    kernel = (hidden, 1, reader.integer("conv_kernel_size"))
    wide = 4 * hidden
    tensors = []
    for name in ("feed_forward1", "feed_forward2"):
        tensors += [
            *linear(f"{name}.ffw_layer_1.linear", wide, hidden, Role.MLP),
            *linear(f"{name}.ffw_layer_2.linear", hidden, wide, Role.MLP),
            *norm(f"{name}.pre_layer_norm", hidden, "rms"),
            *norm(f"{name}.post_layer_norm", hidden, "rms"),
        ]
    for name in ("q_proj.linear", "k_proj.linear", "v_proj.linear", "post.linear"):
        tensors += linear(f"self_attn.{name}", hidden, hidden, Role.ATTENTION)
    return [
        *tensors,
        *linear("self_attn.relative_k_proj", hidden, hidden, Role.ATTENTION),
        vector("self_attn.per_dim_scale", hidden // heads),
        *linear("lconv1d.linear_start.linear", 2 * hidden, hidden, Role.OTHER),
        *linear("lconv1d.linear_end.linear", hidden, hidden, Role.OTHER),
        *convolution("lconv1d.depthwise_conv1d", kernel),
        *norm("lconv1d.pre_layer_norm", hidden, "rms"),
        *norm("lconv1d.conv_norm", hidden, "rms"),
        *norm("norm_pre_attn", hidden, "rms"),
        *norm("norm_post_attn", hidden, "rms"),
        *norm("norm_out", hidden, "rms"),
    ]
