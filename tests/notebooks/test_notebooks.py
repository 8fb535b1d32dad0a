"""Every notebook runs headless; its own assertions check its headline numbers."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.py"))


def test_there_are_notebooks():
    assert NOTEBOOKS


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_runs_headless(notebook, tmp_path):
    pytest.importorskip("marimo", reason="notebooks need marimo; install .[test]")
    done = subprocess.run(
        [sys.executable, notebook], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr[-2000:]
