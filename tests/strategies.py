"""Hypothesis strategies for what the simulator takes in; small and valid by construction."""

from hypothesis import strategies as st

from specmemo_sim.inputs.catalog import load_device
from specmemo_sim.inputs.dtypes import DType
from specmemo_sim.inputs.workload import Workload

from model_inventories import llama_spec

DEVICE_IDS = ("nvidia-titan-rtx", "nvidia-h100-sxm", "apple-m2-16gb", "nvidia-rtx-4060-laptop")


@st.composite
def models(draw):
    """Llama-style models of any small size."""
    kv_heads = draw(st.integers(1, 4))
    heads = kv_heads * draw(st.integers(1, 4))
    return llama_spec(
        vocab=draw(st.integers(16, 4000)),
        hidden=heads * 8 * draw(st.integers(1, 8)),
        layers=draw(st.integers(1, 6)),
        heads=heads,
        kv_heads=kv_heads,
        inner=draw(st.integers(8, 900)),
        tied=draw(st.booleans()),
    )


def devices():
    """Some devices of every class."""
    return st.sampled_from(DEVICE_IDS).map(load_device)


@st.composite
def workloads(draw):
    """Chats of a few turns."""
    return Workload(
        batch=draw(st.integers(1, 8)),
        turns=draw(st.integers(1, 12)),
        prompt_tokens=draw(st.integers(1, 200)),
        output_tokens=draw(st.integers(1, 200)),
        prefill_chunk=draw(st.sampled_from([16, 64, 2048])),
    )


def kv_dtypes():
    """Types a KV cache is kept in."""
    return st.sampled_from([DType.FP32, DType.FP16, DType.BF16, DType.FP8])
