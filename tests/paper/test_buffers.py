"""SpecMemo's buffer figures (arXiv:2506.01986, Eq. 3 and section 5)."""

import pytest

from specmemo_sim.memory.buffers import (
    TreeShape,
    by_node_logits_bytes,
    paper_buffer_bytes,
    reference_buffer_bytes,
)
from specmemo_sim.tree.tree_file import load_tree

DEFAULT = TreeShape(num_nodes=64, num_leaves=42, depth=4)
PRUNED = TreeShape(num_nodes=44, num_leaves=23, depth=3)


def test_eq_3_gives_the_papers_two_masks():
    """At w = 32000 in fp16: (64, 42, 4) is 57,856,000 B and (44, 23, 3) is 20,480,000 B."""
    assert paper_buffer_bytes(DEFAULT, 32000, 2, 1) == 57_856_000
    assert paper_buffer_bytes(PRUNED, 32000, 2, 1) == 20_480_000


def test_eq_3_reproduces_the_headline_cut():
    """The paper's 55 MB, 19.5 MB and 65 % are these bytes in units of 2^20, and their ratio."""
    full, pruned = (paper_buffer_bytes(shape, 32000, 2, 1) for shape in (DEFAULT, PRUNED))
    assert full / 2**20 == pytest.approx(55, rel=0.005)
    assert pruned / 2**20 == pytest.approx(19.5, rel=0.005)
    assert 1 - pruned / full == pytest.approx(0.646, abs=0.0005)
    assert 20 * full / 10**9 == pytest.approx(1.1, rel=0.06)  # 20 queries: 1.1 GB


def test_medusas_default_tree_has_the_papers_shape():
    tree = load_tree("mc_sim_7b_63")
    assert TreeShape(tree.num_nodes, tree.num_leaves, tree.depth) == DEFAULT


def test_the_full_tree_by_node_needs_less_than_the_papers_pruned_one():
    """Verification by node holds 64 rows of logits: a fifth of what Eq. 3 needs for 44 nodes."""
    by_node = by_node_logits_bytes(64, 4, 32000, 2, 1)
    assert by_node == 64 * 32000 * 2
    assert by_node < paper_buffer_bytes(PRUNED, 32000, 2, 1) / 4


def test_the_reference_code_holds_more_than_eq_3_counts():
    """64 + 4*64 rows of nodes, 42*5 gathered candidates, 4*42*5 gathered heads: 1,370 rows."""
    held = reference_buffer_bytes(DEFAULT, 4, 32000, 2, 1)
    assert held == 1370 * 32000 * 2
    assert held > paper_buffer_bytes(DEFAULT, 32000, 2, 1)
