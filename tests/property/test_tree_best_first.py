"""Best-first growth is exact, nested and deterministic for every table that falls with rank."""

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specmemo_sim.acceptance.expected import expected_acceptance
from specmemo_sim.tree.optimize import best_first, best_first_sizes, largest_tree_size

NUM_HEADS, NUM_RANKS, MAX_SIZE = 3, 3, 7
PATHS = [
    path for depth in range(1, NUM_HEADS + 1) for path in product(range(NUM_RANKS), repeat=depth)
]


def all_trees():
    """[size] every prefix-closed set of paths with that many nodes, root included, as 0/1 rows."""
    sets = {frozenset()}
    by_size = {1: sets}
    for size in range(2, MAX_SIZE + 1):
        sets = {
            chosen | {path}
            for chosen in sets
            for path in PATHS
            if path not in chosen and (len(path) == 1 or path[:-1] in chosen)
        }
        by_size[size] = sets
    return {
        size: np.array([[path in chosen for path in PATHS] for chosen in sets], dtype=float)
        for size, sets in by_size.items()
    }


ALL_TREES = all_trees()


@st.composite
def monotone_tables(draw, num_heads=NUM_HEADS, num_ranks=NUM_RANKS):
    """[heads, ranks] probabilities that fall with rank; whole numbers of 1/60, so ties happen."""
    rows = []
    for _ in range(num_heads):
        row, left, above = [], 60, 60
        for _ in range(num_ranks):
            above = draw(st.integers(0, min(left, above)))
            left -= above
            row.append(above / 60)
        rows.append(row)
    return rows


def test_ternary_trees_are_all_enumerated():
    # Ternary trees of n nodes: C(3n, n) / (2n + 1). Up to 4 nodes the depth limit of 3 is no limit.
    assert [len(ALL_TREES[size]) for size in (1, 2, 3, 4)] == [1, 3, 12, 55]


@given(monotone_tables())
def test_no_prefix_closed_tree_of_up_to_seven_nodes_is_better(table):
    values = np.array(
        [np.prod([table[depth][rank] for depth, rank in enumerate(path)]) for path in PATHS]
    )
    growth = best_first_sizes(table, MAX_SIZE)
    for size, trees in ALL_TREES.items():
        best = 1 + (trees @ values).max()
        assert growth.at(size).tokens_per_step == pytest.approx(best, abs=1e-12)
        tree = growth.tree_of_size(size)
        assert tree.num_nodes == size
        assert expected_acceptance(tree, table).tokens_per_step == pytest.approx(best, abs=1e-12)


@given(monotone_tables(4, 3), st.integers(1, 60))
def test_what_the_growth_says_is_what_its_trees_are(table, max_nodes):
    growth = best_first_sizes(table, max_nodes)
    assert growth.max_nodes == len(growth.points) == max_nodes
    for point in growth.points:
        tree = growth.tree_of_size(point.num_nodes)
        assert tree.num_nodes == point.num_nodes
        assert tree.depth == point.depth
        assert tree.num_leaves == point.num_leaves
        assert expected_acceptance(tree, table).tokens_per_step == pytest.approx(
            point.tokens_per_step
        )


@given(monotone_tables(4, 3))
def test_each_best_tree_holds_the_one_before_and_gains_less_and_less(table):
    growth = best_first_sizes(table, 60)
    for before, after in pairwise(growth.points[1:]):
        assert 0 <= after.added_probability <= before.added_probability
    for before, after in pairwise(growth.points):
        assert after.tokens_per_step >= before.tokens_per_step
        smaller = set(growth.tree_of_size(before.num_nodes).paths())
        larger = set(growth.tree_of_size(after.num_nodes).paths())
        assert larger - smaller == {after.added_path}
        assert smaller < larger


@given(monotone_tables(), st.integers(1, 40))
def test_the_same_table_gives_the_same_tree_in_any_container(table, num_nodes):
    tree = best_first(table, num_nodes)
    assert best_first(np.array(table), num_nodes) == tree
    assert best_first(tuple(map(tuple, table)), num_nodes) == tree


@given(st.integers(1, 4), st.integers(1, 4))
def test_the_largest_size_is_the_complete_tree(num_heads, num_ranks):
    table = np.full((num_heads, num_ranks), 1 / num_ranks)
    size = largest_tree_size(num_heads, num_ranks)
    levels = best_first(table, size).nodes_per_level
    assert levels == tuple(num_ranks**level for level in range(num_heads + 1))
