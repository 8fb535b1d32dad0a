"""Families whose layers differ in kind: recurrent, convolutional, shared or cross attention."""

from collections.abc import Callable

from specmemo_sim.inputs.config_reader import ConfigReader
from specmemo_sim.inputs.families.conv_hybrid import (
    build_lfm2,
    build_lfm2_moe,
    build_recurrent_gemma,
)
from specmemo_sim.inputs.families.delta_hybrid import build_olmo_hybrid, build_qwen
from specmemo_sim.inputs.families.gemma_nano import build_gemma3n, build_gemma4
from specmemo_sim.inputs.families.linear_hybrid import build_kimi_linear, build_minimax
from specmemo_sim.inputs.families.mllama import build_mllama
from specmemo_sim.inputs.families.nemotron_hybrid import build_nemotron_h
from specmemo_sim.inputs.families.parts import Decoder
from specmemo_sim.inputs.families.state_space import (
    build_bamba,
    build_falcon_h1,
    build_granite_hybrid,
    build_jamba,
    build_mamba,
    build_mamba2,
)
from specmemo_sim.inputs.families.zamba import build_zamba, build_zamba2

HYBRID_RULES: dict[str, Callable[[ConfigReader], Decoder]] = {
    "qwen3_next": build_qwen,
    "qwen3_5_text": build_qwen,
    "qwen3_5_moe_text": build_qwen,
    "olmo_hybrid": build_olmo_hybrid,
    "mamba": build_mamba,
    "falcon_mamba": build_mamba,
    "mamba2": build_mamba2,
    "jamba": build_jamba,
    "bamba": build_bamba,
    "falcon_h1": build_falcon_h1,
    "granitemoehybrid": build_granite_hybrid,
    "nemotron_h": build_nemotron_h,
    "zamba": build_zamba,
    "zamba2": build_zamba2,
    "lfm2": build_lfm2,
    "lfm2_moe": build_lfm2_moe,
    "recurrent_gemma": build_recurrent_gemma,
    "minimax": build_minimax,
    "minimax_text_01": build_minimax,
    "minimax_m1": build_minimax,
    "kimi_linear": build_kimi_linear,
    "gemma3n_text": build_gemma3n,
    "gemma4_text": build_gemma4,
    "mllama_text_model": build_mllama,
}
"""Rule of each hybrid family, by ``model_type``."""
