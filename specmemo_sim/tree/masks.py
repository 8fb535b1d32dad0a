"""Arrays that an attention kernel and a verifier need of a tree."""

import numpy as np
from numpy.typing import NDArray

from specmemo_sim.tree.token_tree import TokenTree

PADDING = -1
"""Entry of `retrieve_indices` past the end of a path; no node has this number."""


def tree_mask(tree: TokenTree) -> NDArray[np.bool_]:
    """[N, N] bool, lower triangular: row i is true on the ancestors of node i and on i."""
    mask = np.eye(tree.num_nodes, dtype=np.bool_)
    for node, parent in enumerate(tree.parents[1:], start=1):
        mask[node] |= mask[parent]
    return mask


def position_ids(tree: TokenTree) -> NDArray[np.int32]:
    """[N] int32 position of each node relative to the root's: its depth."""
    return np.asarray(tree.depths, dtype=np.int32)


def retrieve_indices(tree: TokenTree) -> NDArray[np.int32]:
    """[num_leaves, depth + 1] int32 nodes of each root-to-leaf path, padded with -1.

    Rows follow the leaves in node order; column 0 is the root.
    """
    leaves, depths = tree.leaves, tree.depths
    table = np.full((len(leaves), max(depths) + 1), PADDING, dtype=np.int32)
    for row, leaf in enumerate(leaves):
        node = leaf
        for column in range(depths[leaf], -1, -1):
            table[row, column] = node
            node = tree.parents[node]
    return table
