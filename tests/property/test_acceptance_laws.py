"""Laws of expected acceptance: closed forms, monotony and agreement with sampling."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specmemo_sim.acceptance.expected import expected_acceptance, node_probabilities
from specmemo_sim.acceptance.profile import load_profile
from specmemo_sim.tree.build import chain, k_ary
from specmemo_sim.tree.token_tree import TokenTree
from specmemo_sim.tree.tree_file import load_tree

NUM_HEADS, NUM_RANKS = 4, 3


@st.composite
def tables(draw):
    """[heads, ranks] any probabilities whose rows sum to at most 1."""
    rows = []
    for _ in range(NUM_HEADS):
        shares = draw(st.lists(st.floats(0, 1), min_size=NUM_RANKS, max_size=NUM_RANKS))
        rows.append([share / max(sum(shares), 1) for share in shares])
    return rows


@st.composite
def trees(draw):
    """A tree within the heads and ranks of `tables`, and one of its possible further nodes."""
    paths = []
    for _ in range(draw(st.integers(1, 15))):
        free = [
            (*stem, rank)
            for stem in [(), *paths]
            if len(stem) < NUM_HEADS
            for rank in range(NUM_RANKS)
            if (*stem, rank) not in paths
        ]
        paths.append(draw(st.sampled_from(free)))
    return TokenTree.from_paths(paths[:-1]), paths[-1]


@given(st.floats(0, 0.99), st.integers(0, 30))
def test_a_chain_of_constant_rate_is_the_geometric_sum(rate, length):
    """Leviathan et al. 2023, arXiv:2211.17192, eq. 1."""
    tokens = expected_acceptance(chain(length), [[rate]] * max(length, 1)).tokens_per_step
    assert tokens == pytest.approx((1 - rate ** (length + 1)) / (1 - rate))


@given(st.integers(0, 3), st.integers(1, 5), st.floats(0, 0.99))
def test_a_complete_tree_is_a_chain_of_its_hit_rate(depth, arity, hit_rate):
    """Only the summed probability of a level's guesses matters, however it is split."""
    split = np.arange(1, arity + 1) / np.arange(1, arity + 1).sum() * hit_rate
    table = np.tile(split, (max(depth, 1), 1))
    tokens = expected_acceptance(k_ary(depth, arity), table).tokens_per_step
    assert tokens == pytest.approx((1 - hit_rate ** (depth + 1)) / (1 - hit_rate))


@given(trees(), tables())
def test_adding_a_node_never_lowers_the_expectation(grown, table):
    tree, path = grown
    larger = TokenTree.from_paths([*tree.paths(), path])
    before = expected_acceptance(tree, table).tokens_per_step
    assert expected_acceptance(larger, table).tokens_per_step >= before - 1e-12


@given(trees(), tables())
def test_results_are_a_distribution_with_the_stated_mean_and_variance(grown, table):
    tree, _ = grown
    result = expected_acceptance(tree, table)
    assert 1 <= result.tokens_per_step <= tree.depth + 1 + 1e-9
    assert len(result.survival) == tree.depth
    assert all(1 >= probability >= 0 for probability in result.distribution)
    assert sum(result.distribution) == pytest.approx(1)
    counts = np.arange(tree.depth + 1)
    mean = counts @ result.distribution
    assert result.tokens_per_step == pytest.approx(1 + mean)
    assert result.variance == pytest.approx(
        (counts - mean) ** 2 @ np.array(result.distribution), abs=1e-9
    )


@given(trees(), tables())
def test_node_order_does_not_matter(grown, table):
    """Listing children before their uncles gives the same expectation."""
    tree, _ = grown
    order = sorted(((), *tree.paths()))
    index = {path: node for node, path in enumerate(order)}
    shuffled = TokenTree(
        (-1, *(index[path[:-1]] for path in order[1:])), (0, *(path[-1] for path in order[1:]))
    )
    assert expected_acceptance(shuffled, table).tokens_per_step == pytest.approx(
        expected_acceptance(tree, table).tokens_per_step
    )
    by_path = dict(zip(tree.paths(), node_probabilities(tree, table)[1:], strict=True))
    for path, probability in zip(order[1:], node_probabilities(shuffled, table)[1:], strict=True):
        assert probability == pytest.approx(by_path[path])


def sampled_acceptance(tree, table, num_steps, seed):
    """[num_steps] accepted draft tokens when each head's right rank is drawn independently."""
    random = np.random.default_rng(seed)
    num_heads, num_ranks = table.shape
    edges = np.cumsum(table, axis=1)
    # [steps, heads] rank of the right token; num_ranks where no guess is right.
    right = np.stack(
        [
            np.searchsorted(edges[head], random.random(num_steps), side="right")
            for head in range(num_heads)
        ],
        axis=1,
    )
    assert right.max() <= num_ranks
    accepted = np.zeros(num_steps, dtype=int)
    for path in tree.paths():
        hit = (right[:, : len(path)] == path).all(axis=1)
        accepted[hit] = np.maximum(accepted[hit], len(path))
    return accepted


@pytest.mark.parametrize("name", ["mc_sim_7b_63", "vicuna_33b_stage1", "vicuna_13b_stage2"])
def test_sampling_independent_heads_agrees(name):
    """The mean, each P(A = j) and the variance lie within 4.5 standard errors of 200,000 steps."""
    tree, num_steps = load_tree(name), 200_000
    table = load_profile("medusa-vicuna-7b").rank_probabilities(10)
    accepted = sampled_acceptance(tree, table, num_steps, seed=20_250_601)
    result = expected_acceptance(tree, table)
    error = accepted.std() / np.sqrt(num_steps)
    assert abs(accepted.mean() + 1 - result.tokens_per_step) < 4.5 * error
    for count, probability in enumerate(result.distribution):
        error = np.sqrt(probability * (1 - probability) / num_steps)
        assert abs((accepted == count).mean() - probability) < 4.5 * error
    spread = (accepted - accepted.mean()) ** 2
    assert abs(spread.mean() - result.variance) < 4.5 * spread.std() / np.sqrt(num_steps)
