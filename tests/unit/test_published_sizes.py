"""Published sizes that every part of the memory model must give."""

import pytest

from specmemo_sim.inputs.drafter import (
    MedusaHeads,
    eagle_from_model,
    eagle_head_tensors,
    eagle_like,
    medusa_head_tensors,
)
from specmemo_sim.inputs.dtypes import DType
from specmemo_sim.inputs.model_source import load_model
from specmemo_sim.inputs.quantization import cast_format
from specmemo_sim.memory.draft import draft_weight_bytes
from specmemo_sim.memory.kv_cache import CachePolicy, kv_bytes, kv_bytes_per_token
from specmemo_sim.memory.weights import weight_bytes

GIB = 2**30
FP16 = CachePolicy(DType.FP16)


def test_vicuna_7b_has_the_published_weights_and_cache():
    """Vicuna-7B: 6,738,415,616 parameters, 13,476,831,232 B in fp16, 524,288 B of KV a token."""
    model = load_model("lmsys/vicuna-7b-v1.3")
    assert model.num_parameters == 6_738_415_616
    assert weight_bytes(model, cast_format(DType.FP16)).total == 13_476_831_232
    assert kv_bytes_per_token(model, FP16) == 524_288


@pytest.mark.parametrize(
    ("model_id", "head_bytes"),
    [("lmsys/vicuna-7b-v1.3", 295_706_624), ("meta-llama/Llama-2-70b-chat-hf", 658_522_112)],
)
def test_one_medusa_head_has_the_bytes_of_its_shape(model_id, head_bytes):
    """A head is a residual block and an LM head: 0.296 GB for 7B, 0.659 GB for 70B, no constant."""
    heads = MedusaHeads(num_heads=1, dtype=DType.FP16)
    assert draft_weight_bytes(heads, load_model(model_id)) == head_bytes


def test_four_heads_are_four_times_one():
    model = load_model("lmsys/vicuna-7b-v1.3")
    four = MedusaHeads(num_heads=4, dtype=DType.FP16)
    assert draft_weight_bytes(four, model) == 4 * 295_706_624


def test_residual_blocks_add_their_matrix_and_bias():
    """A head without residual block is its LM head alone."""
    bare = MedusaHeads(num_heads=2, residual_blocks=0, dtype=DType.FP16)
    tensors = list(medusa_head_tensors(bare, 4096, 32000))
    assert [tensor.num_elements for tensor in tensors] == [2 * 4096 * 32000]


def test_llama_3_8b_at_8192_tokens_times_8_is_exactly_8_gib():
    model = load_model("meta-llama/Meta-Llama-3-8B")
    assert kv_bytes(model, 8192, 8, CachePolicy(DType.BF16)) == 8 * GIB


def test_deepseek_v3_latent_cache_at_8192_tokens_is_0_536_gib():
    """61 layers of 512 + 64 latent elements; expanded heads would need 46 times as much."""
    model = load_model("deepseek-ai/DeepSeek-R1")
    latent = kv_bytes(model, 8192, 1, CachePolicy(DType.BF16))
    assert latent == 575_668_224
    assert round(latent / GIB, 3) == 0.536
    expanded = kv_bytes(model, 8192, 1, CachePolicy(DType.BF16, expand_latent=True))
    # 128 heads of 192 + 128 elements, 61 layers, 2 bytes
    assert expanded == 128 * 320 * 61 * 2 * 8192


def test_gemma_2_9b_has_a_full_and_a_windowed_size():
    """Every token: 2.625 GiB at 8192; with 21 of 42 layers cut to 4096: 1.969 GiB."""
    model = load_model("google/gemma-2-9b")
    full = kv_bytes(model, 8192, 1, CachePolicy(DType.BF16))
    windowed = kv_bytes(model, 8192, 1, CachePolicy(DType.BF16, drop_outside_window=True))
    assert full / GIB == 2.625
    assert windowed / GIB == 1.96875


@pytest.mark.parametrize(
    ("target", "head", "third", "gib"),
    [
        ("meta-llama/Llama-2-7b-chat-hf", "yuhuili/EAGLE-llama2-chat-7B", False, 0.93),
        ("meta-llama/Llama-3.1-8B-Instruct", "yuhuili/EAGLE-LLaMA3.1-Instruct-8B", False, 2.43),
        ("meta-llama/Llama-3.1-8B-Instruct", "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B", True, 1.77),
    ],
)
def test_eagle_heads_load_what_sglang_measured(target, head, third, gib):
    """SGLang's logs: 0.93, 2.43 and 1.77 GiB for the three draft loads, to their two digits."""
    own = load_model(head)
    vocab = own.draft_vocab_size or own.vocab_size
    shape = eagle_from_model(own, load_model(target), third=third, draft_vocab=vocab)
    assert draft_weight_bytes(shape, load_model(target)) / GIB == pytest.approx(gib, abs=0.006)


def test_an_eagle_head_shaped_after_its_target_equals_its_own_configuration():
    target = load_model("meta-llama/Llama-2-7b-chat-hf")
    own = eagle_from_model(
        load_model("yuhuili/EAGLE-llama2-chat-7B"), target, third=False, draft_vocab=32000
    )
    derived = eagle_like(target, "eagle")
    assert eagle_head_tensors(own) == eagle_head_tensors(derived)
