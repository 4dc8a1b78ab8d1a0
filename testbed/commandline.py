"""Runs a command line of typer's and turns every outcome into an exit status."""

import sys
from collections.abc import Sequence

import typer
from typer.exceptions import TyperException

from testbed.errors import CliquenetError
from testbed.interrupts import termination_interrupts

INTERRUPTED = 130


def run_command_line(app: typer.Typer, argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status; one line on standard error per error.

    Parameters
    ----------
    app
        Its commands return a status, or nothing for 0.
    argv
        Without the program's name; by default what this process was given.
    """
    try:
        with termination_interrupts():
            status = app(args=None if argv is None else list(argv), standalone_mode=False)
    except TyperException as error:
        return _fail(error.format_message(), error.exit_code)
    except CliquenetError as error:
        return _fail(str(error), error.status)
    except (KeyboardInterrupt, typer.Abort):
        status = INTERRUPTED
    if status == INTERRUPTED:
        return _fail("interrupted", INTERRUPTED)
    return int(status or 0)


def _fail(message: str, status: int) -> int:
    one_line = " ".join(message.split())
    sys.stderr.write(f"error: {one_line}\n")
    return status
