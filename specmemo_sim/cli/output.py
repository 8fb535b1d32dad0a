"""What the verbs share for printing: JSON, a console for stdout, bars."""

import json
import sys
from typing import Any

import click
from rich.console import Console

JSON_OPTION = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")


def print_json(data: Any) -> None:
    """Print a JSON document to stdout, strings unescaped, numbers finite."""
    click.echo(json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False))


def console() -> Console:
    """A console on stdout: colours on a terminal only, at most 100 columns wide."""
    width = None if sys.stdout.isatty() else 100
    made = Console(highlight=False, width=width, soft_wrap=False)
    return made if made.width <= 100 else Console(highlight=False, width=100)


def bar(share: float, width: int) -> str:
    """A bar of ``share`` of ``width`` columns, at least a sliver for anything above zero."""
    if share <= 0:
        return ""
    filled = min(1.0, share) * width
    whole = int(filled)
    eighths = int((filled - whole) * 8)
    partial = " ▏▎▍▌▋▊▉"[eighths].strip()
    return ("█" * whole + partial) or "▏"
