"""What this machine can do, and the command that mends each lack.

``/usr/bin/python3 -m testbed.doctor [--format table|json]`` works with nothing set up. Exit
status 0 if experiments can run on some clock, 5 otherwise.
"""

import json
import platform
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass

from testbed import machinechecks
from testbed.arguments import Arguments
from testbed.errors import CliquenetError, MachineError
from testbed.machinechecks import BOTH, Check
from testbed.preflight import Clock, auto_clock

_MARKS = {True: "ok", False: "LACK", None: "note"}
CLOCKS: tuple[Clock, ...] = ("virtual", "real")


@dataclass(frozen=True)
class Diagnosis:
    """All checks of this machine."""

    checks: tuple[Check, ...]

    def lacks(self, clock: Clock) -> tuple[Check, ...]:
        """What stands against experiments on a clock."""
        return tuple(c for c in self.checks if c.ok is False and clock in c.clocks)

    @property
    def auto(self) -> tuple[Clock, str]:
        """What ``CLOCK=auto`` chooses here, and why; features decide, set-up can be done."""
        features = (c for c in self.lacks("real") if c.part == machinechecks.KERNEL)
        return auto_clock(tuple(check.name for check in features))

    @property
    def runs(self) -> bool:
        """Whether experiments can run here on some clock."""
        return any(not self.lacks(clock) for clock in CLOCKS)


def diagnose(
    parts: Iterable[Callable[[], list[Check]]] = machinechecks.PARTS,
) -> Diagnosis:
    """Check this machine; whatever fails on the way is a lack as well."""
    checks: list[Check] = []
    for part in parts:
        try:
            checks += part()
        except (CliquenetError, OSError) as error:
            name = part.__name__.replace("_", " ")
            checks.append(Check(machinechecks.SYSTEM, name, str(error), False, "", BOTH))
    return Diagnosis(tuple(checks))


def table(found: Diagnosis) -> str:
    """The diagnosis as text: one line per check, one below it for what mends it."""
    width = max(len(check.name) for check in found.checks) + 2
    lines = []
    part = ""
    for check in found.checks:
        if check.part != part:
            part = check.part
            lines.append(part)
        only = "" if check.ok is not False or check.clocks == BOTH else _only(check)
        lines.append(f"  {_MARKS[check.ok]:<6}{check.name:<{width}}{check.found}{only}")
        if check.mend and check.ok is not True:
            lines.append(f"        {'':<{width}}→ {check.mend}")
    lines.append("clocks")
    for clock in CLOCKS:
        lacks = ", ".join(check.name for check in found.lacks(clock))
        text = f"cannot run, lacks: {lacks}" if lacks else "can run"
        lines.append(f"  {_MARKS[not lacks]:<6}{clock:<{width}}{text}")
    if found.lacks("real"):
        lines.append(f"        {'':<{width}}→ make prove-real, which brings a kernel for it")
    clock, reason = found.auto
    lines.append(f"  {'':<6}{'auto':<{width}}{clock}, {reason}")
    if not found.runs:
        lines.append("no experiment can run here yet: do what stands after →, from the top")
    return "\n".join(lines)


def as_json(found: Diagnosis) -> str:
    """The diagnosis as one JSON object on one line."""
    clock, reason = found.auto
    return json.dumps(
        {
            "runs": found.runs,
            "auto": {"clock": clock, "reason": reason},
            "clocks": {
                clock: {
                    "runs": not found.lacks(clock),
                    "lacks": [check.name for check in found.lacks(clock)],
                }
                for clock in CLOCKS
            },
            "machine": platform.platform(),
            "checks": [asdict(check) for check in found.checks],
        }
    )


def main(arguments: Sequence[str]) -> int:
    """Run the command line; returns the exit status."""
    parser = Arguments(
        prog="python3 -m testbed.doctor", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--format", default="table", choices=("table", "json"))
    try:
        options = parser.parse_args(arguments)
        found = diagnose()
    except CliquenetError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.status
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    print(as_json(found) if options.format == "json" else table(found))
    return 0 if found.runs else MachineError.status


def _only(check: Check) -> str:
    return f" ({' and '.join(check.clocks)} clock only)"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
