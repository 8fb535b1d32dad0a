"""Routed decoders against transformers (parameters, stored names, caches) and published totals."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, Glm4vMoeTextModel

from oracle.meta_models import (
    cached_elements_per_token,
    our_elements_per_token,
    our_model,
    tiny_config,
    tiny_settings,
    transformers_parameter_count,
)
from oracle.moe_cases import (
    CASES,
    DBRX,
    FIRST_CASES,
    GLM,
    GLM_AIR,
    HUNYUAN,
    LOCAL,
    MIMO,
    NARROW,
    PUBLISHED,
    SCOUT,
    STACKED,
    WINDOWED,
    gpt_oss,
)
from oracle.stored_models import our_stored_tensors, stacked, stored_tensors
from specmemo_sim.errors import ModelConfigError
from specmemo_sim.inputs.hf_config import model_from_config
from specmemo_sim.inputs.model import Role


@pytest.mark.parametrize(("model_type", "over"), CASES)
def test_a_routed_model_has_as_many_parameters_as_transformers(model_type, over):
    expected = transformers_parameter_count(tiny_config(model_type, **over))
    assert our_model(model_type, **over).num_parameters == expected


@pytest.mark.parametrize("over", [GLM, {**GLM, "attention_bias": True, "first_k_dense_replace": 2}])
def test_the_text_part_of_glm4v_moe_is_counted_as_by_its_own_class(over):
    with torch.device("meta"):
        model = Glm4vMoeTextModel(tiny_config("glm4v_moe_text", **over))
    expected = sum(parameter.numel() for parameter in model.parameters())
    spec = our_model("glm4v_moe_text", **over)
    head = sum(t.num_elements for t in spec.outer if t.role is Role.LM_HEAD)
    assert spec.num_parameters - head == expected


@pytest.mark.parametrize("model_type", sorted(FIRST_CASES))
def test_tensors_are_named_and_shaped_as_in_a_checkpoint(model_type, tmp_path):
    over = FIRST_CASES[model_type]
    stored = stored_tensors(tiny_config(model_type, **over), tmp_path)
    ours = our_stored_tensors(our_model(model_type, **over))
    if model_type in STACKED:
        assert stacked(ours) == stacked(stored)
    else:
        assert ours == stored


@pytest.mark.parametrize("model_type", sorted(FIRST_CASES))
def test_each_layer_caches_as_many_elements_per_token_as_transformers(model_type):
    over = FIRST_CASES[model_type]
    expected = cached_elements_per_token(model_type, **over)
    assert our_elements_per_token(our_model(model_type, **over)) == expected


@pytest.mark.parametrize(("model_type", "over"), WINDOWED)
def test_the_layers_that_slide_are_those_of_transformers(model_type, over):
    tokens = torch.ones(1, 12, dtype=torch.long)
    model = AutoModelForCausalLM.from_config(tiny_config(model_type, **over)).eval()
    with torch.no_grad():
        cache = model(tokens, use_cache=True).past_key_values
    layers = our_model(model_type, **over).layer_sequence()
    windows = [layer.caches[0].window for layer in layers]
    assert windows == [7 if layer.is_sliding else None for layer in cache.layers]


SIZES = st.fixed_dictionaries(
    {
        "hidden_size": st.sampled_from([16, 24, 40, 64]),
        "vocab_size": st.integers(20, 300),
        "intermediate_size": st.integers(8, 90),
        "num_key_value_heads": st.sampled_from([1, 2, 4]),
        "num_hidden_layers": st.integers(1, 4),
        "head_dim": st.sampled_from([2, 6, 12]),
        "moe_intermediate_size": st.integers(3, 40),
        "num_experts_per_tok": st.integers(1, 3),
    }
)
EXPERTS = {
    "qwen3_moe": "num_experts",
    "gpt_oss": "num_local_experts",
    "glm4_moe": "n_routed_experts",
    "afmoe": "num_experts",
    "exaone_moe": "num_experts",
    "llama4_text": "num_local_experts",
    "mixtral": "num_local_experts",
}


@settings(max_examples=30, deadline=None)
@given(model_type=st.sampled_from(sorted(EXPERTS)), sizes=SIZES, experts=st.integers(3, 9))
def test_random_sizes_count_as_in_transformers(model_type, sizes, experts):
    fields = set(CONFIG_MAPPING[model_type].__dataclass_fields__)
    over = {key: value for key, value in sizes.items() if key in fields}
    over[EXPERTS[model_type]] = experts
    expected = transformers_parameter_count(tiny_config(model_type, **over))
    spec = our_model(model_type, **over)
    assert spec.num_parameters == expected
    routed = [layer for layer in spec.layers if layer.num_experts]
    assert all(layer.num_experts == experts for layer in routed)
    assert all(layer.experts_per_token == sizes["num_experts_per_tok"] for layer in routed)


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_real_checkpoints_have_their_published_parameters(name):
    config, expected = PUBLISHED[name]
    assert model_from_config(config, name).num_parameters == expected


def test_both_llama4_checkpoints_leave_the_same_rest_for_the_shared_vision_part():
    # Hub metadata, vision tower included; Scout and Maverick have the same tower and projector.
    scout, maverick = 108_641_793_536, 401_583_781_376
    experts = {"num_local_experts": 128, "interleave_moe_layer_step": 2}
    rests = {
        total - model_from_config({**SCOUT, **over}, "llama4").num_parameters
        for total, over in ((scout, {}), (maverick, experts))
    }
    assert len(rests) == 1
    assert 0 < rests.pop() < 10**9


def test_glm_air_with_its_draft_layer_has_the_published_total():
    # Hub metadata of GLM-4.5-Air, routing biases and the draft layer's copies included.
    spec = model_from_config(GLM_AIR, "GLM-4.5-Air")
    layers = [*spec.layer_sequence(), *spec.mtp]
    biases = sum(t.num_elements for layer in layers for t in layer.tensors if t.buffer)
    assert spec.num_parameters + spec.num_mtp_parameters + biases == 110_468_824_832


@pytest.mark.parametrize(
    ("config", "billions"),
    [
        # Model card of gpt-oss (arXiv:2508.10925, table 1): active without the input embedding.
        (gpt_oss(24, 32), 3.61),
        (gpt_oss(36, 128), 5.13),
        # Mixtral of Experts (arXiv:2401.04088): 12.9 B active with the 0.13 B input embedding.
        (PUBLISHED["Mixtral-8x7B"][0], 12.75),
    ],
)
def test_a_token_passes_through_the_published_active_parameters(config, billions):
    spec = model_from_config(config, "published")
    assert spec.num_active_parameters / 1e9 == pytest.approx(billions, abs=0.005)


def test_a_token_widens_to_all_chosen_and_shared_experts():
    spec = our_model("glm4_moe", **GLM)
    assert [layer.mlp_width for layer in spec.layer_sequence()] == [56, 96, 96, 96]


@pytest.mark.parametrize("over", [{"num_experts": 0}, {"num_experts": None}])
def test_a_model_without_experts_is_dense(over):
    spec = model_from_config({**tiny_settings("qwen3_moe"), **over}, "dense")
    assert all(layer.num_experts == 0 and layer.mlp_width == 56 for layer in spec.layers)
    assert not any(t.role is Role.EXPERT for layer in spec.layers for t in layer.tensors)


def test_hunyuan_reads_one_number_per_layer():
    lists = {
        "num_experts": 5,
        "moe_topk": [1, 2, 3, 4],
        "moe_intermediate_size": [16, 24, 32, 40],
        "num_shared_expert": [1, 1, 2, 0],
    }
    spec = model_from_config({**tiny_settings("hunyuan_v1_moe"), **lists}, "hunyuan")
    # Chosen experts times their width, plus shared experts of the common width 56.
    expected = [1 * 16 + 56, 2 * 24 + 56, 3 * 32 + 112, 4 * 40]
    assert [layer.mlp_width for layer in spec.layer_sequence()] == expected


def test_mimo_reads_the_names_of_its_first_release():
    given = tiny_settings("mimo_v2_flash", **{**MIMO, "num_key_value_heads": 2})
    del given["sliding_window"]
    given |= {
        "hybrid_layer_pattern": [0, 1, 1, 0],
        "moe_layer_freq": [0, 1, 1, 1],
        "swa_num_attention_heads": 4,
        "swa_num_key_value_heads": 4,
        "swa_head_dim": 12,
        "swa_v_head_dim": 10,
        "add_swa_attention_sink_bias": True,
        "add_full_attention_sink_bias": False,
        "sliding_window_size": 6,
    }
    names = {
        "layer_types": ["full_attention", *["sliding_attention"] * 2, "full_attention"],
        "mlp_layer_types": ["dense", *["sparse"] * 3],
    }
    over = {**MIMO, "num_key_value_heads": 2, "sliding_window": 7, **names}
    assert list(model_from_config(given, "old").layer_sequence()) == list(
        our_model("mimo_v2_flash", **over).layer_sequence()
    )


def test_stated_draft_layers_that_are_not_modelled_leave_a_note():
    given = {**tiny_settings("exaone_moe", **NARROW), "num_nextn_predict_layers": 1}
    assert any("not counted" in note for note in model_from_config(given, "k-exaone").notes)


@pytest.mark.parametrize(
    ("model_type", "over", "message"),
    [
        ("mixtral", {**LOCAL, "num_experts_per_tok": 7}, "exceeds the 6 experts"),
        ("qwen3_moe", {**NARROW, "decoder_sparse_step": 0}, "decoder_sparse_step = 0"),
        ("glm4_moe", {**GLM, "n_routed_experts": "many"}, "must be a whole number"),
        ("glm4_moe", {**GLM, "num_nextn_predict_layers": 1000}, "allowed is 0 to 64"),
        ("exaone_moe", {**NARROW, "mlp_layer_types": ["sparse"]}, "1 entries for 4 layers"),
        ("exaone_moe", {**NARROW, "mlp_layer_types": ["thin"] * 4}, "names 'thin'"),
        ("llama4_text", {**LOCAL, "no_rope_layers": [1]}, "1 entries for 4 layers"),
        ("hunyuan_v1_moe", {**HUNYUAN, "moe_topk": [1, 1]}, "moe_topk has 2 entries"),
        ("hunyuan_v1_moe", {**HUNYUAN, "moe_topk": 9}, "exceeds the 5 experts"),
        ("mimo_v2_flash", {**MIMO, "hybrid_layer_pattern": [1]}, "1 entries for 4 layers"),
        ("dbrx", {**DBRX, "attn_config": {}}, "kv_n_heads is missing"),
        ("dbrx", {**DBRX, "attn_config": {"kv_n_heads": 3}}, "do not divide"),
    ],
)
def test_an_impossible_configuration_is_refused_in_one_line(model_type, over, message):
    given = {**tiny_settings(model_type), **over}
    with pytest.raises(ModelConfigError, match=message) as caught:
        model_from_config(given, "broken")
    assert "\n" not in str(caught.value)
