"""Latent attention decoders against transformers: parameters, names, caches; published totals."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, Mistral4ForCausalLM

from oracle.latent_cases import (
    CASES,
    DEEPSEEK_V3,
    INDEX,
    KIMI_K2,
    LONGCAT,
    LONGCAT_FLASH,
    MLA,
    MOE,
    V2,
    V2_LITE,
)
from oracle.meta_models import (
    our_model,
    our_tensors,
    tiny_config,
    tiny_settings,
    transformers_parameter_count,
)
from oracle.stored_models import our_stored_tensors, stored_tensors
from specmemo_sim.errors import ModelConfigError
from specmemo_sim.inputs.hf_config import model_from_config
from specmemo_sim.inputs.model import Layer, ModelSpec, Role


@pytest.mark.parametrize(("model_type", "over"), CASES)
def test_a_latent_model_has_as_many_parameters_as_transformers(model_type, over):
    expected = transformers_parameter_count(tiny_config(model_type, **over))
    assert our_model(model_type, **over).num_parameters == expected


@pytest.mark.parametrize(("model_type", "over"), CASES)
def test_tensors_are_named_and_shaped_as_in_a_checkpoint(model_type, over, tmp_path):
    stored = stored_tensors(tiny_config(model_type, **over), tmp_path)
    assert our_stored_tensors(our_model(model_type, **over)) == stored


@pytest.mark.parametrize(
    "over", [MOE, {**MOE, "q_lora_rank": None, "attention_bias": True, "first_k_dense_replace": 2}]
)
def test_mistral4_is_counted_as_by_its_own_class(over):
    with torch.device("meta"):
        model = Mistral4ForCausalLM(tiny_config("mistral4", **over))
    expected = {
        name: tuple(p.shape) for name, p in model.named_parameters() if "expert" not in name
    }
    ours = our_model("mistral4", **over)
    assert ours.num_parameters == sum(p.numel() for p in model.parameters())
    found = {name: shape for name, shape in our_tensors(ours) if "expert" not in name}
    assert found == expected


def _cached(model_type: str, tokens: int, over: dict[str, object]) -> list[tuple[int, int]]:
    """(latent, indexer) elements per token of each attention layer's cache in transformers."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(tiny_config(model_type, **over)).eval()
    with torch.no_grad():
        cache = model(torch.ones(1, tokens, dtype=torch.long), use_cache=True).past_key_values
    held = []
    for layer in cache.layers:
        index = getattr(layer, "indexer_keys", None)
        latent = layer.keys.numel() + layer.values.numel()
        held.append((latent // tokens, 0 if index is None else index.numel() // tokens))
    return held


def _ours(spec: ModelSpec) -> list[tuple[int, int]]:
    return [
        (cache.latent_dim + cache.rope_dim, cache.index_dim)
        for layer in spec.layer_sequence()
        for cache in layer.caches
    ]


@pytest.mark.parametrize(("model_type", "over"), CASES)
def test_each_layer_caches_what_transformers_caches_per_token(model_type, over):
    assert _ours(our_model(model_type, **over)) == _cached(model_type, 5, over)


def test_expanded_heads_are_what_transformers_attends_with():
    """Queries and keys have nope + rope features, values their own number, per head."""
    seen = {}
    config = tiny_config("deepseek_v3", **MOE)
    model = AutoModelForCausalLM.from_config(config).eval()
    attention = model.model.layers[0].self_attn
    original = attention.expand_kv

    def watched(*args):
        seen["keys"], seen["values"] = original(*args)
        return seen["keys"], seen["values"]

    attention.expand_kv = watched
    with torch.no_grad():
        model(torch.ones(1, 3, dtype=torch.long))
    [cache] = next(our_model("deepseek_v3", **MOE).layer_sequence()).caches
    assert seen["keys"].shape == (1, cache.num_heads, 3, cache.key_head_dim)
    assert seen["values"].shape == (1, cache.num_heads, 3, cache.value_head_dim)


SIZES = st.fixed_dictionaries(
    {
        "hidden_size": st.sampled_from([16, 24, 40]),
        "vocab_size": st.integers(20, 300),
        "intermediate_size": st.integers(8, 90),
        "num_hidden_layers": st.integers(1, 4),
        "num_attention_heads": st.sampled_from([1, 2, 4, 8]),
        "kv_lora_rank": st.integers(1, 40),
        "q_lora_rank": st.none() | st.integers(1, 40),
        "qk_nope_head_dim": st.integers(1, 20),
        "qk_rope_head_dim": st.sampled_from([2, 4, 8]),
        "v_head_dim": st.integers(1, 20),
        "n_routed_experts": st.sampled_from([2, 5, 16]),
        "n_shared_experts": st.integers(1, 3),
        "first_k_dense_replace": st.integers(0, 5),
        "moe_intermediate_size": st.integers(3, 40),
    }
)


@settings(max_examples=30, deadline=None)
@given(model_type=st.sampled_from(["deepseek_v2", "deepseek_v3", "sarvam_mla"]), sizes=SIZES)
def test_random_sizes_count_as_in_transformers(model_type, sizes):
    over = {**sizes, "num_experts_per_tok": 2, "num_key_value_heads": sizes["num_attention_heads"]}
    expected = transformers_parameter_count(tiny_config(model_type, **over))
    assert our_model(model_type, **over).num_parameters == expected


def _biases(layers: list[Layer]) -> int:
    """Elements of the routing biases, which are stored but are no parameters."""
    return sum(t.num_elements for layer in layers for t in layer.tensors if t.buffer)


def _own(layer: Layer) -> int:
    """Stored elements of a draft layer without its copies of embedding and LM head."""
    copies = (Role.EMBEDDING, Role.LM_HEAD)
    return sum(t.num_elements for t in layer.tensors if t.role not in copies)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        # Totals of the safetensors metadata that the model hub shows.
        (V2_LITE, 15_706_484_224),
        (V2, 235_741_434_880),
    ],
)
def test_real_checkpoints_have_their_published_parameters(config, expected):
    assert model_from_config(config, "published").num_parameters == expected


def test_deepseek_v3_has_the_reference_total_with_its_routing_biases():
    # The total counted tensor by tensor elsewhere includes one bias per expert in 58 layers.
    spec = model_from_config(DEEPSEEK_V3, "DeepSeek-V3")
    layers = list(spec.layer_sequence())
    assert _biases(layers) == 58 * 256
    assert spec.num_parameters + _biases(layers) == 671_026_419_200


def test_the_draft_layer_of_deepseek_v3_has_the_reference_total_without_its_copies():
    # The release documents 11.5 B parameters besides 0.9 B each of embedding and LM head; the
    # exact count of others includes the routing bias and excludes the two copies.
    spec = model_from_config(DEEPSEEK_V3, "DeepSeek-V3")
    assert [_own(layer) for layer in spec.mtp] == [11_610_068_224]
    copies = spec.num_mtp_parameters + _biases(list(spec.mtp)) - 11_610_068_224
    assert copies == 2 * 129280 * 7168


def test_the_whole_deepseek_v3_checkpoint_splits_into_the_published_formats():
    # Hub metadata: 680,571,043,840 elements in FP8, 3,918,786,560 in BF16, 41,555,600 in FP32,
    # which are the scales of 128 x 128 blocks and the routing biases.
    spec = model_from_config(DEEPSEEK_V3, "DeepSeek-V3")
    layers = [*spec.layer_sequence(), *spec.mtp]
    everything = [*spec.outer, *(t for layer in layers for t in layer.tensors)]
    roles = (Role.ATTENTION, Role.MLP, Role.EXPERT, Role.SHARED_EXPERT)
    fp8 = [t for t in everything if t.linear and t.role in roles]
    blocks = sum(t.count * math.prod(math.ceil(size / 128) for size in t.shape) for t in fp8)
    total = spec.num_parameters + spec.num_mtp_parameters
    assert sum(t.num_elements for t in fp8) == 680_571_043_840
    assert total - 680_571_043_840 == 3_918_786_560
    assert blocks + _biases(layers) == 41_555_600


def test_deepseek_v3_caches_half_a_gibibyte_of_latents_at_8192_tokens():
    spec = model_from_config(DEEPSEEK_V3, "DeepSeek-V3")
    elements = sum(latent + index for latent, index in _ours(spec))
    assert 2 * 8192 * elements == 575_668_224


@pytest.mark.parametrize(
    ("config", "total", "active"),
    [
        # DeepSeek-V3 report, arXiv:2412.19437: 671 B parameters, 37 B activated.
        (DEEPSEEK_V3, 671, 37),
        # DeepSeek-V2 report, arXiv:2405.04434: 236 B parameters, 21 B activated.
        (V2, 236, 21),
        # Kimi K2 report, arXiv:2507.20534: 1.04 T parameters, 32 B activated.
        (KIMI_K2, 1026, 32),
    ],
)
def test_totals_and_active_parameters_round_to_the_published_ones(config, total, active):
    spec = model_from_config(config, "published")
    assert round(spec.num_parameters / 1e9) == total
    assert round(spec.num_active_parameters / 1e9) == active


def test_longcat_flash_has_its_560_billion_parameters_and_two_caches_per_layer():
    # LongCat-Flash report, arXiv:2509.01322: 560 B parameters, 28 layers of two attention parts.
    spec = model_from_config(LONGCAT_FLASH, "LongCat-Flash")
    assert 560e9 <= spec.num_parameters < 561e9
    assert spec.num_layers == 28
    assert len(_ours(spec)) == 56


def test_longcat_experts_without_weights_only_add_rows_to_the_router():
    plain, zero = (our_model("longcat_flash", **{**LONGCAT, "zero_expert_num": n}) for n in (0, 3))
    assert zero.num_parameters - plain.num_parameters == 2 * 3 * 48


def test_kimi_k2_is_read_as_deepseek_v3():
    same = model_from_config({**KIMI_K2, "model_type": "deepseek_v3"}, "same")
    assert model_from_config(KIMI_K2, "kimi").layers == same.layers


def test_a_class_default_alone_promises_no_draft_layers():
    assert our_model("deepseek_v3", **MOE).mtp == ()


def test_a_sparse_attention_draft_layer_has_an_indexer_of_its_own():
    given = {
        **tiny_settings("glm_moe_dsa", **MOE, **INDEX),
        "indexer_types": ["full", "shared", "shared", "shared"],
        "num_nextn_predict_layers": 2,
    }
    spec = model_from_config(given, "glm")
    assert [cache.index_dim for layer in spec.mtp for cache in layer.caches] == [10, 10]
    assert _ours(spec)[-1][1] == 0


@pytest.mark.parametrize(
    "fields",
    [
        {"index_topk_pattern": "FSFS"},
        {"index_topk_freq": 3, "index_skip_topk_offset": 2},
        {"index_topk_freq": 2, "index_skip_topk_offset": 1},
        {},
    ],
)
def test_indexers_are_where_transformers_puts_them(fields):
    settings_ = tiny_settings("glm_moe_dsa", **MOE, **INDEX)
    kinds = type(tiny_config("glm_moe_dsa"))(
        **{key: value for key, value in settings_.items() if key != "model_type"}, **fields
    ).indexer_types
    spec = model_from_config({**settings_, **fields}, "glm")
    assert [bool(index) for _, index in _ours(spec)] == [kind == "full" for kind in kinds]


def test_null_experts_make_a_deepseek_model_dense():
    given = {**tiny_settings("deepseek_v2", **MLA), "n_routed_experts": None}
    spec = model_from_config(given, "dense")
    assert all(layer.num_experts == 0 for layer in spec.layers)


@pytest.mark.parametrize(
    ("model_type", "over", "message"),
    [
        ("deepseek_v3", {"kv_lora_rank": 0}, "kv_lora_rank = 0 is out of range"),
        ("deepseek_v3", {"v_head_dim": None}, "v_head_dim is missing"),
        ("deepseek_v3", {"num_experts_per_tok": 17}, "exceeds the 16 experts"),
        ("deepseek_v3", {"moe_layer_freq": 0}, "moe_layer_freq = 0"),
        ("deepseek_v3", {"num_nextn_predict_layers": 65}, "allowed is 0 to 64"),
        ("deepseek_v32", {"q_lora_rank": None}, "q_lora_rank is missing"),
        ("glm_moe_dsa", {"indexer_types": ["full"]}, "each of 4 layers"),
        ("minicpm3", {"v_head_dim": None, "num_attention_heads": 5}, "not a multiple"),
        ("longcat_flash", {"moe_topk": 9}, "exceeds the 8 experts"),
        ("longcat_flash", {"num_layers": None, "num_hidden_layers": 3}, "must be even"),
    ],
)
def test_an_impossible_configuration_is_refused_in_one_line(model_type, over, message):
    base = {"longcat_flash": LONGCAT, "minicpm3": MLA}.get(model_type, MOE)
    given = {**tiny_settings(model_type, **base), **over}
    with pytest.raises(ModelConfigError, match=message) as caught:
        model_from_config(given, "broken")
    assert "\n" not in str(caught.value)


def test_a_kimi_configuration_must_state_its_ranks():
    given = {key: value for key, value in KIMI_K2.items() if key != "kv_lora_rank"}
    with pytest.raises(ModelConfigError, match="kv_lora_rank is missing"):
        model_from_config(given, "kimi")
