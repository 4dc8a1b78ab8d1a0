"""Our stream from the aggregator to its island beside uftp, over the same access link.

Run with ``python -m benchmarks.uftp``. Both send one stream of the paper's size,
scaled, over an emulated link of 1 Gbit/s that loses packets at random; both in
virtual time. It writes ``uftp.csv`` and ``uftp.md``, prints the table and, as its
last line, one JSON object.
"""

import csv
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from agents.records import Kind, read_events
from agents.wire import ELEMENT_BYTES, stream_layout
from benchmarks.guestprogram import run_guest_job
from benchmarks.uftpguest import Case, Job, Report
from benchmarks.uftpprogram import uftp_folder
from controller.plan import read_plan
from experiments.results import read_json
from experiments.run import run_experiment
from experiments.runtime import read_runtime
from experiments.sources import load_config
from testbed.commandline import run_command_line
from testbed.errors import InputError
from testbed.paths import give_to_caller, make_dir
from testbed.progress import Step

ROOT: Final = Path(__file__).parent.parent
TOPOLOGY: Final = Path(__file__).with_name("three-cities.yaml")
RESULTS: Final = ROOT / "results" / "uftp"
LOSSES_PERCENT: Final = (0.0, 0.1, 1.0)
_PAYLOAD_BYTES: Final = 1.79e9
_SCALE: Final = 100.0
_RATE_GBPS: Final = 100.0
_MTU_BYTES: Final = 9000
_GUEST_MB: Final = 2048
_RESEND: Final = "2s"
"""Kept by our aggregator: more than a stream's time, so that nothing is unavailable."""
_TUNED: Final = ("-r", "0.01:0.001:1")
"""Group round-trip time: first guess, least, most, in seconds; uftp's guess is 0.5."""

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


def peer_rows(repeats: int) -> list[dict[str, Any]]:
    """Measure uftp as it comes, and told that the receiver is near.

    Raises
    ------
    CliquenetError
        uftp failed, or cannot be had.
    """
    programs = uftp_folder()
    cases = [
        Case(name=name, loss_percent=loss, options=options)
        for name, options in (("uftp", ()), ("uftp, short round trip", _TUNED))
        for loss in LOSSES_PERCENT
    ]
    job = Job(
        programs=str(programs),
        size_bytes=round(_PAYLOAD_BYTES / _SCALE),
        rate_gbps=_RATE_GBPS,
        scale=_SCALE,
        mtu_bytes=_MTU_BYTES,
        repeats=repeats,
        cases=tuple(cases),
    )
    report = run_guest(job)
    return [
        row(
            case.name,
            case.loss_percent,
            [t.goodput_mbps for t in transfers],
            whole=all(t.intact for t in transfers),
        )
        for case, transfers in zip(job.cases, report.transfers, strict=True)
    ]


def run_guest(job: Job) -> Report:
    """Do a job in the virtual machine.

    Raises
    ------
    CliquenetError
        It failed; its last line.
    """
    return run_guest_job("benchmarks.uftpguest", job, Report, memory_mb=_GUEST_MB)


def own_rows(rounds: int) -> list[dict[str, Any]]:
    """Measure our stream, with recovery; one run per loss, all islands and rounds together."""
    rows = []
    for loss in LOSSES_PERCENT:
        config = load_config(
            None,
            {
                "topology": str(TOPOLOGY),
                "schedule": "all-to-all",
                "payload": _PAYLOAD_BYTES,
                "scale": _SCALE,
                "rounds": rounds,
                "loss_percent": loss,
                "resend_ms": _RESEND,
            },
        )
        with tempfile.TemporaryDirectory(prefix="cliquenet-") as name:
            run_dir = run_experiment(config, Path(name), force=False, progress=Step)
            goodputs, whole = stream_goodputs(run_dir)
        rows.append(row("aggregator → island", loss, goodputs, whole=whole))
    return rows


def stream_goodputs(run_dir: Path) -> tuple[list[float], bool]:
    """Goodput of every island's stream in every round, in Mbit/s; and whether all sums are exact.

    The elements of a stream over the time from the aggregator's first datagram to the
    island's last one.
    """
    plan, runtime = read_plan(run_dir / "plan.json"), read_runtime(run_dir / "runtime.json")
    goodputs, exact = [], True
    for code in plan.topology.codes:
        events = read_events(run_dir / "raw" / f"aggregator-{code}.bin")
        out = events[events["kind"] == Kind.AGGREGATE_OUT]
        island = read_json(run_dir / "raw" / f"island-{code}.json")
        for counted in island["rounds"]:
            first_ns = int(out["t_ns"][out["round"] == counted["round"]].min())
            blocks = counted["exact_blocks"]
            exact = exact and blocks == counted["expected_blocks"]
            layout = stream_layout(plan.payload_bytes / plan.scale, runtime.mtu_bytes)
            payload_bytes = ELEMENT_BYTES * layout.total_elements
            goodputs.append(payload_bytes * 8e3 / (counted["last_in_ns"] - first_ns))
    return goodputs, exact


def row(
    name: str, loss_percent: float, goodputs: Sequence[float], *, whole: bool
) -> dict[str, Any]:
    """One line of the table."""
    mean_mbps = statistics.fmean(goodputs)
    return {
        "who": name,
        "loss_percent": loss_percent,
        "goodput_mbps": round(mean_mbps, 1),
        "least_mbps": round(min(goodputs), 1),
        "link_share_percent": round(100 * mean_mbps * _SCALE / (_RATE_GBPS * 1e3), 1),
        "transfers": len(goodputs),
        "intact": whole,
    }


def markdown(rows: Sequence[dict[str, Any]]) -> str:
    """The table: a line for each sender, a column for each loss; goodput in Mbit/s."""
    names = list(dict.fromkeys(row["who"] for row in rows))
    found = {(row["who"], row["loss_percent"]): row for row in rows}
    heads = [f"{loss:g} % loss" for loss in LOSSES_PERCENT]
    lines = [f"| goodput, Mbit/s | {' | '.join(heads)} |", "| --- |" + " ---: |" * len(heads)]
    for name in names:
        cells = [_cell(found[name, loss]) for loss in LOSSES_PERCENT]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(found: dict[str, Any]) -> str:
    mark = "" if found["intact"] else " (incomplete)"
    return f"{found['goodput_mbps']:.0f}{mark}"


@app.command(help=__doc__)
def run(
    repeats: Annotated[int, typer.Option(min=1, help="Transfers, or rounds, of each row.")] = 5,
    peer: Annotated[bool, typer.Option(help="Measure uftp.")] = True,
    own: Annotated[bool, typer.Option(help="Measure our stream.")] = True,
    results: Annotated[Path, typer.Option(help="Folder.", show_default=False)] = RESULTS,
) -> int:
    """Measure, write and print the table."""
    if not (peer or own):
        raise InputError("nothing is left to measure: leave out --no-peer or --no-own")
    rows = [*(peer_rows(repeats) if peer else []), *(own_rows(repeats) if own else [])]
    folder = make_dir(results)
    with (folder / "uftp.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    (folder / "uftp.md").write_text(markdown(rows))
    give_to_caller(folder)
    print(markdown(rows))
    print(json.dumps({"rows": rows}))
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    return run_command_line(app, arguments)


if __name__ == "__main__":
    sys.exit(main())
