"""A runner that calls the command line in process."""

import pytest

from specmemo_sim.cli.main import run


@pytest.fixture
def specmemo(capsys, monkeypatch):
    """Call ``specmemo`` with arguments; returns (exit code, stdout, stderr)."""

    # The caller's terminal must not decide where lines break.
    monkeypatch.delenv("COLUMNS", raising=False)

    def call(*arguments):
        code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call
