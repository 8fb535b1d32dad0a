"""Standard output that is full, closed, cut off or cannot show every character."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "specmemo_sim.cli.main"]
PLAN = ["plan", "lmsys/vicuna-7b-v1.3", "-d", "nvidia-titan-rtx"]
ROOT = Path(__file__).parents[2]


def call(arguments, **options):
    added = options.pop("env", {})
    environment = {**os.environ, "PYTHONUTF8": "1", "PYTHONPATH": str(ROOT), **added}
    return subprocess.run(
        [*COMMAND, *arguments], check=False, env=environment, **{"encoding": "utf-8", **options}
    )


@pytest.mark.parametrize("arguments", [PLAN, [*PLAN, "--json"], ["devices"], ["--help"]])
def test_a_full_disk_is_one_line(arguments):
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    with open("/dev/full", "w") as full:
        done = call(arguments, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 1
    assert done.stderr.startswith("error: the output cannot be written")
    assert done.stderr.count("\n") == 1


def test_a_reader_that_leaves_is_no_error():
    """``specmemo models | head -1``."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [*COMMAND, "models"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=environment, **pipes) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_characters_that_the_terminal_lacks_are_replaced(encoding):
    done = call(PLAN, capture_output=True, encoding=encoding, env={"PYTHONIOENCODING": encoding})
    assert done.returncode == 0
    assert done.stdout.startswith("FITS")
    assert "####" in done.stdout


@pytest.mark.parametrize("columns", [50, 60, 80, 92, 100])
@pytest.mark.parametrize("arguments", [PLAN, ["devices"], ["models"], ["models", "gpt2"]])
def test_no_screen_cuts_a_name_or_a_number(arguments, columns):
    """Whatever the width: no cell ends in an ellipsis, and no line is wider than the screen."""
    output = call(arguments, capture_output=True, env={"COLUMNS": str(columns)}).stdout
    assert "…" not in output
    assert max(len(line) for line in output.splitlines()) <= columns


def test_a_narrow_plan_names_its_rows():
    output = call(PLAN, capture_output=True, env={"COLUMNS": "60"}).stdout
    for words in ("12.55 GiB", "plain decoding", "Medusa default tree", "this plan", "55.18"):
        assert words in output


def test_no_line_ends_in_blanks():
    for arguments in (PLAN, ["devices"], ["models", "gpt2"]):
        output = call(arguments, capture_output=True).stdout
        assert all(line == line.rstrip() for line in output.splitlines())


def test_without_a_verb_the_help_is_shown():
    done = call([], capture_output=True)
    assert done.returncode == 0
    assert done.stdout.startswith("Usage: specmemo")
