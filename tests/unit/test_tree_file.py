"""Bundled and own tree files load by name or path; damaged ones fail in one line."""

import pytest

from specmemo_sim.errors import CatalogError, InvalidTreeError
from specmemo_sim.tree.tree_file import list_trees, load_tree

GOOD = """
schema_version = 1
kind = "token_tree"
name = "mine"
status = "measured"
paths = [[0], [0, 0]]
[source]
title = "own run"
url = "none"
"""


def test_nine_medusa_trees_are_bundled_each_of_64_nodes_and_at_most_ten_ranks():
    assert len(list_trees()) == 9
    for name in list_trees():
        tree = load_tree(name)
        assert (tree.num_nodes, tree.num_ranks) == (64, 10)


# Levels and leaves as counted from the published choices.
@pytest.mark.parametrize(
    ("name", "levels", "leaves"),
    [
        ("mc_sim_7b_63", (1, 10, 28, 23, 2), 42),
        ("vicuna_7b_stage2", (1, 10, 23, 23, 7), 42),
        ("vicuna_7b_stage1_ablation", (1, 10, 21, 25, 7), None),
        ("vicuna_7b_stage1", (1, 10, 32, 20, 1), 44),
        ("vicuna_13b_stage2", (1, 10, 19, 25, 9), 42),
        ("vicuna_13b_stage1", (1, 10, 29, 23, 1), 44),
        ("vicuna_33b_stage2", (1, 10, 24, 24, 5), 43),
        ("vicuna_33b_stage1", (1, 10, 34, 19), 46),
        ("zephyr_stage2", (1, 10, 27, 23, 3), 44),
    ],
)
def test_shapes_of_the_medusa_trees(name, levels, leaves):
    tree = load_tree(name)
    assert tree.nodes_per_level == levels
    assert leaves is None or tree.num_leaves == leaves


def test_a_tree_of_a_file(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(GOOD)
    assert load_tree(file).paths() == ((0,), (0, 0))
    assert load_tree(str(file)) == load_tree(file)


def test_an_unknown_name_tells_the_nearest():
    with pytest.raises(CatalogError, match=r"no entry 'mc_sim_7b'.*nearest: mc_sim_7b_63"):
        load_tree("mc_sim_7b")


@pytest.mark.parametrize("name", ["", "../trees/mc_sim_7b_63", "/etc/passwd", "x" * 10**6])
def test_a_name_is_no_path(name):
    with pytest.raises(CatalogError) as caught:
        load_tree(name)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("path", ["missing.toml", "a\0b.toml", "x" * 5000 + ".toml"])
def test_an_unreadable_file_is_named(path):
    with pytest.raises(InvalidTreeError, match=r"\.toml' (does not exist|is not|cannot)"):
        load_tree(path)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("[0, 0]]", "[1, 0]]", r"tree mine: path \[1, 0\] needs its prefix \[1\]"),
        ("[0, 0]]", "[true]]", r"paths\.1\.0: .*integer.*True"),
        ("[0, 0]]", "[0.0]]", r"paths\.1\.0: .*integer"),
        ('kind = "token_tree"', 'kind = "forest"', "kind: input should be 'token_tree'"),
        ("schema_version = 1", "schema_version = 2", "schema_version"),
        ("[source]", 'color = "red"\n[source]', "color: extra inputs"),
        ("paths = [[0], [0, 0]]", "", "paths is missing"),
        ("[0, 0]]", "[0, 0]", "is not valid TOML"),
        ("[0, 0]]", "[" + "9" * 5000 + "]]", "out of range"),
        ("[0, 0]]", "[0x" + "f" * 5000 + "]]", "beyond 2"),
        ("paths = [[0], [0, 0]]", "paths = " + "[" * 9000 + "]" * 9000, "nested deeper"),
    ],
)
def test_a_damaged_file_fails_in_one_line(tmp_path, old, new, expected):
    assert old in GOOD
    file = tmp_path / "mine.toml"
    file.write_text(GOOD.replace(old, new))
    with pytest.raises(InvalidTreeError, match=expected) as caught:
        load_tree(file)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"#" * (2**20 + 1)])
def test_bytes_that_are_no_small_text_are_refused(tmp_path, content):
    file = tmp_path / "bad.toml"
    file.write_bytes(content)
    with pytest.raises(InvalidTreeError):
        load_tree(file)
