"""Skip lists against transformers' own reading of them."""

from hypothesis import example, given
from hypothesis import strategies as st
from transformers.quantizers.quantizers_utils import should_convert_module

from specmemo_sim.inputs.quantization_names import Names, alike_groups

MODULES = [
    "lm_head",
    "model.embed_tokens",
    *(
        f"model.layers.{number}.{part}"
        for number in (0, 1, 2, 10, 11, 21)
        for part in ("self_attn.q_proj", "mlp.gate", "mlp.gate_proj", "mlp.experts.1.up_proj")
    ),
]
PIECES = [
    "model",
    "layers",
    "layers.",
    "layer",
    "1",
    "11",
    ".",
    "*",
    ".*",
    "mlp",
    "gate",
    "gate_proj",
    "experts",
    r"\.",
    r"\d+",
    "[01]",
    "(1|2)",
    "self_attn",
    "q_proj",
    "$",
    "lm_head",
    "?",
]
PATTERNS = st.one_of(
    st.sampled_from(MODULES),
    st.sampled_from(MODULES).flatmap(
        lambda name: st.integers(0, len(name) - 1).map(lambda cut: name[cut:])
    ),
    st.sampled_from(MODULES).flatmap(
        lambda name: st.integers(1, len(name)).map(lambda cut: name[:cut])
    ),
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=5).map("".join),
)


def usable(patterns):
    try:
        return Names(patterns=tuple(patterns))
    except ValueError:
        return None


@given(st.lists(PATTERNS, min_size=1, max_size=4))
@example(["model.layers.1"])
@example(["gate"])
@example(["model.layers.*.mlp.gate"])
@example(["1.mlp.gate"])
def test_a_list_skips_what_transformers_does_not_convert(patterns):
    names = usable(patterns)
    if names is None:
        return
    for module in MODULES:
        assert names.matches(module) != should_convert_module(module, patterns), module


@given(st.lists(PATTERNS, min_size=1, max_size=3))
def test_indices_called_alike_are_treated_alike_by_transformers(patterns):
    """Grouping layers, and experts in a layer, must not change which of them are skipped."""
    names = usable(patterns)
    if names is None:
        return
    for component, path in (
        ("layers", "model.layers.{}.mlp.gate"),
        ("experts", "model.layers.1.mlp.experts.{}.up_proj"),
    ):
        skipped = sum(
            size
            for index, size in alike_groups([names], component, range(23))
            if names.matches(path.format(index))
        )
        assert skipped == sum(
            not should_convert_module(path.format(index), patterns) for index in range(23)
        )
