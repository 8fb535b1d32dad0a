"""Expected acceptance of trees small enough for arithmetic by hand."""

import pytest

from specmemo_sim.acceptance.expected import expected_acceptance, node_probabilities
from specmemo_sim.errors import InputError, InvalidTreeError
from specmemo_sim.tree.build import chain, k_ary
from specmemo_sim.tree.token_tree import TokenTree

TABLE = [[0.5, 0.3], [0.4, 0.1]]


def test_node_probabilities_multiply_along_the_path():
    tree = TokenTree.from_paths([[0], [1], [0, 1], [1, 0]])
    # nodes: root, [0], [1], [0,1] = 0.5*0.1, [1,0] = 0.3*0.4
    assert node_probabilities(tree, TABLE).tolist() == pytest.approx([1, 0.5, 0.3, 0.05, 0.12])


def test_moments_of_a_tree_by_hand():
    tree = TokenTree.from_paths([[0], [1], [0, 1], [1, 0]])
    result = expected_acceptance(tree, TABLE)
    # S_1 = 0.8, S_2 = 0.17; P = 0.2, 0.63, 0.17; E[A] = 0.97; E[A^2] = 0.63 + 4*0.17 = 1.31
    assert result.survival == pytest.approx((0.8, 0.17))
    assert result.distribution == pytest.approx((0.2, 0.63, 0.17))
    assert result.tokens_per_step == pytest.approx(1.97)
    assert result.variance == pytest.approx(1.31 - 0.97**2)


def test_plain_decoding_yields_exactly_one_token():
    result = expected_acceptance(TokenTree.from_paths([]), TABLE)
    assert (result.tokens_per_step, result.variance) == (1, 0)
    assert (result.survival, result.distribution) == ((), (1,))


def test_a_perfect_drafter_accepts_the_whole_chain():
    result = expected_acceptance(chain(3), [[1.0]] * 3)
    assert (result.tokens_per_step, result.variance) == (4, 0)
    assert result.distribution == (0, 0, 0, 1)


def test_a_hopeless_drafter_accepts_nothing():
    result = expected_acceptance(chain(3), [[0.0]] * 3)
    assert result.tokens_per_step == 1
    assert result.distribution == (1, 0, 0, 0)


def test_a_tree_deeper_than_the_heads_names_both():
    with pytest.raises(InvalidTreeError, match="3 levels deep but the profile has 2 heads"):
        expected_acceptance(chain(3), TABLE)


def test_a_tree_wider_than_the_ranks_names_both():
    with pytest.raises(InvalidTreeError, match="uses 3 ranks per head but the profile gives 2"):
        expected_acceptance(k_ary(1, 3), TABLE)


def test_a_single_wide_rank_is_wide_even_with_few_children():
    with pytest.raises(InvalidTreeError, match="uses 8 ranks"):
        node_probabilities(TokenTree.from_paths([[7]]), TABLE)


def test_a_table_need_not_fall_with_rank_to_be_evaluated():
    assert expected_acceptance(k_ary(1, 2), [[0.1, 0.4]]).tokens_per_step == pytest.approx(1.5)


@pytest.mark.parametrize("entry", [float("nan"), -0.1, 1.1])
def test_a_table_without_probabilities_is_refused(entry):
    with pytest.raises(InputError, match="head 1, rank 1"):
        expected_acceptance(chain(1), [[entry]])
