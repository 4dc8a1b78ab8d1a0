"""Take-overs of runs: planned again, written down, judged, and in the table of failures."""

import csv
import json
import socket
from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console

from agents.orders import Orders
from experiments.comparison.failure_rows import (
    FailureRow,
    cells,
    draw_failures,
    failure_row,
    print_failures,
    write_failure_tables,
)
from experiments.comparison.failures import base_config, failure_configs
from experiments.comparison.packets import Measured
from experiments.hostorders import HostOrders
from experiments.hostresumption import check_takeovers, known_before, resumptions
from experiments.incarnations import FaultRecord
from experiments.planning import plan_experiment
from experiments.replanner import make_replanner, replan_again
from experiments.run import make_runtime
from experiments.sources import load_config
from experiments.takeovers import TAKEOVERS_FILE, Question, TakeoverRecord, read_takeovers
from testbed.errors import CliquenetError, InputError
from testbed.processes import Supervisor

DOWN = {"at_ms": "200ms", "event": "link-down", "link": "nyc-chi"}
AT_NS = 200_000_000
QUESTION = Question(
    down=(0, 1),
    breaks=(((0, 1), AT_NS),),
    until_ns=AT_NS + 110_000_000,
    resume_ns=AT_NS + 110_000_000,
    landed=(),
)


@pytest.fixture(scope="module")
def config():
    return load_config(None, {"schedule": "ring", "chunks": 9, "events": [DOWN]})


@pytest.fixture(scope="module")
def plan(config):
    return plan_experiment(config)


@pytest.fixture(scope="module")
def runtime(config, plan, tmp_path_factory):
    return make_runtime(config, plan, tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def takeover(plan, runtime):
    candidate = make_replanner(plan, runtime).plan(QUESTION)
    return TakeoverRecord(
        outcome="taken over",
        noticed_ns=AT_NS,
        charged_ms=100.0,
        question=QUESTION,
        cpu_ms=0.0,
        dropped=tuple(sorted(candidate.found.state.dropped)),
        first_transfer=candidate.found.state.next_transfer,
        confirmed_ns=AT_NS + 100_500_000,
        zero_ns=QUESTION.resume_ns,
        plan=candidate.hosts,
    )


FAULT = FaultRecord(
    event="link-down",
    target="nyc-chi",
    at_ns=AT_NS,
    happened_ns=AT_NS,
    directions=("nyc→chi", "chi→nyc"),
)


def test_planning_once_more_gives_the_same_schedule(plan, runtime, takeover) -> None:
    late = TakeoverRecord(outcome="all hosts were done", noticed_ns=9, charged_ms=100.0)
    once, none = replan_again(plan, runtime, (takeover, late))
    assert once is not None
    assert once[0] > 0
    assert once[1] is True
    assert none is None
    other = takeover.model_copy(update={"plan": plan.collective})
    assert replan_again(plan, runtime, (other,))[0][1] is False


def test_the_file_holds_what_was_written(takeover, tmp_path: Path) -> None:
    assert read_takeovers(tmp_path) == ()
    path = tmp_path / TAKEOVERS_FILE
    path.write_text(json.dumps([takeover.model_dump(mode="json")]))
    assert read_takeovers(tmp_path) == (takeover,)
    path.write_text("[{}]")
    with pytest.raises(InputError, match=TAKEOVERS_FILE):
        read_takeovers(tmp_path)


def test_times_count_from_the_failure(takeover) -> None:
    first = takeover.first_transfer
    transfers = pd.DataFrame(
        {
            "transfer": [0, 1, first, first + 1],
            "start_ms": [0.0, 190.0, 310.0, 320.0],
            "end_ms": [150.0, 240.0, 330.0, 350.0],
            "given_up": [False, True, False, False],
        }
    )
    (found,) = resumptions((takeover,), (FAULT,), transfers, [(42.0, True)])
    assert found["event"] == "link-down nyc-chi"
    assert found["last_chunk_before_ms"] == 150.0
    assert found["time_to_resume_ms"] == 110.0
    assert found["planning_cpu_ms"] == 42.0
    assert found["transfers"] == 2
    assert found["finish_planned_ms"] == pytest.approx(310 + takeover.plan.time_ms)


def test_planning_that_takes_too_long_or_comes_out_differently_is_told(takeover) -> None:
    assert check_takeovers((takeover,), (FAULT,), [(99.0, True)]) == []
    slow, other = check_takeovers((takeover,), (), [(101.0, False)])
    assert slow.level == other.level == "DEGRADED"
    assert "101 ms of a processor, and was given 100 ms" in slow.text
    missed = FAULT.model_copy(update={"happened_ns": None})
    (late,) = check_takeovers((), (missed,), [])
    assert "the run was over" in late.text


def test_schedules_that_had_known_are_compared_for_one_failure_only(plan, runtime) -> None:
    known = known_before(plan, plan.collective, runtime, (FAULT,))
    assert known is not None
    assert known["from_start"] > 0
    assert known["from_event"] > AT_NS / 1e6
    assert known_before(plan, plan.collective, runtime, (FAULT, FAULT)) is None
    assert known_before(plan, plan.collective, runtime, ()) is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"release": "data"}, "RELEASE=planned"),
        (
            {"events": [{**DOWN, "event": "loss-burst", "loss_percent": 1, "for_ms": 5}]},
            "link-down",
        ),
        (
            {"events": [DOWN, {"at_ms": "210ms", "event": "link-down", "link": "nyc-lon"}]},
            "nyc .*apart|apart",
        ),
    ],
)
def test_events_that_hosts_have_no_answer_to_are_refused(changes, message: str) -> None:
    values = {"schedule": "ring", "chunks": 9, "events": [DOWN], **changes}
    with pytest.raises(InputError, match=message):
        plan_experiment(load_config(None, values))


def test_hosts_are_asked_and_say_when_they_are_done() -> None:
    supervisor = Supervisor()
    pairs = {code: socket.socketpair() for code in ("aa", "bb")}
    done = []
    orders = HostOrders(
        {code: near for code, (near, _) in pairs.items()},
        supervisor,
        lambda code, message: done.append((code, message["zero_ns"])),
    )
    hosts = {code: Orders(far) for code, (_, far) in pairs.items()}
    for code, host in hosts.items():
        host.send(reply="done", zero_ns=7)
        host.send(reply="report", applied=[1, 2] if code == "aa" else [])
    # Replies to an earlier question do not count.
    supervisor.step(1.0)
    supervisor.step(1.0)
    for host in hosts.values():
        host.send(reply="report", applied=[3])
    assert orders.ask("report") == {"aa": frozenset({3}), "bb": frozenset({3})}
    assert sorted(done) == [("aa", 7), ("bb", 7)]
    assert [message["order"] for message in hosts["aa"].receive()] == ["report"]
    hosts["aa"].close()
    with pytest.raises((CliquenetError, BrokenPipeError)):
        orders.ask("report")
    supervisor.stop_all()


def row(**changes: object) -> FailureRow:
    values: dict[str, object] = {
        "link": "nyc-chi",
        "failed_ms": 223.0,
        "undisturbed_ms": 446.0,
        "last_chunk_before_ms": 222.5,
        "time_to_resume_ms": 110.2,
        "planning_cpu_ms": 40.0,
        "planning_charged_ms": 100.0,
        "algorithm": "synthesised",
        "transfers": 472,
        "transfers_cut_off": 2,
        "chunks_final": 144,
        "finish_planned_ms": 550.0,
        "finish_ms": 551.0,
        "known_from_start_ms": 590.0,
        "known_from_event_ms": 510.0,
        "packets_lost": 2,
        "sums_exact": True,
        "verdict": "PASS",
        "reason": "",
        "run_id": "tacos-0123abcd-1",
        "source": "ran",
    }
    return FailureRow(**{**values, **changes})


FAILED = row(
    **dict.fromkeys(("time_to_resume_ms", "finish_ms", "known_from_start_ms", "sums_exact")),
    link="lon-sin",
    verdict="ERROR",
    reason="the guest died",
    source="failed",
)


def test_a_finish_is_put_beside_the_better_schedule_that_had_known(tmp_path: Path) -> None:
    assert row().known_ms == 510.0
    assert row().over_known == pytest.approx(551 / 510)
    assert FAILED.known_ms is None
    assert cells(FAILED)["/ known"] == "–"
    table, text = write_failure_tables(tmp_path, [row(), FAILED], "A title")
    with table.open(newline="") as file:
        assert [r["link"] for r in csv.DictReader(file)] == ["nyc-chi", "lon-sin"]
    assert "| nyc-chi |" in text.read_text()
    assert draw_failures(tmp_path, [row(), FAILED], "A title").stat().st_size > 0


def test_the_table_says_why_runs_failed(capsys: pytest.CaptureFixture[str]) -> None:
    print_failures([row(), FAILED], "A title", Console(width=80))
    printed = capsys.readouterr().out
    assert "1.080" in printed
    assert "- lon-sin: the guest died" in printed


def test_every_link_fails_once_at_half_the_time() -> None:
    base = base_config(load_config(None, {"seed": "7"}), quick=True)
    configs = failure_configs(base, 100.0)
    assert len(configs) == 13
    assert {c.schedule for c in configs} == {"tacos"}
    assert {c.payload_bytes for c in configs} == {179_000_000}
    assert [e.at_ms for c in configs for e in c.events] == [50.0] * 13
    assert len({c.events[0].link for c in configs}) == 13
    with pytest.raises(InputError, match="no hosts"):
        base_config(load_config(None, {"schedule": "pairs"}), quick=False)


def test_a_row_of_a_run_that_failed_keeps_its_reason(config, plan) -> None:
    made = failure_row(config, plan, Measured(None, "failed", "it died"))
    assert (made.link, made.verdict, made.reason) == ("nyc-chi", "ERROR", "it died")
    assert made.undisturbed_ms == plan.prediction.t_ms
