"""The command that verifies a network: does it, and prints what was found."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from experiments.comparison.tablefiles import Cells, new_table, number
from experiments.config import ExperimentConfig
from experiments.runfigures import print_verdict
from experiments.terminal import print_object
from experiments.verification import Verification, verify_network
from testbed.errors import UntrustedRunError
from testbed.health import Health
from testbed.linkfigures import LinkFigures
from testbed.progress import Step

_TEXT_COLUMNS = ("link",)
_LEGEND = (
    "mean, p99, jitter: µs of delay beyond that asked for; burst, long: % of rate\n"
    "beyond that asked for, at once and sustained; late: came after a later packet"
)


def verify_and_show(config: ExperimentConfig, results_dir: Path, *, as_json: bool) -> int:
    """Verify a network, write the files, and print a table or one JSON object.

    Raises
    ------
    UntrustedRunError
        The verdict is FAIL; after everything has been written and printed.
    """
    made = verify_network(config, results_dir, progress=Step)
    summary = made.as_dict()
    if as_json:
        print_object({**summary, "folder": str(made.folder)})
    else:
        print_verification(made)
    if summary["verdict"] == "FAIL":
        raise UntrustedRunError(f"{made.folder.name} failed: {summary['reasons'][0]}")
    return 0


def print_verification(made: Verification, console: Console | None = None) -> None:
    """Print one row per direction, then paths, machine and verdict."""
    console = console or Console(highlight=False)
    fidelity = made.trust.fidelity
    rows = [link_cells(link) for link in fidelity.links]
    table = new_table(f"{made.folder.name}: every direction of every link", rows[0], _TEXT_COLUMNS)
    for row in rows:
        table.add_row(*row.values())
    console.print(table)
    console.print(_LEGEND, style="dim")
    console.print(f"packets  {_packets(fidelity.links)}", soft_wrap=True)
    summary = made.as_dict()
    rtt = number(summary["rtt_max_error_us"], ".3f")
    console.print(f"paths    {len(fidelity.paths)}, RTT off by {rtt} µs at most")
    console.print(f"timers   {fidelity.timer_late_us:.3f} µs late (p99)")
    if made.trust.health is not None:
        console.print(f"machine  {_health(made.trust.health)}")
    print_verdict(summary, console)
    console.print(f"files    {made.folder}", markup=False, soft_wrap=True)


def link_cells(link: LinkFigures) -> Cells:
    """One direction as people read it."""
    return {
        "link": link.link,
        "ms": f"{link.delay_asked_us / 1e3:.3f}",
        "mean": number(link.delay_error_us, "+.3f"),
        "p99": number(link.p99_error_us, "+.3f"),
        "jitter": number(link.jitter_us, ".3f"),
        "Mbit/s": f"{link.rate_asked_mbps:.6g}",
        "burst": number(link.rate_error_percent, "+.4f"),
        "long": number(link.sustained_error_percent, "+.4f"),
        "MTU": str(link.mtu_bytes),
        "lost": str(link.lost),
        "late": str(link.reordered),
    }


def _packets(links: Sequence[LinkFigures]) -> str:
    """Where the probes of all directions went."""
    sent, came = sum(link.sent for link in links), sum(link.received for link in links)
    places = (
        ("dropped by shapers", sum(link.shaper_drops for link in links)),
        ("by interfaces", sum(link.interface_drops for link in links)),
        ("by full sockets", sum(link.socket_drops for link in links)),
        ("unaccounted", sum(link.unaccounted for link in links)),
    )
    return f"{sent} sent = {came} came + " + " + ".join(f"{n} {place}" for place, n in places)


def _health(health: Health) -> str:
    text = f"processors {health.cpu_percent:.0f} % busy, {health.steal_percent:.1f} % stolen"
    if health.pressure_percent is not None:
        text += f", waited for in {health.pressure_percent:.0f} % of the time"
    return text
