"""Expected tokens per step of a tree whose accepted branch is described by a rank table."""

from dataclasses import dataclass
from itertools import pairwise
from math import fsum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specmemo_sim.errors import InvalidTreeError
from specmemo_sim.tree.rank_table import checked_table
from specmemo_sim.tree.token_tree import TokenTree


@dataclass(frozen=True, slots=True)
class ExpectedAcceptance:
    """How many draft tokens of a tree are accepted per step; A is their number."""

    tokens_per_step: float
    """Mean tokens committed per step, bonus included: 1 + E[A], in [1, depth + 1]."""
    survival: tuple[float, ...]
    """[depth] probability that at least 1, 2, ... draft tokens are accepted."""
    distribution: tuple[float, ...]
    """[depth + 1] probability that exactly 0, 1, ... draft tokens are accepted."""
    variance: float
    """Variance of A, in tokens squared; the same for tokens per step, whose bonus is constant."""


def node_probabilities(tree: TokenTree, table: ArrayLike) -> NDArray[np.float64]:
    """[N] probability that each node and all its ancestors are accepted; 1 for the root.

    Args:
        tree: The tree that is verified.
        table: [heads, ranks] rank table (see `specmemo_sim.tree.rank_table`). With the marginal
            accuracies of decoding heads it is the independent-heads model.

    Raises:
        InputError: the table holds no probabilities.
        InvalidTreeError: the tree is deeper than the heads or wider than the ranks.
    """
    rows = checked_table(table).tolist()
    depths = tree.depths
    _check_covered(tree, max(depths), len(rows), len(rows[0]))
    probabilities = np.ones(tree.num_nodes)
    for node in range(1, tree.num_nodes):
        step = rows[depths[node] - 1][tree.ranks[node]]
        probabilities[node] = probabilities[tree.parents[node]] * step
    return probabilities


def expected_acceptance(tree: TokenTree, table: ArrayLike) -> ExpectedAcceptance:
    """Mean, survival, distribution and variance of the accepted draft tokens of one step.

    Args:
        tree: The tree that is verified.
        table: [heads, ranks] rank table.

    Raises:
        InputError: the table holds no probabilities.
        InvalidTreeError: the tree is deeper than the heads or wider than the ranks.

    Source: at most one node per depth is accepted, so P(A >= j) is the sum of the probabilities of
        the nodes at depth j, E[A] their sum over j, and E[A^2] the sum of (2j - 1) P(A >= j).
    """
    probabilities = node_probabilities(tree, table).tolist()
    levels: list[list[float]] = [[] for _ in tree.nodes_per_level]
    for probability, depth in zip(probabilities, tree.depths, strict=True):
        levels[depth].append(probability)
    survival = tuple(fsum(level) for level in levels[1:])
    mean = fsum(survival)
    # Differences below can miss zero by a rounding error; neither result may be negative.
    second_moment = fsum((2 * depth - 1) * s for depth, s in enumerate(survival, start=1))
    return ExpectedAcceptance(
        tokens_per_step=1 + mean,
        survival=survival,
        distribution=tuple(max(b - a, 0.0) for b, a in pairwise((1.0, *survival, 0.0))),
        variance=max(second_moment - mean**2, 0.0),
    )


def _check_covered(tree: TokenTree, depth: int, num_heads: int, num_ranks: int) -> None:
    """Refuse a tree that asks for a head or a rank that the table does not describe."""
    if depth > num_heads:
        raise InvalidTreeError(
            f"the tree is {depth} levels deep but the profile has {num_heads} heads; "
            "prune the tree or use a profile with more heads"
        )
    if tree.num_ranks > num_ranks:
        raise InvalidTreeError(
            f"the tree uses {tree.num_ranks} ranks per head but the profile gives {num_ranks}; "
            "prune the tree or extend the profile"
        )
