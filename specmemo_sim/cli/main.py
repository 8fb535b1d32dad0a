"""``specmemo``: finds the verb, and turns errors into one line with an exit code."""

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
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: specmemo plan lmsys/vicuna-7b-v1.3 --device nvidia-titan-rtx --turns 20",
)
@click.version_option(__version__, prog_name="specmemo")
def cli() -> None:
    """Which model, with which speculative decoding, fits this device, and how fast will it be?"""


def run(arguments: Sequence[str] | None = None) -> int:
    """The exit code of a command line: 0 fine, 1 bad input, 2 usage, 3 does not fit."""
    try:
        result = cli.main(
            args=list(arguments) if arguments is not None else None,
            prog_name="specmemo",
            standalone_mode=False,
        )
    except click.exceptions.Abort:
        return _fail("interrupted", 130)
    except click.UsageError as fault:
        where = fault.ctx.command_path if fault.ctx else "specmemo"
        return _fail(f"{fault.format_message()} See '{where} --help'.", 2)
    except click.ClickException as fault:
        return _fail(fault.format_message(), fault.exit_code)
    except SpecMemoError as fault:
        return _fail(str(fault), fault.exit_code)
    except KeyboardInterrupt:
        return _fail("interrupted", 130)
    except BrokenPipeError:
        # The reader went away (a pager, head): what is left has nobody to go to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return result if isinstance(result, int) else 0


def main() -> None:
    """Entry point of the ``specmemo`` command."""
    sys.exit(run())


def _fail(message: str, code: int) -> int:
    line = " ".join(message.split())
    click.echo(f"error: {line}", err=True)
    return code


if __name__ == "__main__":
    main()
