"""Agents of several lives: names, which of them must have left records, counters put together."""

import json
from pathlib import Path

import pytest

from experiments.incarnations import (
    FAULTS_FILE,
    FaultRecord,
    incarnations,
    merge_counters,
    read_faults,
    superseded,
)
from testbed.errors import InputError


def fault(lives: int, *, signal: str = "kill", happened=1, restarted=2, city="nyc") -> FaultRecord:
    return FaultRecord(
        event="aggregator-restart",
        target=city,
        role="aggregator",
        at_ns=1,
        happened_ns=happened,
        ended_ns=restarted,
        lives=lives,
        signal=signal,
    )


def test_an_agent_that_nothing_happened_to_has_one_life() -> None:
    (life,) = incarnations("aggregator", "nyc", (fault(1, city="chi"),))
    assert (life.stem, life.killed) == ("aggregator-nyc", False)


def test_each_restart_is_a_life_with_files_of_its_own() -> None:
    lives = incarnations("aggregator", "nyc", (fault(1), fault(2, signal="term")))
    assert [(life.stem, life.killed) for life in lives] == [
        ("aggregator-nyc", True),
        ("aggregator-nyc.1", False),
        ("aggregator-nyc.2", False),
    ]


def test_an_agent_that_was_not_started_again_has_no_second_life() -> None:
    (life,) = incarnations("aggregator", "nyc", (fault(1, restarted=None),))
    assert life.killed


def test_a_fault_that_did_not_happen_counts_for_nothing() -> None:
    (life,) = incarnations("aggregator", "nyc", (fault(0, happened=None, restarted=None),))
    assert not life.killed


def test_the_file_is_read_and_its_absence_means_none(tmp_path: Path) -> None:
    assert read_faults(tmp_path) == ()
    text = json.dumps(
        [json.loads(fault(1).model_dump_json()), {"event": "x", "target": "chi", "at_ns": 5}]
    )
    (tmp_path / FAULTS_FILE).write_text(text)
    assert [f.happened_ns for f in read_faults(tmp_path)] == [1, None]
    (tmp_path / FAULTS_FILE).write_text("[{]")
    with pytest.raises(InputError, match=r"faults\.json is damaged"):
        read_faults(tmp_path)


def test_counts_add_up_and_sizes_do_not() -> None:
    first = {
        "drops": {"crc": 1, "epoch": 2},
        "memory_bytes": 100,
        "high_water_bytes": 70,
        "socket_overflow": 1,
        "udp": {"InDatagrams": 10},
        "complete": False,
        "rounds": [{"round": 0, "expected_blocks": 8, "exact_blocks": 3, "senders": ["a"]}],
    }
    second = {
        "drops": {"crc": 4},
        "memory_bytes": 100,
        "high_water_bytes": 90,
        "socket_overflow": 2,
        "udp": {"InDatagrams": 25},
        "complete": True,
        "rounds": [
            {"round": 0, "expected_blocks": 8, "exact_blocks": 5, "senders": ["a"]},
            {"round": 1, "expected_blocks": 8, "exact_blocks": 8, "senders": ["a"]},
        ],
    }
    merged = merge_counters([first, second])
    assert merged["drops"] == {"crc": 5, "epoch": 2}
    assert (merged["memory_bytes"], merged["high_water_bytes"]) == (100, 90)
    assert merged["socket_overflow"] == 3
    assert merged["udp"] == {"InDatagrams": 25}
    assert merged["complete"] is True
    assert [(r["round"], r["expected_blocks"], r["exact_blocks"]) for r in merged["rounds"]] == [
        (0, 8, 8),
        (1, 8, 8),
    ]
    assert merge_counters([first]) == first
    assert merge_counters([]) == {}


def test_each_round_is_answered_for_by_the_life_that_went_on_from_it() -> None:
    def entry(k: int, exact: int, missing: int, wrong: int = 0) -> dict:
        found = {"exact_blocks": exact, "missing_blocks": missing, "wrong_blocks": wrong}
        return {"round": k, "datagrams_in": 10, **found}

    first = {"first_round": 0, "rounds": [entry(0, 8, 0), entry(1, 3, 5, 1), entry(2, 0, 8)]}
    second = {"first_round": 1, "rounds": [entry(0, 0, 8), entry(1, 6, 2), entry(2, 8, 0)]}
    merged = merge_counters(superseded([first, second]))["rounds"]
    assert [r["exact_blocks"] for r in merged] == [8, 6, 8]
    assert [r["missing_blocks"] for r in merged] == [0, 2, 0]
    assert [r["wrong_blocks"] for r in merged] == [0, 1, 0]
    assert [r["datagrams_in"] for r in merged] == [20, 20, 20]
    aggregator = {"rounds": [{"round": 0, "missing_contributions": 3}]}
    assert superseded([aggregator, aggregator]) == [aggregator, aggregator]
