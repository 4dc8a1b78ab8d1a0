"""Every round of a run with events has an outcome, and what is not whole an explanation."""

import json
from pathlib import Path

import pytest
from rich.console import Console
from synthetic_run import Faults, make_run, triangle_plan

from experiments.analysis import analyse_run
from experiments.figure_timeline import draw_timeline
from experiments.incarnations import FaultRecord, Reaction
from experiments.outcomes import Effect, effects_of
from experiments.report import print_summary

CUT = {"at_ms": 10, "event": "link-down", "link": "aaa-bbb"}
NS = 1_000_000


def summary_of(
    folder: Path, faults: Faults, *, happened_ms: float | None = 10.0, **record: object
) -> dict:
    """What is said of a run of two rounds in which a link went down."""
    run_dir = make_run(folder, triangle_plan(), faults)
    told = {
        "event": "link-down",
        "target": "aaa-bbb",
        "role": "",
        "at_ns": 10 * NS,
        "happened_ns": None if happened_ms is None else round(happened_ms * NS),
        **record,
    }
    reactions = [
        {"event": "link", "link": "aaa-bbb", "state": "down", "at_ns": 10_100_000},
        {
            "event": "reroute",
            "link": "aaa-bbb",
            "rounds": [0],
            "rules": {"new_flows": 3},
            "cut_off": [[0, "aaa", "bbb"]],
            "at_ns": 10_100_000,
        },
        {"event": "round", "round": 0, "action": "rerouted", "at_ns": 10_200_000},
        {"event": "round", "round": -1, "action": "rerouted", "at_ns": 10_300_000},
    ]
    (run_dir / "raw" / "faults.json").write_text(json.dumps([told]))
    (run_dir / "raw" / "reactions.json").write_text(json.dumps(reactions))
    return analyse_run(run_dir)


def cut(**changes: object) -> dict[str, object]:
    return {"runtime": {"events": [CUT], **changes}}


def test_a_round_with_missing_contributions_is_partial_and_names_the_event(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, Faults(lost={(0, "aaa", "bbb", 0)}, **cut()))
    first, second = summary["rounds"]
    assert (first["outcome"], second["outcome"]) == ("partial", "whole")
    assert first["islands"] == ["bbb"]
    assert first["contributions_missing"] == summary["contributions_missing"] > 0
    assert first["events"] == ["link-down aaa-bbb at 10 ms"]
    assert summary["verdict"] == "DEGRADED"
    assert any(
        reason.startswith("round 0: partial") and reason.endswith("link-down aaa-bbb at 10 ms")
        for reason in summary["reasons"]
    )


def test_the_config_may_want_a_run_to_fail_by_its_events(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, Faults(lost={(0, "aaa", "bbb", 0)}, **cut(on_fault="fail")))
    assert summary["verdict"] == "FAIL"
    assert any(reason.startswith("round 0: partial") for reason in summary["reasons"])


def test_a_late_round_costs_nothing_unless_the_config_says_so(tmp_path: Path) -> None:
    easy = summary_of(tmp_path / "easy", Faults(late_ms=5.0, **cut()))
    assert [told["outcome"] for told in easy["rounds"]] == ["late", "late"]
    assert easy["verdict"] == "PASS", easy["reasons"]
    strict = summary_of(tmp_path / "strict", Faults(late_ms=5.0, **cut(on_fault="fail")))
    assert strict["verdict"] == "FAIL"


def test_what_no_event_explains_fails_the_run(tmp_path: Path) -> None:
    lost = Faults(lost={(0, "aaa", "bbb", 0)}, **cut())
    summary = summary_of(tmp_path, lost, happened_ms=300.0)
    assert summary["verdict"] == "FAIL"
    assert "no event explains it" in summary["reasons"][0]


def test_the_timeline_has_what_the_controller_did(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, Faults(**cut()))
    (fault,) = summary["faults"]
    assert (fault["happened_ms"], fault["ended_ms"]) == (10.0, None)
    assert (fault["detected_ms"], fault["rerouted"]) == (10.1, [0])
    assert (fault["rerouted_ms"], fault["swept_ms"]) == (10.3, None)
    assert fault["cut_off"] == [[0, "aaa", "bbb"]]
    console = Console(record=True, width=200)
    print_summary(tmp_path, summary, console)
    text = console.export_text()
    assert "event    link-down aaa-bbb at 10.000 ms, seen at 10.100 ms" in text
    assert "trees of round 0 led elsewhere by 10.300 ms" in text


def test_the_picture_marks_what_happened(tmp_path: Path) -> None:
    import pandas as pd

    summary = summary_of(tmp_path, Faults(**cut()), ended_ns=40 * NS)
    streams = pd.read_parquet(next(tmp_path.glob("*/events/streams.parquet")))
    marked = draw_timeline(tmp_path, triangle_plan(), streams, summary).read_bytes()
    plain = draw_timeline(tmp_path, triangle_plan(), streams, {**summary, "faults": []})
    assert plain.read_bytes() != marked


@pytest.mark.parametrize(
    ("from_ms", "until_ms", "met"),
    [(0, 0, [0]), (0, None, [0, 1]), (1.4, 1.4, [0, 1]), (1.6, 1.6, [1]), (9, None, [1])],
)
def test_an_event_matters_to_the_rounds_that_are_open_then(
    from_ms: float, until_ms: float | None, met: list[int]
) -> None:
    plan = triangle_plan().model_copy(update={"round_interval_ms": 1.0})
    until_ns = None if until_ms is None else round(until_ms * NS)
    effect = Effect("x", round(from_ms * NS), until_ns)
    assert [k for k in range(2) if effect.meets(plan, k)] == met


def test_a_controller_is_away_until_its_switches_are_back() -> None:
    fault = FaultRecord(event="controller-restart", target="", at_ns=5, happened_ns=5, ended_ns=9)
    again = [Reaction(event="switch", state="up", dpid=n, at_ns=20 + n) for n in (1, 2, 3)]
    topology = triangle_plan().topology
    (effect,) = effects_of([fault], again, topology)
    assert (effect.name, effect.from_ns, effect.until_ns) == (
        "controller-restart at 5e-06 ms",
        5,
        23,
    )
    assert effects_of([fault.model_copy(update={"happened_ns": None})], again, topology) == []
    one = fault.model_copy(update={"event": "switch-reconnect", "target": "bbb"})
    assert effects_of([one], again, topology)[0].until_ns == 22
    assert effects_of([fault], again[1:], topology)[0].until_ns is None
