"""The README tells the truth: its commands run and print what it shows."""

import re

import pytest

from readme_blocks import README, blocks, output_of

TEXT = README.read_text(encoding="utf-8")


def test_the_readme_shows_console_sessions():
    assert len(blocks(TEXT)) >= 3


@pytest.mark.parametrize(("command", "shown"), blocks(TEXT), ids=[c for c, _ in blocks(TEXT)])
def test_a_console_block_shows_what_the_command_prints(command, shown):
    """``python tests/cli/readme_blocks.py`` refreshes the blocks."""
    assert output_of(command) == shown


def test_both_set_up_commands_stand_in_the_readme():
    assert re.search(r"^pip install -e \. && specmemo plan lmsys/vicuna-7b-v1\.3 ", TEXT, re.M)
    assert re.search(r"^pip install -e '\.\[test\]' && pytest$", TEXT, re.M)


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", TEXT, re.S))
def test_a_python_block_runs(code):
    """Its own assertions check what it says."""
    assert "assert" in code
    exec(compile(code, "README.md", "exec"), {})
