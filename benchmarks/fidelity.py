"""Our links beside stock Mininet's, and links built wrong on purpose, each in the guest.

Run with ``python -m benchmarks.fidelity``. It measures single links of several rates and
delays, built by stock Mininet (``TCLink``: HTB and netem) and by us; then it spoils one
link after the other of a network and shows what the check says. It writes
``fidelity.csv`` and ``fidelity.md``, prints both tables and, as its last line, one JSON
object. Status 1 if a sabotage was not found.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from benchmarks.fidelityguest import Job, Report
from benchmarks.guestprogram import run_guest_job
from benchmarks.sabotage import Sabotaged
from benchmarks.tclink import EFFORT, Asked
from experiments.comparison.tablefiles import (
    Cells,
    markdown_lines,
    new_table,
    number,
    write_csv,
)
from testbed.commandline import run_command_line
from testbed.errors import CliquenetError
from testbed.linkfigures import LinkFigures
from testbed.paths import give_to_caller, make_dir

ROOT: Final = Path(__file__).parent.parent
RESULTS: Final = ROOT / "results" / "fidelity"
RATES_MBPS: Final = (10.0, 100.0, 1000.0, 10_000.0)
DELAYS_MS: Final = (1.0, 10.0, 50.0, 150.0)
_LEGEND: Final = f"""µs: one-way delay beyond that asked for; burst, rate: rate beyond that
asked for, in %, of {EFFORT.burst} packets at once and of {EFFORT.sustained} without a gap"""
_GUEST_MB: Final = 4096

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


def run_guest(job: Job) -> Report:
    """Do a job in the virtual machine.

    Raises
    ------
    CliquenetError
        It failed; its last line.
    """
    return run_guest_job("benchmarks.fidelityguest", job, Report, memory_mb=_GUEST_MB)


def row(who: str, asked: Asked, found: LinkFigures) -> dict[str, Any]:
    """One line of the table; errors are against what was asked for, signed."""
    return {
        "who": who,
        "rate_mbps": asked.rate_mbps,
        "delay_ms": asked.delay_ms,
        "delay_error_us": found.delay_error_us,
        "jitter_us": found.jitter_us,
        "burst_error_percent": found.rate_error_percent,
        "rate_error_percent": found.sustained_error_percent,
        "sent": found.sent,
        "lost": found.lost,
        "reordered": found.reordered,
    }


def cells(ours: dict[str, Any], stock: dict[str, Any]) -> Cells:
    """One link as people read it."""
    return {
        "Mbit/s": f"{ours['rate_mbps']:g}",
        "ms": f"{ours['delay_ms']:g}",
        "ours µs": number(ours["delay_error_us"], "+.3f"),
        "burst": number(ours["burst_error_percent"], "+.3f"),
        "rate": number(ours["rate_error_percent"], "+.3f"),
        "lost": str(ours["lost"]),
        "TCLink µs": number(stock["delay_error_us"], "+.3f"),
        "its burst": number(stock["burst_error_percent"], "+.3g"),
        "its rate": number(stock["rate_error_percent"], "+.3g"),
        "its lost": str(stock["lost"]),
    }


def unfound(sabotaged: Sequence[Sabotaged]) -> list[str]:
    """Sabotages of which no finding names the link, and sound networks that were accused."""
    wrong = []
    for one in sabotaged:
        here, _, there = one.link.partition("→")
        names = (f"link {one.link}", f"link {there}→{here}")
        if not one.what and one.findings:
            wrong.append(f"a sound network was accused: {one.findings[0]}")
        elif one.what and not one.findings:
            wrong.append(f"{one.what} of {one.link} was not found")
        elif one.what and not all(text.startswith(names) for text in one.findings):
            wrong.append(f"{one.what} of {one.link}: another link was accused")
    return wrong


@app.command(help=__doc__)
def run(
    links: Annotated[bool, typer.Option(help="Measure single links.")] = True,
    topology: Annotated[str, typer.Option(help="To sabotage; empty: none.")] = "nine-cities",
    results: Annotated[Path, typer.Option(help="Folder.", show_default=False)] = RESULTS,
) -> int:
    """Measure, write and print."""
    asked = [Asked(rate_mbps=r, delay_ms=d) for r in RATES_MBPS for d in DELAYS_MS if links]
    report = run_guest(Job(links=tuple(asked), topology=topology))
    ours = [row("ours", a, found) for a, found in zip(asked, report.ours, strict=True)]
    stock = [row("TCLink", a, found) for a, found in zip(asked, report.stock, strict=True)]
    console = Console(highlight=False)
    folder = make_dir(results)
    if ours:
        table = [cells(*pair) for pair in zip(ours, stock, strict=True)]
        write_csv(folder / "fidelity.csv", list(ours[0]), [*ours, *stock])
        (folder / "fidelity.md").write_text("\n".join(markdown_lines(table)) + "\n")
        shown = new_table("Errors of a link, ours and stock Mininet's", table[0], ())
        for line in table:
            shown.add_row(*line.values())
        console.print(shown)
        console.print(_LEGEND, style="dim")
    for one in report.sabotaged:
        console.print(f"{one.what or 'sound'} {one.link}", markup=False)
        for text in one.findings or ("nothing found",):
            console.print(f"  - {text}", markup=False, soft_wrap=True)
    give_to_caller(folder)
    wrong = unfound(report.sabotaged)
    sabotaged = [one.model_dump() for one in report.sabotaged]
    print(json.dumps({"rows": [*ours, *stock], "sabotaged": sabotaged, "unfound": wrong}))
    if wrong:
        raise CliquenetError(wrong[0])
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    return run_command_line(app, arguments)


if __name__ == "__main__":
    sys.exit(main())
