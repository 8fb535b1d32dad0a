"""Activations: the closed form against peaks that were traced storage by storage."""

import pytest

from specmemo_sim.memory.activations import pass_activations

from model_inventories import llama_spec, moe_spec

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


def test_routed_layers_peak_near_where_they_were_traced():
    """Qwen3-MoE shape (128 experts of 768, 8 chosen, hidden 2048) at 512 tokens: 75.0 MB traced."""
    model = moe_spec(
        hidden=2048,
        heads=32,
        kv_heads=4,
        inner=768,
        experts=128,
        chosen=8,
        layers=1,
        dense_layers=0,
    )
    ours = pass_activations(model, 512, 1, element_bytes=2)
    assert ours.peak_bytes == pytest.approx(75.0e6, rel=0.05)


def test_capped_logits_are_held_twice():
    """Gemma-2 caps its logits into a second set: 16.7 MB traced for 64 rows of 64,000."""
    plain = llama_spec(vocab=64_000, hidden=256, heads=4, kv_heads=2, inner=512, layers=1)
    capped = plain.replace(logits_copies=2)
    rows = [pass_activations(m, 64, 64, element_bytes=2).logits_bytes for m in (plain, capped)]
    assert rows[1] - rows[0] == 64 * 64_000 * 2
