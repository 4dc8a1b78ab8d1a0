"""The plan file: written and read back, and what is refused."""

import json
from pathlib import Path

import pytest
from made_networks import NINE, PAYLOAD_BYTES

from controller.plan import read_plan
from controller.planner import make_plan
from controller.rules import round_rules
from controller.schedule import load_schedule
from testbed.errors import InputError

PLAN = make_plan(
    NINE,
    load_schedule("triangles", NINE),
    payload_bytes=PAYLOAD_BYTES,
    memory_bytes=0,
    scale=100,
    rounds=5,
)


def test_a_plan_survives_its_file(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    PLAN.write(path)
    assert read_plan(path) == PLAN


def test_a_plan_of_before_hubs_and_pieces_is_read(tmp_path: Path) -> None:
    older = json.loads(PLAN.model_dump_json())
    for key in ("rates", "memory_model", "resend_ms", "not_runnable"):
        del older[key]
    for planned in older["period"]:
        for stream in planned["streams"]:
            del stream["hub"], stream["pieces"]
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(older))
    read = read_plan(path)
    assert read == PLAN
    assert round_rules(read, 0) == round_rules(PLAN, 0)


def test_a_lifetime_without_end_survives_too(tmp_path: Path) -> None:
    plan = make_plan(NINE, load_schedule("regional", NINE), payload_bytes=1e9, memory_bytes=0)
    plan.write(tmp_path / "plan.json")
    assert read_plan(tmp_path / "plan.json").prediction.a_rms is None


def test_rounds_repeat_the_period() -> None:
    assert PLAN.round(0) == PLAN.round(2) == PLAN.round(4) == PLAN.period[0]
    assert PLAN.round(3) == PLAN.period[1]


def test_who_sends_to_whom() -> None:
    cross = PLAN.period[1]
    assert set(cross.senders_to("tyo")) == {"nyc", "fra"}
    stream = cross.stream_of("nyc")
    assert stream is not None
    assert stream.receivers == ("fra", "tyo")
    assert stream.clique == 0
    assert cross.stream_of("xyz") is None
    # 1.79 GB in 2 × 143.2 ms.
    assert stream.rate_gbps == pytest.approx(100 / 2)


def test_a_plan_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    with pytest.raises(InputError, match="cannot read the plan"):
        read_plan(path)
    whole = json.loads(PLAN.model_dump_json())
    for change, words in (
        ({"version": 2}, "version"),
        ({"extra": 1}, "extra"),
        ({"scale": 0}, "scale"),
        ({"period": [{}]}, r"period\.0\."),
    ):
        path.write_text(json.dumps({**whole, **change}))
        with pytest.raises(InputError, match=words):
            read_plan(path)
    path.write_text("{")
    with pytest.raises(InputError, match=r"plan\.json: plan: Invalid JSON"):
        read_plan(path)
