"""Regular trees have the node counts that their names promise."""

import pytest

from specmemo_sim.errors import InvalidTreeError
from specmemo_sim.tree.build import chain, k_ary
from specmemo_sim.tree.token_tree import TokenTree


def test_a_chain_has_one_leaf_and_one_node_per_level():
    tree = chain(3)
    assert tree.paths() == ((0,), (0, 0), (0, 0, 0))
    assert tree.nodes_per_level == (1, 1, 1, 1)
    assert tree.num_leaves == 1


def test_a_chain_of_nothing_is_plain_decoding():
    assert chain(0) == TokenTree.from_paths([])
    assert k_ary(0, 10) == TokenTree.from_paths([])


def test_the_longest_chain_has_4096_nodes():
    assert chain(4095).num_nodes == 4096


def test_a_complete_ten_ary_tree_of_three_levels_has_1111_nodes():
    # 1 + 10 + 100 + 1000
    tree = k_ary(3, 10)
    assert tree.num_nodes == 1111
    assert tree.nodes_per_level == (1, 10, 100, 1000)
    assert tree.num_leaves == 1000


@pytest.mark.parametrize(("depth", "arity"), [(3, 2), (2, 5), (6, 1)])
def test_complete_trees_are_in_canonical_order(depth, arity):
    tree = k_ary(depth, arity)
    assert TokenTree.from_paths(reversed(tree.paths())) == tree


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda: chain(-1), "num_draft_tokens is -1"),
        (lambda: chain(True), "num_draft_tokens is True"),
        (lambda: chain(4096), "too long; allowed are 0 to 4095"),
        (lambda: chain(10**5000), "a number of 16610 bits"),
        (lambda: k_ary(4, 10), "depth 4 and arity 10 has more than 4096 nodes"),
        (lambda: k_ary(10**5000, 1), "more than 4096 nodes"),
        (lambda: k_ary(2, 0), "arity is 0"),
        (lambda: k_ary(1.0, 2), "depth is 1.0"),
    ],
)
def test_sizes_out_of_range_are_refused(build, expected):
    with pytest.raises(InvalidTreeError, match=expected):
        build()
