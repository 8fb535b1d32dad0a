"""A token tree accepts exactly the rooted trees with distinct sibling ranks."""

import pytest

from specmemo_sim.errors import InvalidTreeError
from specmemo_sim.tree.token_tree import MAX_NODES, TokenTree

#       0
#     /   \
#    1     2        ranks 0 and 2
#   / \
#  3   4            ranks 0 and 1
SMALL = TokenTree(parents=(-1, 0, 0, 1, 1), ranks=(0, 0, 2, 0, 1))


def test_shape_of_a_tree_drawn_by_hand():
    assert SMALL.num_nodes == 5
    assert SMALL.depths == (0, 1, 1, 2, 2)
    assert SMALL.depth == 2
    assert SMALL.leaves == (2, 3, 4)
    assert SMALL.num_leaves == 3
    assert SMALL.nodes_per_level == (1, 2, 2)
    assert SMALL.children == ((1, 2), (3, 4), (), (), ())
    assert SMALL.paths() == ((0,), (2,), (0, 0), (0, 1))
    assert SMALL.num_ranks == 3


def test_a_single_node_is_plain_decoding():
    tree = TokenTree.from_paths([])
    assert tree == TokenTree((-1,), (0,))
    assert (tree.num_nodes, tree.depth, tree.num_leaves, tree.num_ranks) == (1, 0, 1, 0)
    assert tree.paths() == ()
    assert tree.nodes_per_level == (1,)


def test_order_of_paths_is_by_depth_then_path_whatever_the_input_order():
    tree = TokenTree.from_paths([[0, 1], [2], [0, 0], (0,)])
    assert tree == SMALL


def test_a_parent_may_come_after_its_child_in_the_input():
    assert TokenTree.from_paths([[1, 0, 0], [1, 0], [1]]).paths() == ((1,), (1, 0), (1, 0, 0))


def test_trees_are_values():
    assert len({SMALL, TokenTree((-1, 0, 0, 1, 1), (0, 0, 2, 0, 1))}) == 1
    with pytest.raises(AttributeError):
        SMALL.parents = (-1,)


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        ([[0], [1], [0]], r"path \[0\] is given twice"),
        ([[0], [0, 1, 0]], r"path \[0, 1, 0\] needs its prefix \[0, 1\]"),
        ([[1, 0]], r"path \[1, 0\] needs its prefix \[1\]"),
        ([[0], [-1]], r"path \[-1\] has rank -1"),
        ([[True]], r"path \[True\] has rank True"),
        ([[0.0]], r"path \[0.0\] has rank 0.0"),
        ([["0"]], r"path \['0'\] has rank '0'"),
        ([[0], [[0]]], r"path \[list\] has rank"),
        ([[]], r"path \[\] is empty"),
        (["0"], r"path '0' must be a list"),
        ([[2**20]], r"path \[1048576\] has rank 1048576"),
        ([[10**5000]], r"has rank a number of 16610 bits"),
        ([[0] * MAX_NODES], r"path \[0, 0, 0, 0, 0, 0, 0, 0, \.\.\.\] has 4096 ranks"),
    ],
)
def test_a_bad_path_is_named_in_one_line(paths, expected):
    with pytest.raises(InvalidTreeError, match=expected) as caught:
        TokenTree.from_paths(paths)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


def test_paths_are_read_no_further_than_the_size_limit():
    read = []

    def endless():
        rank = 0
        while True:
            read.append(rank)
            yield [rank]
            rank += 1

    with pytest.raises(InvalidTreeError, match="more than 4096 nodes"):
        TokenTree.from_paths(endless())
    assert len(read) == MAX_NODES


def test_the_largest_size_is_allowed():
    assert TokenTree.from_paths([[rank] for rank in range(MAX_NODES - 1)]).num_nodes == MAX_NODES


@pytest.mark.parametrize(
    ("parents", "ranks", "expected"),
    [
        ((), (), "0 nodes"),
        ((-1,) + (0,) * MAX_NODES, tuple(range(MAX_NODES + 1)), "4097 nodes"),
        ((0,), (0,), "node 0 has parent 0"),
        ((-1,), (1,), "rank 1; it is the root"),
        ((-1, 1), (0, 0), "parent of node 1 is 1"),
        ((-1, 0, 3), (0, 0, 0), "parent of node 2 is 3"),
        ((-1, -1), (0, 0), "parent of node 1 is -1"),
        ((-1, 0), (0, -1), "rank of node 1 is -1"),
        ((-1, 0), (0, 2**20), "rank of node 1 is 1048576"),
        ((-1, 0, 0), (0, 1, 1), "node 0 has two children of rank 1"),
        ((-1, 0), (0,), "2 parents and 1 ranks"),
        ((-1, False), (0, 0), "parent of node 1 is False"),
        ((-1, 0), (0, 0.0), "rank of node 1 is 0.0"),
        ([-1, 0], [0, 0], "must be tuples"),
    ],
)
def test_bad_arrays_are_refused(parents, ranks, expected):
    with pytest.raises(InvalidTreeError, match=expected):
        TokenTree(parents, ranks)
