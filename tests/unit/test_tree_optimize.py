"""Best-first growth on tables small enough to check by hand, its errors and its speed."""

import numpy as np
import pytest

from specmemo_sim.errors import InputError, InvalidTreeError
from specmemo_sim.tree.optimize import best_first, best_first_sizes, largest_tree_size
from specmemo_sim.tree.token_tree import TokenTree

TABLE = [[0.5, 0.3], [0.4, 0.1]]


def test_nodes_join_in_order_of_probability():
    # [0] 0.5, [1] 0.3, [0,0] 0.5*0.4=0.2, [1,0] 0.3*0.4=0.12, [0,1] 0.05, [1,1] 0.03
    growth = best_first_sizes(TABLE, 7)
    assert [point.added_path for point in growth.points] == [
        (),
        (0,),
        (1,),
        (0, 0),
        (1, 0),
        (0, 1),
        (1, 1),
    ]
    assert [point.tokens_per_step for point in growth.points] == pytest.approx(
        [1, 1.5, 1.8, 2.0, 2.12, 2.17, 2.2]
    )
    assert [point.depth for point in growth.points] == [0, 1, 1, 2, 2, 2, 2]
    assert [point.num_leaves for point in growth.points] == [1, 1, 2, 2, 2, 3, 4]
    assert [point.num_nodes for point in growth.points] == list(range(1, 8))


def test_equal_probabilities_go_to_the_shallower_node_then_to_the_smaller_path():
    # All six nodes but the first two tie at 0.25: [0,0] and [1,0] are 0.5*0.5, [0,1] and [1,1] too.
    growth = best_first_sizes([[0.5, 0.5], [0.5, 0.5]], 7)
    assert [point.added_path for point in growth.points[1:]] == [
        (0,),
        (1,),
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
    ]
    assert best_first([[0.5, 0.25], [0.5, 0.5]], 3).paths() == ((0,), (1,))


def test_ranks_of_probability_zero_come_last_but_count_as_nodes():
    tree = best_first([[0.5, 0.0], [0.5, 0.0]], 4)
    assert tree.paths() == ((0,), (1,), (0, 0))


def test_one_node_is_plain_decoding():
    assert best_first(TABLE, 1) == TokenTree.from_paths([])


@pytest.mark.parametrize("num_nodes", [0, -1, 8, True, 3.0, 10**4000])
def test_a_size_that_heads_and_ranks_cannot_fill_is_refused(num_nodes):
    with pytest.raises(InvalidTreeError, match="2 heads of 2 ranks allow 1 to 7 nodes"):
        best_first(TABLE, num_nodes)


@pytest.mark.parametrize("num_nodes", [0, 5, True])
def test_a_size_that_was_not_grown_is_refused(num_nodes):
    with pytest.raises(InvalidTreeError, match="sizes are 1 to 4"):
        best_first_sizes(TABLE, 4).tree_of_size(num_nodes)


# Counted by hand: 1+2, 1+2+4, 1+1+1+1; 1+10+100+1000+10000 is above the limit.
@pytest.mark.parametrize(
    ("heads", "ranks", "size"), [(1, 2, 3), (2, 2, 7), (3, 1, 4), (4, 10, 4096), (0, 5, 1)]
)
def test_size_of_the_complete_tree(heads, ranks, size):
    assert largest_tree_size(heads, ranks) == size


def test_a_table_that_rises_with_rank_is_refused_for_best_first():
    with pytest.raises(InputError, match=r"head 2 has probability 0\.3 at rank 3 but 0\.1"):
        best_first([[0.5, 0.2, 0.1], [0.4, 0.1, 0.3]], 3)


def test_a_rise_in_the_last_bit_is_a_tie():
    growth = best_first_sizes([[0.1, np.nextafter(0.1, 1)]], 3)
    assert growth.at(3).tokens_per_step == pytest.approx(1.2)


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ([[0.5, float("nan")]], "head 1, rank 2 is nan"),
        ([[0.5], [1.5]], "head 2, rank 1 is 1.5"),
        ([[-0.1]], "head 1, rank 1 is -0.1"),
        ([[0.6, 0.5]], "head 1 sum to 1.1"),
        ([0.5, 0.4], r"shape \[heads, ranks\]"),
        ([[]], r"shape \[heads, ranks\]"),
        ([[0.5], [0.5, 0.4]], "equal length"),
        ([["half"]], "rows of numbers"),
    ],
)
def test_a_table_without_probabilities_is_refused(table, expected):
    with pytest.raises(InputError, match=expected):
        best_first(table, 2)
