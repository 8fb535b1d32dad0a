"""Medusa's published head accuracies predict its published trees' tokens per step.

Accuracies, trees and answer files: https://github.com/FasterDecoding/Medusa (arXiv:2401.10774).
The reference values below were computed from them independently of this package and are printed
to four digits (probabilities to six), which sets the tolerances.
"""

import pytest

from specmemo_sim.acceptance.expected import expected_acceptance
from specmemo_sim.acceptance.profile import load_profile
from specmemo_sim.tree.optimize import best_first_sizes
from specmemo_sim.tree.tree_file import load_tree

PRINTED = 0.5e-4 + 1e-6
"""Half of the last printed digit, and the rounding of the published accuracies."""

#            size, extrapolated?: tokens of mc_sim_7b_63, survival, best 64-node tree, its levels,
#            draft nodes that both trees share
TREES = [
    ("7b", False, 2.3400, (0.7799, 0.4249, 0.1271, 0.0080), 2.3845, (1, 5, 22, 29, 7), 38),
    ("7b", True, 2.4869, (0.8275, 0.4996, 0.1518, 0.0080), 2.4879, (1, 10, 27, 23, 3), 60),
    ("13b", False, 2.4321, (0.8161, 0.4592, 0.1468, 0.0101), 2.4812, (1, 5, 22, 28, 8), 38),
    ("13b", True, 2.5996, (0.8734, 0.5406, 0.1755, 0.0101), 2.6002, (1, 10, 27, 23, 3), 61),
    ("33b", False, 2.4703, (0.8223, 0.4768, 0.1592, 0.0120), 2.5224, (1, 5, 20, 29, 9), 38),
    ("33b", True, 2.6173, (0.8788, 0.5440, 0.1825, 0.0120), 2.6215, (1, 10, 26, 23, 4), 57),
]

DRAFT_SIZES = (1, 2, 4, 8, 16, 32, 43, 63, 96, 128, 192, 256)
SWEEP = {
    "7b": "1.5604 1.7377 1.9091 2.0698 2.2287 2.3735 2.4282 2.4879 2.5449 2.5780 2.6199 2.6465",
    "13b": "1.5939 1.7957 1.9666 2.1403 2.3114 2.4724 2.5336 2.6002 2.6626 2.6992 2.7464 2.7766",
    "33b": "1.6046 1.8197 1.9997 2.1726 2.3408 2.4971 2.5567 2.6215 2.6815 2.7169 2.7608 2.7886",
}

EXTENDED = {
    "7b": """
        0.560388 0.111332 0.055417 0.032803 0.020005 0.014875 0.011175 0.008723 0.007010 0.005765
        0.316352 0.107232 0.061506 0.043116 0.034294 0.026518 0.021860 0.018492 0.015955 0.013981
        0.201044 0.086854 0.059642 0.035910 0.033424 0.025696 0.021632 0.018635 0.016338 0.014524
        0.147366 0.077659 0.048708 0.037152 0.028827 0.023728 0.020118 0.017438 0.015372 0.013732
        0.117545 0.069085 0.047962 0.037525 0.027709 0.024155 0.020791 0.018259 0.016282 0.014696
    """,
    "13b": """
        0.593936 0.111332 0.052560 0.034667 0.023608 0.017255 0.013326 0.010653 0.008744 0.007328
        0.339712 0.100273 0.066849 0.039637 0.033797 0.026097 0.021539 0.018239 0.015751 0.013814
        0.216079 0.092445 0.052684 0.041750 0.033424 0.026586 0.022449 0.019390 0.017040 0.015180
        0.149975 0.081759 0.056039 0.035661 0.030691 0.024352 0.020501 0.017661 0.015484 0.013766
        0.122266 0.073434 0.047714 0.035661 0.027957 0.023151 0.019692 0.017116 0.015126 0.013542
    """,
    "33b": """
        0.604585 0.111605 0.048694 0.033410 0.023991 0.016978 0.013137 0.010520 0.008647 0.007257
        0.355785 0.113204 0.059712 0.040519 0.026835 0.020761 0.016360 0.013309 0.011094 0.009427
        0.224631 0.095077 0.058824 0.042474 0.025235 0.021640 0.017466 0.014507 0.012316 0.010637
        0.159588 0.089213 0.058468 0.040697 0.027546 0.023226 0.019123 0.016160 0.013929 0.012196
        0.137018 0.069664 0.055447 0.036254 0.027368 0.023879 0.020352 0.017721 0.015684 0.014061
    """,
}


def table_of(size, extrapolate=True):
    return load_profile(f"medusa-vicuna-{size}").rank_probabilities(10, extrapolate)


@pytest.mark.parametrize(("size", "extrapolate", "tokens", "survival"), [row[:4] for row in TREES])
def test_the_default_tree_yields_the_reference_tokens_per_step(size, extrapolate, tokens, survival):
    result = expected_acceptance(load_tree("mc_sim_7b_63"), table_of(size, extrapolate))
    assert result.tokens_per_step == pytest.approx(tokens, abs=PRINTED)
    assert result.survival == pytest.approx(survival, abs=PRINTED)


@pytest.mark.parametrize(
    ("size", "extrapolate", "best", "levels", "shared"), [row[:2] + row[4:] for row in TREES]
)
def test_the_best_tree_of_64_nodes_is_the_reference_one(size, extrapolate, best, levels, shared):
    growth = best_first_sizes(table_of(size, extrapolate)[:, : 10 if extrapolate else 5], 64)
    tree = growth.tree_of_size(64)
    assert growth.at(64).tokens_per_step == pytest.approx(best, abs=PRINTED)
    assert tree.nodes_per_level == levels
    assert len(set(tree.paths()) & set(load_tree("mc_sim_7b_63").paths())) == shared


@pytest.mark.parametrize("size", SWEEP)
def test_the_size_sweep_of_best_trees_is_the_reference_one(size):
    growth = best_first_sizes(table_of(size), 257)
    ours = [growth.at(drafts + 1).tokens_per_step for drafts in DRAFT_SIZES]
    assert ours == pytest.approx([float(text) for text in SWEEP[size].split()], abs=PRINTED)


def test_the_default_tree_has_64_nodes_and_42_leaves():
    tree = load_tree("mc_sim_7b_63")
    assert (tree.num_nodes, tree.num_leaves) == (64, 42)
    assert tree.nodes_per_level == (1, 10, 28, 23, 2)


@pytest.mark.parametrize("size", EXTENDED)
def test_extended_rank_probabilities_are_the_reference_ones(size):
    """Within 1.5 units of the sixth digit.

    The reference was printed from unrounded accuracies. Ours come from accuracies rounded to six
    digits, so a difference of two of them is off by up to one unit, and the print by half a unit.
    """
    reference = [float(text) for text in EXTENDED[size].split()]
    assert table_of(size).ravel().tolist() == pytest.approx(reference, abs=1.5e-6)


@pytest.mark.parametrize(
    ("size", "measured_all", "measured_t0", "error"),
    [
        ("7b", 2.5650, 2.7469, -0.0304),
        ("13b", 2.6387, 2.7911, -0.0148),
        ("33b", 2.5137, 2.8101, 0.0412),
    ],
)
def test_prediction_without_fitting_is_within_five_per_cent_of_mt_bench(
    size, measured_all, measured_t0, error
):
    profile = load_profile(f"medusa-vicuna-{size}")
    runs = {run.setting: run for run in profile.measured}
    assert runs["mt-bench-all"].tokens_per_step == pytest.approx(measured_all, abs=0.5e-4)
    assert runs["mt-bench-t0"].tokens_per_step == pytest.approx(measured_t0, abs=0.5e-4)
    tree = load_tree(runs["mt-bench-all"].tree)
    predicted = expected_acceptance(tree, profile.rank_probabilities(10)).tokens_per_step
    assert predicted / runs["mt-bench-all"].tokens_per_step - 1 == pytest.approx(error, abs=1e-4)
    # Independent heads miss that heads are right together, most of all without sampling noise.
    assert predicted < runs["mt-bench-t0"].tokens_per_step
