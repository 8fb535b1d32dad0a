"""Profiles turn measured top-k accuracies into rank probabilities, or say what is wrong."""

import math
import tomllib

import numpy as np
import pytest

from specmemo_sim.acceptance.profile import AcceptanceProfile, list_profiles, load_profile
from specmemo_sim.errors import CatalogError, InputError
from specmemo_sim.spec import validated

GOOD = """
schema_version = 1
kind = "independent_heads"
name = "mine"
target = "some/model"
cumulative_top_k = [[0.5, 0.6, 0.65, 0.68, 0.70], [0.3, 0.4, 0.45, 0.48, 0.50]]
extended_to = 8
source = "run"
status = "measured"

[[measured]]
setting = "mt-bench-all"
tree = "mc_sim_7b_63"
num_new_tokens = 30
num_steps = 12
source = "run"
status = "measured"

[sources.run]
title = "own run"
url = "none"
"""


def profile(rows, extended_to=None):
    """A profile with these accuracies; not extended unless told."""
    data = tomllib.loads(GOOD) | {
        "cumulative_top_k": rows,
        "extended_to": extended_to or len(rows[0]),
        "measured": [],
    }
    return validated(AcceptanceProfile, data, "profile", InputError)


def cumulative(row):
    return np.cumsum(row).tolist()


def test_measured_ranks_are_differences_of_top_k_accuracies():
    table = profile([[0.5, 0.6, 0.65], [0.25, 0.25, 0.5]]).rank_probabilities(3)
    assert table == pytest.approx(np.array([[0.5, 0.1, 0.05], [0.25, 0, 0.25]]))


def test_an_exact_power_law_is_continued_exactly():
    """A law that is a straight line in log-log has its own values as extension."""
    rows = [[0.3, *(0.2 / rank**1.5 for rank in range(2, 6))]]
    table = profile([cumulative(row) for row in rows], 12).rank_probabilities(12)
    assert table[0, 5:] == pytest.approx([0.2 / rank**1.5 for rank in range(6, 13)])


def test_the_first_rank_does_not_move_the_extension():
    low = profile([cumulative([0.1, 0.05, 0.04, 0.03, 0.02])], 10).rank_probabilities(10)
    high = profile([cumulative([0.6, 0.05, 0.04, 0.03, 0.02])], 10).rank_probabilities(10)
    assert low[0, 5:] == pytest.approx(high[0, 5:])


def test_the_extension_is_the_least_squares_line():
    """An independent solver gives the same ranks 6 to 10."""
    row = [0.5, 0.11, 0.05, 0.04, 0.02]
    slope, offset = np.polyfit(np.log([2, 3, 4, 5]), np.log(row[1:]), 1)
    expected = [math.exp(offset) * rank**slope for rank in range(6, 11)]
    assert profile([cumulative(row)], 10).rank_probabilities(10)[0, 5:] == pytest.approx(expected)


def test_without_extrapolation_unmeasured_ranks_contribute_nothing():
    table = load_profile("medusa-vicuna-7b").rank_probabilities(10, extrapolate=False)
    assert table.shape == (5, 10)
    assert (table[:, :5] > 0).all()
    assert (table[:, 5:] == 0).all()


def test_fewer_ranks_are_the_first_columns():
    heads = load_profile("medusa-vicuna-7b")
    assert (heads.rank_probabilities(3) == heads.rank_probabilities(10)[:, :3]).all()


@pytest.mark.parametrize("name", list_profiles())
def test_bundled_profiles_are_named_like_their_file_and_fall_with_rank(name):
    heads = load_profile(name)
    assert heads.name == name
    table = heads.rank_probabilities(heads.extended_to)
    assert (np.diff(table, axis=1) <= 0).all()
    assert (table.sum(axis=1) <= 1).all()


def test_the_three_medusa_profiles_are_bundled():
    assert {"medusa-vicuna-7b", "medusa-vicuna-13b", "medusa-vicuna-33b"} <= set(list_profiles())


def test_a_profile_of_a_file(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(GOOD)
    heads = load_profile(file)
    assert (heads.num_heads, heads.num_measured_ranks) == (2, 5)
    assert heads.measured[0].tokens_per_step == 2.5
    assert AcceptanceProfile.model_validate_json(heads.model_dump_json()) == heads


def test_an_unknown_name_tells_the_nearest():
    with pytest.raises(CatalogError, match=r"nearest: .*medusa-vicuna-7b"):
        load_profile("medusa-vicuna-8b")


@pytest.mark.parametrize("max_rank", [0, -1, 11, True, 2.0, 10**4000])
def test_ranks_beyond_the_extension_are_refused(max_rank):
    with pytest.raises(InputError, match="allowed are 1 to 10: use measured ranks only"):
        load_profile("medusa-vicuna-7b").rank_probabilities(max_rank)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("0.6, 0.65", "0.6, 0.55", "head 1 falls from 0.6 to 0.55 at rank 3"),
        ("0.68, 0.70]", "0.68, 1.70]", "cumulative_top_k.0.4.*less than or equal to 1"),
        ("[[0.5,", "[[-0.5,", "cumulative_top_k.0.0.*greater than or equal to 0"),
        ("[[0.5,", "[[nan,", "'nan', which is not a finite number"),
        ("[[0.5,", "[[inf,", "'inf', which is not a finite number"),
        ("[[0.5,", '[["0.5",', "cumulative_top_k.0.0.*valid number"),
        ("[[0.5,", "[[false,", "cumulative_top_k.0.0.*valid number"),
        ("[[0.5, ", "[[", "all heads .* same number of ranks"),
        ("extended_to = 8", "extended_to = 4", "extended_to is 4; it must be at least the 5"),
        ("extended_to = 8", "extended_to = 8.0", "extended_to"),
        ("extended_to = 8", "extended_to = 99999", "extended_to"),
        ("0.48, 0.50]]", "0.48, 0.48]]", "ranks 2 to 5, which head 2 lacks"),
        ('source = "run"', 'source = "rum"', "source 'rum' is not among sources"),
        ('kind = "independent_heads"', 'kind = "oracle"', "kind"),
        ('name = "mine"', 'name = "mine"\nnam = 1', "nam: extra inputs"),
        ("num_steps = 12", "num_steps = 0", "measured.0.num_steps"),
    ],
)
def test_a_damaged_profile_fails_in_one_line(tmp_path, old, new, expected):
    assert old in GOOD
    file = tmp_path / "mine.toml"
    file.write_text(GOOD.replace(old, new))
    with pytest.raises(InputError, match=expected) as caught:
        load_profile(file)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_an_accuracy_that_is_no_number_is_refused_from_code_too(number):
    with pytest.raises(InputError, match=r"cumulative_top_k\.0\.1: .*finite number"):
        profile([[0.5, number]])


def test_an_extension_past_certainty_is_refused():
    # Ranks 2 to 5 are all 0.1: the line is flat, and 0.5 + 9 * 0.1 is above 1.
    with pytest.raises(InputError, match=r"head 1 sum to 1\.4000 when extended to 10 ranks"):
        profile([cumulative([0.5, 0.1, 0.1, 0.1, 0.1])], 10)


def test_fewer_than_five_ranks_cannot_be_extended():
    with pytest.raises(InputError, match="set it to 3"):
        profile([[0.5, 0.6, 0.65]], 10)
