"""Options of the commands that run on a bare interpreter, where typer is not there yet."""

import argparse
from typing import NoReturn

from testbed.errors import InputError


class Arguments(argparse.ArgumentParser):
    """Reports bad options like every other bad input: one line, status 2."""

    def error(self, message: str) -> NoReturn:
        """Raise `InputError`."""
        raise InputError(f"{message} (see --help)")
