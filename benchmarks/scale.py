"""How a run grows with the number of cities, and with the rate that is emulated.

Run with ``python -m benchmarks.scale``. Generated topologies of several sizes run two rounds of
cliques of three, near ones and then far ones; the nine cities run one round of triangles at rates
closer and closer to the true ones, up to 100 Gbit/s, which takes six minutes. Memory is the
greatest resident set of any process of the run, which is that of the virtual machine. The last
line is one JSON object.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from benchmarks.experimentcommand import experiment
from experiments.results import read_json
from testbed.commandline import run_command_line
from testbed.errors import InputError
from testbed.generate import make_topology
from testbed.topology import Topology

_ROOT = Path(__file__).parent.parent
_KB = 1024
_SEED = 1

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@dataclass(frozen=True)
class Row:
    """One run."""

    cities: int
    scale: float
    payload_bytes: float
    rounds: int
    verdict: str
    """Empty if the run failed."""
    reason: str
    """What was found against it, or why it failed."""
    t_planned_ms: float | None
    t_measured_ms: float | None
    packets_sent: int | None
    """From end to end."""
    network_up_s: float | None
    wall_per_round_s: float | None
    """From the network's being up to the end of the run, divided by the rounds."""
    wall_s: float
    peak_bytes: int


def topology_text(topology: Topology) -> str:
    """A topology as the file that a user would write."""
    values = topology.model_dump(
        mode="json", exclude_none=True, include={"name", "cities", "links"}
    )
    text: str = yaml.safe_dump(values, sort_keys=False)
    return text


def schedule_text(topology: Topology) -> str:
    """Two rounds of cliques of three: neighbours by index, then cities a third apart."""
    codes = topology.codes
    third = len(codes) // 3
    near = [list(codes[3 * i : 3 * i + 3]) for i in range(third)]
    far = [[codes[i], codes[i + third], codes[i + 2 * third]] for i in range(third)]
    text: str = yaml.safe_dump({"name": "near-and-far", "rounds": [near, far]})
    return text


def measure(cities: int, options: list[str], memory_mb: int) -> Row:
    """Run one experiment as a user would, and take its time and memory."""
    with tempfile.TemporaryDirectory(prefix="cliquenet-scale-") as name:
        began = time.monotonic()
        words = [*options, "--results", name]
        words += ["--set", f"guest_memory_mb={memory_mb}", "--set", "wall_limit_s=7200"]
        with experiment(_ROOT, words) as process:
            error = process.stderr.read().decode() if process.stderr else ""
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        wall_s = time.monotonic() - began
        return _row(Path(name, "latest"), cities, error, wall_s, usage.ru_maxrss * _KB)


def _row(run_dir: Path, cities: int, error: str, wall_s: float, peak_bytes: int) -> Row:
    config: dict[str, Any] = {}
    summary: dict[str, Any] = {}
    if (run_dir / "summary.json").exists():
        config = read_json(run_dir / "manifest.json")["config"]
        summary = read_json(run_dir / "summary.json")
    up_s = summary.get("network_up_wall_s")
    rounds = int(config.get("rounds", 0))
    reasons = summary.get("reasons") or [error.strip().splitlines()[-1] if not summary else ""]
    return Row(
        cities=cities,
        scale=float(config.get("scale", 0.0)),
        payload_bytes=float(config.get("payload", 0.0)),
        rounds=rounds,
        verdict=str(summary.get("verdict", "")),
        reason=str(reasons[0]),
        t_planned_ms=summary.get("t_planned_ms"),
        t_measured_ms=summary.get("t_measured_ms"),
        packets_sent=summary.get("packets_sent"),
        network_up_s=up_s,
        wall_per_round_s=round((summary["wall_s"] - up_s) / rounds, 3) if summary else None,
        wall_s=round(wall_s, 3),
        peak_bytes=peak_bytes,
    )


def grown(counts: list[int], payload: str) -> Iterator[Row]:
    """Runs of generated topologies."""
    for count in counts:
        topology = make_topology(count, _SEED, regions=count // 3)
        with tempfile.TemporaryDirectory(prefix="cliquenet-scale-") as name:
            files = Path(name, "generated.yaml"), Path(name, "near-and-far.yaml")
            for file, text in zip(
                files, (topology_text(topology), schedule_text(topology)), strict=True
            ):
                file.write_text(text)
            options = ["--topology", str(files[0]), "--schedule", str(files[1])]
            options += ["--payload", payload, "--rounds", "2", "--memory", "32GB"]
            yield measure(count, options, 2048 + 128 * count)


@app.command()
def scale(
    cities: Annotated[str, typer.Option(help="Sizes, comma-separated.")] = "9,18,36,64",
    payload: Annotated[str, typer.Option(help="Of the generated networks.")] = "600MB",
    scales: Annotated[str, typer.Option(help="Of the nine cities; 1 is true rate.")] = "100,20,5,1",
    memory_mb: Annotated[int, typer.Option(help="Of the guest at those scales.")] = 16384,
) -> int:
    """Run both series; print a line per run, then all as JSON."""
    rows = []
    full = ["--schedule", "triangles", "--memory", "0", "--rounds", "1", "--trees", "shortest-path"]
    for row in grown([int(word) for word in _words(cities)], payload):
        rows.append(row)
        print(row)
    for word in _words(scales):
        rows.append(measure(9, [*full, "--scale", word], memory_mb))
        print(rows[-1])
    print(json.dumps({"rows": [asdict(row) for row in rows]}))
    return 0 if all(row.verdict for row in rows) else 1


def _words(text: str) -> list[str]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not all(word.replace(".", "", 1).isdigit() for word in words):
        raise InputError(f'"{text}" is not valid: write numbers with commas between them')
    return words


if __name__ == "__main__":
    sys.exit(run_command_line(app))
