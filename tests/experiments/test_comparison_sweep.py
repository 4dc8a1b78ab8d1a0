from dataclasses import replace

import pytest

from experiments.comparison.figure_sweep import draw_memory_line, draw_winners
from experiments.comparison.sweep import (
    Grid,
    Point,
    memory_line,
    payload_grid,
    plan_column,
    ranked,
    sweep,
    transition,
    tree_settings,
)
from experiments.planning import plan_experiment
from experiments.sources import load_config


def quiet(text):
    return


def point(schedule, memory, objective, *, trees="shortest-path", payload=100):
    t_ms = None if objective is None else objective / 2
    return Point(schedule, trees, payload, memory, t_ms, objective)


def crossing(trees="shortest-path"):
    """All-to-All starts at 10 and beats Triangles from 30 on."""
    triangles = [point("triangles", m, 100.0, trees=trees) for m in (0, 10, 20, 30)]
    others = [
        point("all-to-all", m, o, trees=trees)
        for m, o in ((0, None), (10, 300.0), (20, 101.0), (30, 90.0))
    ]
    return triangles + others


def test_the_transition_lies_between_the_last_loss_and_the_first_win():
    assert transition(crossing(), "triangles", "all-to-all") == (20, 30)
    assert transition(crossing()[:-1], "triangles", "all-to-all") is None
    assert transition(crossing(), "all-to-all", "triangles") is None  # ahead from the start


def test_trees_are_set_as_asked_for_mixed_and_at_their_fastest():
    slow = [replace(p, trees="best", t_ms=p.t_ms and 2 * p.t_ms) for p in crossing()]
    slow[0] = replace(slow[0], t_ms=1.0, objective_ms=2.0)
    shortest, mixed, faster = tree_settings([*slow, *crossing()]).values()
    assert shortest == crossing()
    assert {(p.schedule, p.trees) for p in mixed} == {
        ("triangles", "shortest-path"),
        ("all-to-all", "best"),
    }
    assert [p.trees for p in faster].count("best") == 1
    assert len(mixed) == len(faster) == len(crossing())


def test_one_family_of_trees_is_one_setting():
    assert tree_settings(crossing()) == {"shortest-path": crossing()}


def test_schedules_are_ranked_where_they_have_an_objective():
    order = ranked([*crossing(), point("pairs", 0, None), point("pairs", 40, None)])
    assert [(p.schedule, p.objective_ms) for p in order[100, 30]] == [
        ("all-to-all", 90.0),
        ("triangles", 100.0),
    ]
    assert [p.schedule for p in order[100, 0]] == ["triangles"]
    assert order[100, 40] == []


@pytest.mark.parametrize("schedule", ["triangles", "all-to-all"])
def test_a_column_says_what_the_planner_says_at_every_memory(schedule):
    options = {"schedule": schedule, "trees": "shortest-path"}
    config = load_config(None, options)
    memories = (0, 20_000_000, 150_000_000, 300_000_000, 2_000_000_000, 32_000_000_000)
    points = plan_column(config, memories, quiet)
    assert [p.memory_bytes for p in points] == list(memories)
    ample_ms = points[-1].t_ms
    for made in points:
        plan = plan_experiment(load_config(None, {**options, "memory": str(made.memory_bytes)}))
        if made.t_ms is None:
            assert not plan.feasible or plan.prediction.t_ms > 3 * ample_ms
        else:
            assert plan.feasible
            assert made.t_ms == pytest.approx(plan.prediction.t_ms, abs=0.01)
            assert made.objective_ms == pytest.approx(plan.prediction.objective_ms, rel=1e-4)


def test_a_sweep_has_a_point_for_every_schedule_payload_memory_and_family():
    base = load_config(None, {})
    grid = Grid((10_000_000, 20_000_000), (0, 1_000_000_000))
    points = sweep(
        base, grid, ("shortest-path", "best"), workers=2, tick=quiet, schedules=("regional",)
    )
    assert len(points) == 8
    assert {p.trees for p in points} == {"shortest-path", "best"}
    assert all(p.t_ms is not None and p.objective_ms is None for p in points)
    assert points == sorted(
        points, key=lambda p: (p.trees, p.schedule, p.payload_bytes, p.memory_bytes)
    )


@pytest.mark.parametrize("quick", [True, False])
def test_grids_rise_from_no_memory_and_hold_the_payload(quick):
    base = load_config(None, {})
    for grid in (memory_line(base, quick=quick), payload_grid(base, quick=quick)):
        assert grid.memories_bytes[0] == 0
        assert list(grid.memories_bytes) == sorted(set(grid.memories_bytes))
        assert list(grid.payloads_bytes) == sorted(set(grid.payloads_bytes))
    assert memory_line(base, quick=quick).payloads_bytes == (base.payload_bytes,)


def test_figures_of_a_sweep_and_their_data(tmp_path):
    points = crossing() + crossing("best")
    points += [replace(p, payload_bytes=200) for p in points]
    figure, table = draw_memory_line(tmp_path, [p for p in points if p.payload_bytes == 100])
    assert figure.stat().st_size > 10_000
    lines = table.read_text().splitlines()
    assert len(lines) == 1 + 16
    assert lines[0] == "schedule,trees,payload_bytes,memory_bytes,t_ms,objective_ms"
    assert "all-to-all,shortest-path,100,0,," in lines
    figure, table = draw_winners(tmp_path, points)
    assert figure.stat().st_size > 10_000
    assert len(table.read_text().splitlines()) == 1 + 32


def test_figures_where_nothing_is_feasible(tmp_path):
    points = [point("all-to-all", memory, None) for memory in (0, 10)]
    assert draw_memory_line(tmp_path, points)[0].exists()
    assert draw_winners(tmp_path, points)[0].exists()
