"""The program run inside the test: arguments in; exit status, stdout and stderr out."""

from __future__ import annotations

from typer.testing import CliRunner, Result

from dflash_doctor.cli import app

RUNNER = CliRunner()


def run(*argv: object, **more) -> Result:
    """One call; a bug keeps its traceback."""
    return RUNNER.invoke(app, [str(a) for a in argv], catch_exceptions=False, **more)


def refused(*argv: object, **more) -> str:
    """The one sentence on stderr of a call that must end with 2 and print nothing else."""
    done = run(*argv, **more)
    assert (done.exit_code, done.stdout) == (2, ""), done.output
    lines = done.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("dflash-doctor: "), done.stderr
    assert lines[0].isprintable(), "what a host or a file wrote is made harmless"
    return lines[0].removeprefix("dflash-doctor: ")
