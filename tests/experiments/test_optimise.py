import csv
import io
import json

import pytest
from rich.console import Console
from synthetic_run import triangle_topology

from controller.planner import make_plan
from controller.schedule import Schedule, load_schedule
from experiments import plancommand
from experiments.cli import main
from experiments.optimizefiles import (
    clique_sizes,
    gap,
    optimised_object,
    rounds_text,
    schedule_file_name,
    write_optimised,
    write_schedule,
)
from experiments.optimizing import PLAN_SETTINGS, FrontPoint, Optimised
from experiments.report import print_front
from experiments.sources import key_names
from testbed.errors import InfeasibleError
from testbed.topology import load_topology

ALL = Schedule("optimised", ((("aaa", "bbb", "ccc"),),))
TURNS = Schedule("front-0", ((("aaa", "bbb"),), (("bbb", "ccc"),)))


def found(**changes):
    """A search on three cities whose best is the clique of all three."""
    plan = make_plan(triangle_topology(), ALL, payload_bytes=250e6, memory_bytes=1e9)
    values = {
        "plan": plan,
        "schedule": ALL,
        "front": (
            FrontPoint(TURNS, 25.0, 4.0, 112.5),
            FrontPoint(ALL, plan.prediction.t_ms, 1.0, 1.5 * plan.prediction.t_ms),
        ),
        "certificate": "no rotation is better (proved)",
        "lower_bound_ms": 0.9 * 1.5 * plan.prediction.t_ms,
        "seconds": 1.25,
        "work": "3 of 3 tasks",
    }
    return Optimised(**{**values, **changes})


def test_a_written_schedule_is_read_back_the_same(tmp_path):
    topology = load_topology("nine-cities")
    for name in ("triangles", "pairs", "all-to-all"):
        schedule = load_schedule(name, topology)
        write_schedule(tmp_path / "made.yaml", schedule, "a comment: with a colon # and a mark")
        assert load_schedule(tmp_path / "made.yaml", topology) == schedule


def test_the_schedule_of_a_search_is_named_by_its_memory():
    assert schedule_file_name(0) == "optimised-0B.yaml"
    assert schedule_file_name(300_000_000) == "optimised-300MB.yaml"


def test_a_search_leaves_schedule_front_plan_and_plots(tmp_path):
    files = write_optimised(tmp_path / "new" / "folder", found())
    assert {path.name for path in files} == {
        "optimised-1GB.yaml",
        "front.json",
        "front.csv",
        "front.png",
        "plan.json",
        "map.png",
        "rates.png",
    }
    assert all(path.stat().st_size > 100 for path in files)
    assert load_schedule(files[0], triangle_topology()) == ALL
    with (tmp_path / "new" / "folder" / "front.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["rounds"] for row in rows] == ["aaa-bbb | bbb-ccc", "aaa-bbb-ccc"]
    assert float(rows[0]["objective_ms"]) == 112.5


def test_the_object_of_a_search_is_that_of_its_plan_with_front_and_certificate():
    value = json.loads(json.dumps(optimised_object(found())))
    assert value["schedule"] == "optimised"
    assert value["feasible"] is True
    assert value["objective_ms"] == pytest.approx(1.5 * value["t_ms"])
    assert value["front"][0]["rounds"] == [[["aaa", "bbb"]], [["bbb", "ccc"]]]
    assert value["certificate"] == "no rotation is better (proved)"
    assert value["gap"] == pytest.approx(0.1)


def test_a_gap_is_never_negative_and_unknown_without_a_bound():
    assert gap(found(lower_bound_ms=None)) is None
    assert gap(found(lower_bound_ms=1e9)) == 0.0


def test_the_printed_front_names_the_best_and_the_proof():
    text = io.StringIO()
    print_front(found(), Console(file=text, width=120))
    lines = text.getvalue().splitlines()
    assert ["best" in line for line in lines if "2 | 2" in line] == [False]
    assert ["1.000" in line for line in lines if "best" in line] == [True]
    assert any(line.endswith("no rotation is better (proved)") for line in lines)


def test_rounds_and_their_sizes_fit_one_line():
    assert rounds_text(TURNS) == "aaa-bbb | bbb-ccc"
    uneven = Schedule("uneven", ((("a", "b"), ("c", "d", "e")), (("a", "e"),)))
    assert clique_sizes(uneven) == "3+2 | 2"


def test_the_plan_of_a_search_is_had_with_keys_that_the_config_knows():
    assert set(PLAN_SETTINGS) <= set(key_names())


@pytest.mark.parametrize("form", ["table", "json"])
def test_optimize_prints_what_was_found_and_where_the_schedule_is(
    tmp_path, capsys, monkeypatch, form
):
    monkeypatch.setattr(plancommand, "find_best", lambda *_, **__: found())
    options = ["--memory", "1GB", "--format", form, "--results", str(tmp_path)]
    assert main(["optimize", *options]) == 0
    printed = capsys.readouterr().out
    (folder,) = (tmp_path / "optimize").iterdir()
    assert str(folder / "optimised-1GB.yaml") in printed
    if form == "json":
        assert json.loads(printed.splitlines()[-1])["schedule"] == "optimised"


def test_optimize_ends_with_status_4_if_nothing_is_feasible(tmp_path, capsys, monkeypatch):
    def nothing(*_, **__):
        raise InfeasibleError("no feasible schedule was found")

    monkeypatch.setattr(plancommand, "find_best", nothing)
    options = ["--memory", "0", "--format", "json", "--results", str(tmp_path)]
    assert main(["optimize", *options]) == 4
    shown = capsys.readouterr()
    value = json.loads(shown.out.splitlines()[-1])
    assert value["feasible"] is False
    assert value["reason"] == "no feasible schedule was found"
    assert {"t_ms", "a_rms", "objective_ms", "busiest_link_streams"} <= set(value)
    assert "error: no feasible schedule was found" in shown.err
