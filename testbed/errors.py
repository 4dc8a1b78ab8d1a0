"""The errors that end a command, each with its exit status.

The command line prints the message in one line and exits with ``status``.
"""

import difflib
from collections.abc import Iterable


class CliquenetError(Exception):
    """An error that the user is told in one line."""

    status = 1


class InputError(CliquenetError):
    """Bad input: a config, topology, schedule, unit or option."""

    status = 2


class UntrustedRunError(CliquenetError):
    """A run that finished, but whose numbers should not be believed."""

    status = 3


class InfeasibleError(CliquenetError):
    """A schedule that the planner refuses, with its binding constraint."""

    status = 4


class MachineError(CliquenetError):
    """This machine lacks something that the command needs."""

    status = 5


class CommandError(CliquenetError):
    """A command that failed: argv, exit status and what it printed."""

    def __init__(self, argv: Iterable[str], returncode: int, output: str) -> None:
        self.argv = tuple(argv)
        self.returncode = returncode
        self.output = output.strip()
        lines = self.output.splitlines()
        detail = lines[-1] if lines else "no output"
        super().__init__(f"`{' '.join(self.argv)}` failed with status {returncode}: {detail}")


def suggestion(name: str, valid: Iterable[str]) -> str:
    """The tail of an "unknown name" message: the nearest valid name, or all of them.

    Parameters
    ----------
    name
        What the user wrote.
    valid
        The names that would have been accepted.

    Returns
    -------
    str
        ``did you mean "x"?`` if one is near, else ``valid: a, b, c``.
    """
    names = sorted(valid)
    near = difflib.get_close_matches(name.lower(), [n.lower() for n in names], n=1)
    for candidate in names:
        if near and candidate.lower() == near[0]:
            return f'did you mean "{candidate}"?'
    return f"valid: {', '.join(names)}"
