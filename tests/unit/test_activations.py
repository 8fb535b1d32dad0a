"""Activations: the closed form against peaks that were traced storage by storage."""

import pytest

from specmemo_sim.memory.activations import pass_activations

from model_inventories import llama_spec

# transformers 5.24, Llama-2-7B in fp16 under fake tensors: peak above the start of the call, less
# the keys and values that the call itself adds (2 * 32 layers * 4096 elements * 2 bytes a token),
# plus the int64 token ids, which were there before the call.
TRACED = [
    (512, 319_295_488 - 512 * 524_288 + 512 * 8),
    (2048, 1_277_181_952 - 2048 * 524_288 + 2048 * 8),
]


@pytest.mark.parametrize(("tokens", "traced_bytes"), TRACED)
def test_prefill_of_a_7b_peaks_where_it_was_traced(tokens, traced_bytes):
    ours = pass_activations(llama_spec(), tokens, 1, element_bytes=2)
    assert ours.peak_bytes == ours.mlp_bytes
    assert ours.peak_bytes == traced_bytes


def test_a_wide_vocabulary_makes_logits_the_peak():
    """256,000 entries for 64 nodes: the LM head outweighs the layers."""
    model = llama_spec(vocab=256_000, hidden=2048, inner=5632, heads=16, kv_heads=16)
    ours = pass_activations(model, 64, 64, element_bytes=2)
    assert ours.peak_bytes == ours.logits_bytes
    assert ours.logits_bytes > 64 * 256_000 * 2


def test_prefill_needs_one_row_of_logits_not_one_per_token():
    model = llama_spec()
    one, all_rows = (pass_activations(model, 2048, n, element_bytes=2) for n in (1, 2048))
    assert all_rows.logits_bytes - one.logits_bytes == 2047 * 32_000 * 2
