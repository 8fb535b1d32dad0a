"""Kernel arrays of a tree drawn by hand."""

import numpy as np

from specmemo_sim.tree.masks import position_ids, retrieve_indices, tree_mask
from specmemo_sim.tree.token_tree import TokenTree

TREE = TokenTree.from_paths([[0], [1], [0, 0], [0, 1], [0, 0, 0]])
# nodes:            root 0, 1=[0], 2=[1], 3=[0,0], 4=[0,1], 5=[0,0,0]


def test_mask_shows_each_node_its_ancestors_and_itself():
    expected = ["100000", "110000", "101000", "110100", "110010", "110101"]
    assert ["".join(str(int(x)) for x in row) for row in tree_mask(TREE)] == expected
    assert tree_mask(TREE).dtype == np.bool_


def test_positions_are_depths():
    ids = position_ids(TREE)
    assert ids.dtype == np.int32
    assert ids.tolist() == [0, 1, 1, 2, 2, 3]


def test_retrieve_indices_are_root_to_leaf_paths_padded_with_minus_one():
    indices = retrieve_indices(TREE)
    assert indices.dtype == np.int32
    assert indices.tolist() == [[0, 2, -1, -1], [0, 1, 4, -1], [0, 1, 3, 5]]


def test_a_single_node_sees_itself():
    tree = TokenTree.from_paths([])
    assert tree_mask(tree).tolist() == [[True]]
    assert position_ids(tree).tolist() == [0]
    assert retrieve_indices(tree).tolist() == [[0]]
