import io

import pytest
from rich.console import Console
from synthetic_run import Faults, make_run, nine_city_plan, triangle_plan

from experiments.analysis import analyse_run
from experiments.cli import main
from experiments.figure_map import lanes
from experiments.plots import draw_plots
from experiments.report import print_summary
from testbed.errors import InputError

FIGURES = {"map.png", "timeline.png", "memory.png", "links.png", "survival.png"}
PNG = b"\x89PNG\r\n\x1a\n"


def drawn(run_dir):
    return {path.name: path.read_bytes() for path in draw_plots(run_dir)}


def test_every_figure_is_drawn_from_files_and_comes_out_the_same_again(tmp_path):
    run_dir = make_run(tmp_path, nine_city_plan("triangles", rounds=3))
    analyse_run(run_dir)
    first = drawn(run_dir)
    assert set(first) >= FIGURES
    for name in FIGURES:
        assert first[name].startswith(PNG)
        assert len(first[name]) > 10_000
    for raw in (run_dir / "raw").iterdir():
        raw.unlink()
    assert drawn(run_dir) == first
    assert first["survival.csv"].decode().splitlines()[:2] == [
        "k,planned,measured",
        "0,1.0,1.0",
    ]


def test_plots_before_analysis_say_what_to_do(tmp_path):
    run_dir = make_run(tmp_path, triangle_plan())
    with pytest.raises(InputError, match=r"summary\.json"):
        draw_plots(run_dir)


@pytest.mark.parametrize(
    "plan",
    [
        nine_city_plan("regional", rounds=1),  # A is infinite
        nine_city_plan("all-to-all", rounds=1, memory_bytes=0.0),
        nine_city_plan("pairs", rounds=5, multicast=False, aggregation=False),
        triangle_plan(memory_bytes=40e6),  # M near enough to be drawn
    ],
    ids=["regional", "infeasible", "unicast", "small memory"],
)
def test_unusual_runs_are_drawn_and_reported(tmp_path, plan):
    run_dir = make_run(tmp_path, plan)
    summary = analyse_run(run_dir)
    names = set(drawn(run_dir))
    assert names >= FIGURES - {"memory.png"}
    assert ("memory.png" in names) == plan.aggregation
    console = Console(width=80, record=True, file=io.StringIO())
    print_summary(run_dir, summary, console)
    text = console.export_text()
    assert summary["verdict"] in text
    assert f"{summary['t_measured_ms']:.2f} ms" in text


def test_a_run_in_which_nothing_arrived_is_drawn_and_reported(tmp_path, capsys):
    plan = triangle_plan(rounds=1)
    codes, blocks = plan.topology.codes, range(0, 302, 4)
    lost = {(0, a, b, k) for a in codes for b in codes for k in blocks}
    run_dir = make_run(tmp_path, plan, Faults(lost=lost))
    assert main(["analyse", run_dir.name, "--results", str(tmp_path)]) == 3
    captured = capsys.readouterr()
    assert "nothing arrived" in captured.out
    assert captured.err.startswith(f"error: {run_dir.name} failed its checks")
    assert captured.err.count("\n") == 1


def test_analyse_and_plot_from_the_command_line(tmp_path, capsys):
    run_dir = make_run(tmp_path, triangle_plan())
    assert main(["analyse", "--results", str(tmp_path)]) == 0
    assert "PASS" in capsys.readouterr().out
    assert main(["plot", str(run_dir)]) == 0
    assert "map.png" in capsys.readouterr().out


def test_lanes_count_the_copies_of_every_clique_on_every_edge():
    plan = nine_city_plan("triangles", rounds=1)
    for this_round in plan.period:
        counted = {e: sum(n for _, n in carried) for e, carried in lanes(this_round).items()}
        assert counted == {e: n for e, n in this_round.edge_streams.items() if n}
