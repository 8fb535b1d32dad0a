"""What the verbs share for printing: JSON, a screen on stdout, bars, text that cannot do harm."""

import contextlib
import io
import json
import os
import sys
import unicodedata
from collections.abc import Iterator
from typing import Any

import click
from rich.console import Console
from rich.markup import escape

MAX_WIDTH = 100
NARROW = 92
"""Below this width tables leave out their least important columns."""
JSON_OPTION = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")


def print_json(data: Any) -> None:
    """Print a JSON document to stdout, numbers finite; ASCII where stdout knows nothing else."""
    text = json.dumps(data, indent=2, ensure_ascii=not _can_print("é×█"), allow_nan=False)
    click.echo(text)


@contextlib.contextmanager
def screen() -> Iterator[Console]:
    """A console whose text goes to stdout at the end, without blanks at line ends.

    Colours on a terminal only. At most 100 columns: the terminal's, else ``COLUMNS``, else 100.
    """
    terminal = sys.stdout.isatty()
    buffer = io.StringIO()
    columns = os.environ.get("COLUMNS", "")
    width = int(columns) if columns.isdecimal() and len(columns) < 6 else None
    if width is None:
        # A terminal that does not know its size says 0.
        width = (os.get_terminal_size(sys.stdout.fileno()).columns or 80) if terminal else MAX_WIDTH
    out = Console(
        file=buffer,
        force_terminal=terminal and "NO_COLOR" not in os.environ,
        highlight=False,
        width=max(40, min(width, MAX_WIDTH)),
    )
    yield out
    lines = [line.rstrip() for line in buffer.getvalue().splitlines()]
    click.echo("\n".join(lines), color=True)


def plain(text: object) -> str:
    """Text from outside as one harmless line: no control or direction characters, no markup."""
    return escape(printable(str(text)))


def printable(text: str) -> str:
    """The text with control, direction and surrogate characters replaced by ``?``."""
    return "".join(
        "?" if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") else character
        for character in text
    )


def bar(share: float, width: int) -> str:
    """A bar of ``share`` of ``width`` columns, at least a sliver for anything above zero."""
    if share <= 0:
        return ""
    filled = min(1.0, share) * width
    whole = int(filled)
    if not _can_print("█▏"):
        return "#" * max(1, whole)
    eighths = int((filled - whole) * 8)
    partial = " ▏▎▍▌▋▊▉"[eighths].strip()
    return ("█" * whole + partial) or "▏"


def times_sign() -> str:
    """The multiplication sign, or ``x`` where stdout cannot show it."""
    return "×" if _can_print("×") else "x"


def _can_print(characters: str) -> bool:
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    try:
        characters.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True
