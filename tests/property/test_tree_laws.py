"""Laws of trees and their masks, against brute force over paths."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from specmemo_sim.tree.masks import position_ids, retrieve_indices, tree_mask
from specmemo_sim.tree.token_tree import TokenTree


@st.composite
def token_trees(draw, max_nodes=24):
    """A tree grown node by node under any earlier node, so not in canonical order."""
    parents, ranks = [-1], [0]
    for node in range(1, draw(st.integers(1, max_nodes))):
        parent = draw(st.integers(0, node - 1))
        taken = sum(1 for other in parents if other == parent)
        parents.append(parent)
        # Odd or even ranks leave gaps between siblings.
        ranks.append(2 * taken + draw(st.integers(0, 1)))
    return TokenTree(tuple(parents), tuple(ranks))


def ancestors(tree, node):
    """Nodes from ``node`` up to the root."""
    chain = []
    while node != -1:
        chain.append(node)
        node = tree.parents[node]
    return chain


@given(token_trees())
def test_the_mask_is_true_exactly_where_one_path_is_a_prefix_of_the_other(tree):
    paths = [(), *tree.paths()]
    expected = [[row[: len(column)] == column for column in paths] for row in paths]
    assert tree_mask(tree).tolist() == expected


@given(token_trees())
def test_the_mask_is_reflexive_transitive_and_lower_triangular(tree):
    mask = tree_mask(tree)
    assert mask.diagonal().all()
    assert not np.triu(mask, 1).any()
    two_steps = (mask.astype(int) @ mask.astype(int)) > 0
    assert (two_steps == mask).all()


@given(token_trees())
def test_a_node_sees_one_token_per_level(tree):
    assert (tree_mask(tree).sum(axis=1) == position_ids(tree) + 1).all()


@given(token_trees())
def test_positions_are_numbers_of_ancestors(tree):
    assert position_ids(tree).tolist() == [
        len(ancestors(tree, node)) - 1 for node in range(tree.num_nodes)
    ]


@given(token_trees())
def test_retrieve_indices_are_the_ancestors_of_each_childless_node(tree):
    childless = [node for node in range(tree.num_nodes) if node not in tree.parents]
    indices = retrieve_indices(tree)
    assert indices.shape == (len(childless), tree.depth + 1)
    for row, leaf in zip(indices.tolist(), childless, strict=True):
        path = ancestors(tree, leaf)[::-1]
        assert row == path + [-1] * (tree.depth + 1 - len(path))


@given(token_trees())
def test_every_node_lies_on_some_candidate(tree):
    assert set(retrieve_indices(tree).ravel().tolist()) - {-1} == set(range(tree.num_nodes))


@given(token_trees(), st.randoms(use_true_random=False))
def test_paths_in_any_order_give_one_canonical_tree(tree, random):
    paths = list(tree.paths())
    canonical = TokenTree.from_paths(paths)
    random.shuffle(paths)
    assert TokenTree.from_paths(paths) == canonical
    assert TokenTree.from_paths(canonical.paths()) == canonical
    assert set(canonical.paths()) == set(tree.paths())
    assert list(canonical.paths()) == sorted(paths, key=lambda path: (len(path), path))


@given(token_trees())
def test_shape_numbers_agree_with_the_paths(tree):
    paths = [(), *tree.paths()]
    assert tree.num_nodes == sum(tree.nodes_per_level) == len(set(paths))
    assert tree.depth == max(len(path) for path in paths)
    assert list(tree.nodes_per_level) == [
        sum(len(path) == level for path in paths) for level in range(tree.depth + 1)
    ]
    prefixes = {path[:-1] for path in paths if path}
    assert tree.num_leaves == sum(path not in prefixes for path in paths)
    assert sum(len(nodes) for nodes in tree.children) == tree.num_nodes - 1
