"""``specmemo``: finds the verb, and turns errors into one line with an exit code."""

import contextlib
import importlib
import os
import sys
from collections.abc import Sequence

import click

from specmemo_sim import __version__
from specmemo_sim.errors import SpecMemoError

# verb: (module, short help). Modules are imported only for the verb that runs.
_VERBS = {
    "plan": ("specmemo_sim.cli.plan", "Find the fastest configuration that fits a device."),
    "show": ("specmemo_sim.cli.show", "Print a plan file."),
    "devices": ("specmemo_sim.cli.devices", "List the device catalogue, or print one device."),
    "models": ("specmemo_sim.cli.models", "List the bundled models, or print one model's facts."),
}
_MAX_MESSAGE = 600


class LazyGroup(click.Group):
    """A group that knows its verbs by name and imports one only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Verbs in the order people meet them."""
        return list(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb's command, imported now."""
        if cmd_name not in _VERBS:
            return None
        command: click.Command = importlib.import_module(_VERBS[cmd_name][0]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The verbs' short help, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(verb, text) for verb, (_, text) in _VERBS.items()])


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: specmemo plan lmsys/vicuna-7b-v1.3 --device nvidia-titan-rtx --turns 20",
)
@click.version_option(__version__, prog_name="specmemo")
@click.pass_context
def cli(context: click.Context) -> None:
    """Which model, with which speculative decoding, fits this device, and how fast will it be?"""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def run(arguments: Sequence[str] | None = None) -> int:
    """The exit code of a command line: 0 fine, 1 bad input, 2 usage, 3 does not fit."""
    try:
        code = _invoke(arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
    except (click.exceptions.Abort, KeyboardInterrupt):
        return _fail("interrupted", 130)
    except click.UsageError as fault:
        where = fault.ctx.command_path if fault.ctx else "specmemo"
        return _fail(f"{fault.format_message()} See '{where} --help'.", 2)
    except click.ClickException as fault:
        return _fail(fault.format_message(), fault.exit_code)
    except SpecMemoError as fault:
        return _fail(str(fault), fault.exit_code)
    except (BrokenPipeError, SystemExit):
        # The reader went away (a pager, head): what is left has nobody to go to. click turns the
        # broken pipe into an exit of its own.
        _discard_stdout()
        return 0
    except OSError as fault:
        _discard_stdout()
        return _fail(f"the output cannot be written: {fault.strerror or fault}", 1)
    return code


def _invoke(arguments: Sequence[str] | None) -> int:
    with contextlib.suppress(AttributeError, ValueError):
        # A terminal that knows only ASCII shows a question mark instead of failing.
        sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    if sys.stdout is None:
        raise OSError("standard output is closed")
    result = cli.main(
        args=list(arguments) if arguments is not None else None,
        prog_name="specmemo",
        standalone_mode=False,
    )
    return result if isinstance(result, int) else 0


def _discard_stdout() -> None:
    """Send what is still buffered nowhere, so that the interpreter's exit has nothing to write."""
    with contextlib.suppress(AttributeError, OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main() -> None:
    """Entry point of the ``specmemo`` command."""
    sys.exit(run())


def _fail(message: str, code: int) -> int:
    line = "".join(c if c.isprintable() else " " for c in message)
    line = " ".join(line.split())
    if len(line) > _MAX_MESSAGE:
        line = line[: _MAX_MESSAGE - 4] + " ..."
    with contextlib.suppress(OSError, AttributeError):
        click.echo(f"error: {line}", err=True)
    return code


if __name__ == "__main__":
    main()
