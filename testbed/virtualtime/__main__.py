"""Command line: ``python -m testbed.virtualtime [options] -- COMMAND [ARG…]``."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from testbed.arguments import Arguments
from testbed.errors import CliquenetError, InputError
from testbed.interrupts import termination_interrupts
from testbed.virtualtime.kernel import ensure_kernel
from testbed.virtualtime.machine import run_in_virtual_time


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options, checked.

    Raises
    ------
    InputError
        An option is unknown or bad, or no command is given.
    """
    parser = Arguments(
        prog="python -m testbed.virtualtime",
        usage="%(prog)s [options] -- COMMAND [ARG…]",
        description="Run a command in a virtual machine whose clock skips idle time. It sees "
        "this machine's files; what it writes is lost, except below --writable folders.",
        allow_abbrev=False,
    )
    parser.add_argument("--seed", type=int, default=1, help="seeds all randomness (default 1)")
    parser.add_argument("--memory", type=int, default=2048, metavar="MB", help="default 2048")
    parser.add_argument(
        "--wall-limit", type=float, default=600.0, metavar="SECONDS", help="default 600"
    )
    parser.add_argument(
        "--writable", type=Path, action="append", default=[], metavar="FOLDER", help="repeatable"
    )
    parser.add_argument(
        "--env",
        type=_variable,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="repeatable",
    )
    parser.add_argument("--kernel", type=Path, help="default: built on first use and cached")
    parser.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.command[:1] == ["--"]:
        del options.command[0]
    if not options.command:
        raise InputError("no command given; write it after `--`")
    if options.memory < 64 or options.wall_limit <= 0:
        raise InputError("--memory must be at least 64 and --wall-limit more than 0")
    return options


def main(arguments: Sequence[str]) -> int:
    """Run the command line; returns the command's exit status, or that of our error."""
    try:
        options = parse(arguments)
        with termination_interrupts():
            return run_in_virtual_time(
                options.command,
                kernel=options.kernel or ensure_kernel(),
                on_output=_pass_on,
                seed=options.seed,
                memory_mb=options.memory,
                writable=options.writable,
                env=dict(options.env),
                wall_limit_s=options.wall_limit,
            ).status
    except CliquenetError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.status
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def _variable(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not name or not separator:
        raise argparse.ArgumentTypeError(f"`{text}` is not NAME=VALUE")
    return name, value


def _pass_on(stream: str, data: bytes) -> None:
    target = sys.stdout.buffer if stream == "stdout" else sys.stderr.buffer
    target.write(data)
    target.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
