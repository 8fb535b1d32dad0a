"""The console blocks of the README: read, run, and rewritten from real output.

Run ``python tests/cli/readme_blocks.py`` to refresh README.md.
"""

import contextlib
import io
import os
import re
import shlex
from pathlib import Path

from specmemo_sim.cli.main import run

README = Path(__file__).parents[2] / "README.md"
_BLOCK = re.compile(
    r"<!-- console -->\n```console\n\$ (?P<command>[^\n]+)\n(?P<output>.*?)```", re.S
)


def blocks(text: str) -> list[tuple[str, str]]:
    """(command, output) of every console block."""
    return [(match["command"], match["output"]) for match in _BLOCK.finditer(text)]


def output_of(command: str) -> str:
    """What a ``specmemo ...`` command prints to stdout, trailing blanks removed."""
    program, *arguments = shlex.split(command)
    assert program == "specmemo", command
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="utf-8", write_through=True)
    columns = os.environ.pop("COLUMNS", None)
    with contextlib.redirect_stdout(stream):
        run(arguments)
    if columns is not None:
        os.environ["COLUMNS"] = columns
    return raw.getvalue().decode("utf-8")


def refreshed(text: str) -> str:
    """The text with every block's output replaced by what its command prints now."""

    def replace(match: re.Match[str]) -> str:
        command = match["command"]
        return f"<!-- console -->\n```console\n$ {command}\n{output_of(command)}```"

    return _BLOCK.sub(replace, text)


if __name__ == "__main__":
    README.write_text(refreshed(README.read_text(encoding="utf-8")), encoding="utf-8")
