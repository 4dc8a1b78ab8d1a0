"""The command that schedules a collective: what it prints, writes and refuses."""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.collectives.check import check_schedule
from controller.collectives.schedulefile import read_schedule_file
from experiments.cli import main
from experiments.figure_collective import busy_share


def run(tmp_path: Path, *options: str) -> int:
    return main(["collective", "--results", str(tmp_path), *options])


def test_the_last_line_is_one_object(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "--topology", "switch:4", "--format", "json", "--budget", "5") == 0
    shown = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert shown["algorithm"] == "multicast-aggregation"
    assert shown["nodes"] == 4
    assert shown["time_us"] == min(row["time_us"] for row in shown["rows"])
    assert shown["over_bound"] == pytest.approx(shown["time_us"] / shown["bound_us"])
    assert {"ring", "direct", "synthesised", "parameter-server"} <= {
        row["algorithm"] for row in shown["rows"]
    }
    assert all(row["valid"] for row in shown["rows"])
    assert "no MSCCL file" in shown["notes"][0]
    schedule = read_schedule_file(Path(shown["files"][0]))
    assert schedule.time_us == shown["time_us"]
    assert check_schedule(schedule) == []


def test_files_and_pictures_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--topology", "mesh:2x3", "--collective", "reduce-scatter", "--chunks", "12")
    assert run(tmp_path, *options, "--payload", "6MB") == 0
    folder = tmp_path / "collectives" / "mesh-2x3-reduce-scatter"
    names = {path.name for path in folder.iterdir()}
    assert names == {"schedule.json", "schedule.xml", "expanded.png", "links.png"}
    assert all(path.stat().st_size > 1000 for path in folder.iterdir())
    printed = capsys.readouterr().out
    assert "reduce-scatter of 6MB on mesh-2x3, pipelined" in printed
    assert "bound" in printed


def test_the_root_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--collective", "broadcast", "--algorithm", "direct", "--format", "json")
    assert run(tmp_path, *options, "--root", "tyo", "--chunks", "1") == 0
    schedule = read_schedule_file(
        Path(json.loads(capsys.readouterr().out.splitlines()[-1])["files"][0])
    )
    assert schedule.network.nodes[schedule.task.root].name == "tyo"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--topology", "mesh:0x3"), "sides of 2 or more"),
        (("--collective", "gather"), 'did you mean "all-gather"'),
        (("--algorithm", "rings"), 'did you mean "ring"'),
        (("--model", "fast"), "MODEL"),
        (("--payload", "many"), "payload"),
        (("--chunks", "10"), "takes a multiple of 9"),
        (("--root", "par", "--collective", "reduce"), "ROOT"),
        (("--budget", "0"), "BUDGET"),
        (("--seed", "-1"), "SEED"),
        (("--multicast", "maybe"), "MULTICAST"),
        (("--format", "xml"), "FORMAT"),
    ],
)
def test_bad_input_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], message: str
) -> None:
    assert run(tmp_path, *options) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("error: ")
    assert message.lower() in error.lower()


@given(st.lists(st.tuples(st.integers(0, 90), st.integers(1, 30)), max_size=20))
def test_busy_links_are_averaged_over_each_bin(spans: list[tuple[int, int]]) -> None:
    begin = np.array([a for a, _ in spans], dtype=np.int64)
    end = np.array([a + length for a, length in spans], dtype=np.int64)
    edges = np.linspace(0, 120, 13)
    expected = [
        sum(max(0, min(b, high) - max(a, low)) for a, b in zip(begin, end, strict=True)) / 10
        for low, high in pairwise(edges)
    ]
    np.testing.assert_allclose(busy_share(begin, end, edges), expected, atol=1e-9)
