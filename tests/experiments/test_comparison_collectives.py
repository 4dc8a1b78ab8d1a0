"""The comparison of collectives without running anything: what it runs, its rows and files."""

import csv
from pathlib import Path

import pytest
from rich.console import Console
from test_hostanalysis import make_run

from controller.plan import Plan, read_plan
from experiments.analyse import analyse
from experiments.comparison import collectives
from experiments.comparison.collective_rows import (
    CollectiveRow,
    cells,
    collective_row,
    draw_collectives,
    gain,
    print_collectives,
    write_collective_tables,
)
from experiments.comparison.collectives import (
    collective_configs,
    compare_collectives,
    left_out,
)
from experiments.comparison.packets import Measured
from experiments.config import COLLECTIVES, ExperimentConfig
from experiments.planning import plan_experiment
from experiments.sources import load_config
from testbed.progress import Step


def row(**changes: object) -> CollectiveRow:
    values: dict[str, object] = {
        "schedule": "ring",
        "release": "planned",
        "chunks": 36,
        "t_planned_ms": 100.0,
        "t_measured_ms": 101.0,
        "t_error_percent": 1.0,
        "bound_ms": 50.0,
        "sums_exact": True,
        "packets_lost": 0,
        "verdict": "PASS",
        "reason": "",
        "run_id": "ring-0123abcd-1",
        "source": "ran",
    }
    return CollectiveRow(**{**values, **changes})


FAILED = row(
    **dict.fromkeys(("t_measured_ms", "t_error_percent", "sums_exact", "packets_lost")),
    release="data",
    verdict="ERROR",
    reason="the guest died",
    source="failed",
)
NETWORK = row(schedule="multicast + FPGA", release="", chunks=None, bound_ms=None)
ROWS = [row(), FAILED, NETWORK]


def test_every_algorithm_runs_both_ways_and_the_network_once() -> None:
    base = load_config(None, {"seed": "7", "chunks": "18"})
    configs = collective_configs(base, quick=True)
    assert [(c.schedule, c.release, c.chunks) for c in configs[:-2]] == [
        (schedule, release, 18)
        for schedule in COLLECTIVES
        if schedule != "in-network"
        for release in ("planned", "data")
    ]
    assert (configs[-2].schedule, configs[-2].chunks) == ("in-network", 0)
    assert left_out(base) == []
    assert (configs[-1].schedule, configs[-1].rounds) == ("all-to-all", 1)
    assert configs[-1].multicast
    assert configs[-1].aggregation
    assert {(c.seed, c.payload_bytes, c.clock) for c in configs} == {(7, 179_000_000, "virtual")}


def test_what_a_topology_has_no_use_for_is_left_out_and_said() -> None:
    base = load_config("switch-eight", {})
    tried = {config.schedule for config in collective_configs(base, quick=True)}
    assert left_out(base) == ["hierarchical"]
    assert tried == {*COLLECTIVES, "all-to-all"} - {"hierarchical"}


def test_the_gain_is_that_of_measured_exact_sums() -> None:
    network = row(schedule="in-network", release="", t_measured_ms=40.0)
    fast, wrong = row(t_measured_ms=70.0, release="data"), row(t_measured_ms=1, sums_exact=False)
    found = gain([row(), fast, wrong, FAILED, network, NETWORK])
    assert (found.between_hosts, found.in_network, found.factor) == (fast, network, 1.75)
    assert "1.750 × as fast" in found.text
    assert "40.00 against 70.00 ms" in found.text
    peer = row(schedule="Open MPI, ring", release="", t_measured_ms=60.0)
    assert gain([row(), fast, peer, network]).factor == 1.5
    assert gain([row(), NETWORK]) is None
    assert gain([FAILED, network]) is None


def test_a_row_of_an_analysed_run(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path)
    plan, summary = read_plan(run_dir / "plan.json"), analyse(run_dir)
    config = load_config(None, {"schedule": "ring"})
    made = collective_row(config, plan, Measured(summary, "ran"))
    assert (made.schedule, made.release, made.chunks) == ("ring", "planned", 9)
    assert made.t_measured_ms == summary["t_measured_ms"]
    assert (made.verdict, made.sums_exact, made.run_id) == ("PASS", True, run_dir.name)
    failed = collective_row(config, plan, Measured(None, "failed", "it died"))
    assert (failed.verdict, failed.reason, failed.sums_exact) == ("ERROR", "it died", None)


def test_the_files_hold_every_row(tmp_path: Path) -> None:
    table, text = write_collective_tables(tmp_path, ROWS, "A title")
    with table.open(newline="") as file:
        read = list(csv.DictReader(file))
    assert [r["release"] for r in read] == ["planned", "data", ""]
    assert read[1]["t_measured_ms"] == ""
    lines = text.read_text().splitlines()
    assert len([line for line in lines if line.startswith("|")]) == 2 + len(ROWS)
    assert draw_collectives(tmp_path, ROWS, "A title").stat().st_size > 5000


def test_the_printed_table_says_why_a_run_failed() -> None:
    console = Console(record=True, width=140)
    print_collectives(ROWS, "A title", ["with a shim"], console)
    assert "the guest died" in console.export_text()
    assert cells(ROWS[0])["/ bound"] == "2.02"
    assert cells(FAILED)["/ bound"] == cells(NETWORK)["/ bound"] == "–"


def test_open_mpi_comes_last_with_its_notes_in_the_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = load_config(None, {"schedule": "ring"})
    plan, died = plan_experiment(config), Measured(None, "failed", "it died")
    asked = []

    def peer(
        of: ExperimentConfig, beside: Plan, folder: Path, _: object
    ) -> tuple[list[CollectiveRow], list[str]]:
        asked.append((of.payload_bytes, beside.schedule, folder.name))
        return [row(schedule="Open MPI, ring", t_planned_ms=None)], ["with a shim"]

    monkeypatch.setattr(
        collectives, "compare_configs", lambda configs, *_, **__: [(plan, died)] * len(configs)
    )
    monkeypatch.setattr(collectives, "compare_open_mpi", peer)
    made = compare_collectives(config, tmp_path, quick=True, workers=1, progress=Step)
    assert asked == [(179_000_000, "ring", "open-mpi")]
    assert [r.schedule for r in made.rows].index("Open MPI, ring") == len(made.rows) - 1
    assert made.notes == ["with a shim"]
    text = (made.folder / "table.md").read_text()
    assert text.endswith("\n\n- with a shim\n")
    assert all(path.is_file() for path in made.files)
