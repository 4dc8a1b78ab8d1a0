"""Files that a stranger wrote: whatever is in them, one line says what is wrong."""

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.plan import read_plan
from controller.schedule import load_schedule
from experiments.network_record import read_network
from experiments.planning import plan_experiment
from experiments.results import read_json
from experiments.runtime import read_runtime
from experiments.sources import load_config
from testbed.errors import CliquenetError
from testbed.topology import load_topology

EXAMPLES = 100
ROOT = Path(__file__).parents[2]
CONFIG = """\
schedule: triangles
memory: 32GB
rounds: 2
payload: 60MB
dtype: f32
resend_ms: 3
impairments:
  - {link: nyc-chi, loss_percent: 1, loss_burst: 3}
  - {access: fra, reorder_percent: 2}
events:
  - {at_ms: 4, event: island-restart, city: nyc, down_ms: 2}
  - {at_ms: 9, event: aggregator-restart, city: tyo, signal: term}
"""
TOPOLOGY = (ROOT / "testbed/topologies/nine-cities.yaml").read_text()
SCHEDULE = (ROOT / "experiments/schedules/best-32gb.yaml").read_text()
WORDS = st.sampled_from(
    ["", "~", "-1", "0", "1e400", ".nan", "-.inf", "9" * 40, "[]", "{}", "[[[]]]", "{a: {b: c}}",
     "../../../etc/passwd", "!!python/object/apply:os.system [id]", "&a [*a]", "*a", "2026-01-01",
     "0x10", "nyc", "'", '"', "\t", "\x00", "\ufeff", "é", "%", "| x", "? y", "<<: *b", "yes"]
)  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn, text: str) -> str:
    """A text in which lines were dropped, doubled or moved, and words replaced."""
    lines = text.splitlines(keepends=True)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(0, len(lines) - 1)))
        what = draw(st.sampled_from(["drop", "double", "move", "value", "word", "indent"]))
        line = lines[at : at + 1]
        if what == "drop":
            lines[at : at + 1] = []
        elif what == "double":
            lines[at:at] = line
        elif what == "move":
            lines.insert(draw(st.integers(0, len(lines))), line[0] if line else "\n")
        elif what == "indent" and line:
            lines[at] = " " * draw(st.integers(1, 3)) + line[0]
        elif line:
            key, colon, _ = line[0].partition(":")
            word = draw(WORDS)
            start = draw(st.integers(0, len(line[0])))
            replaced = f"{key}{colon} {word}\n" if what == "value" else line[0][:start] + word
            lines[at] = replaced
    return "".join(lines)


def refused_in_one_line(read) -> None:
    """Either it can be read, or one line says why not."""
    refusal: CliquenetError | None = None
    try:
        read()
    except CliquenetError as error:
        refusal = error
    if refusal is not None:
        assert len(str(refusal).splitlines()) == 1
        assert refusal.status in (1, 2, 4)


FUZZ = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))


@FUZZ
@given(damaged(CONFIG))
def test_a_config_is_planned_or_refused(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "config.yaml")
        path.write_text(text)
        refused_in_one_line(lambda: plan_experiment(load_config(str(path), {})))


@FUZZ
@given(damaged(TOPOLOGY))
def test_a_topology_is_read_or_refused(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "topology.yaml")
        path.write_text(text)
        refused_in_one_line(lambda: load_topology(str(path)))


@FUZZ
@given(damaged(SCHEDULE))
def test_a_schedule_is_read_or_refused(text: str) -> None:
    nine = load_topology("nine-cities")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "schedule.yaml")
        path.write_text(text)
        refused_in_one_line(lambda: load_schedule(path, nine))


@pytest.mark.parametrize("read", [load_config, load_topology, load_schedule])
@FUZZ
@given(data=st.binary(max_size=200))
def test_bytes_that_are_no_text_are_refused(read, data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "file.yaml")
        path.write_bytes(data)
        more = {load_config: ({},), load_schedule: (load_topology("nine-cities"),)}.get(read, ())
        refused_in_one_line(lambda: read(str(path), *more))


def changed(draw: st.DrawFn, value: object) -> object:
    """A JSON value with one of its parts replaced by something else."""
    if isinstance(value, dict) and value and draw(st.integers(0, 4)):
        key = draw(st.sampled_from(sorted(value)))
        return {**value, key: changed(draw, value[key])}
    if isinstance(value, list) and value and draw(st.integers(0, 4)):
        at = draw(st.integers(0, len(value) - 1))
        return [*value[:at], changed(draw, value[at]), *value[at + 1 :]]
    strange = (None, True, -1, 0, 1e308, float("nan"), 10**40, "", "../x", [], {}, [[]], {"a": 1})
    return draw(st.sampled_from(strange))


@pytest.fixture(scope="module")
def plan_text() -> str:
    config = load_config(None, {"schedule": "triangles", "payload": "60MB", "rounds": "2"})
    return plan_experiment(config).model_dump_json()


@pytest.mark.parametrize("read", [read_plan, read_runtime, read_network, read_json])
@FUZZ
@given(data=st.data())
def test_a_plan_file_is_read_or_refused(plan_text: str, read, data: st.DataObject) -> None:
    value = json.loads(plan_text)
    for _ in range(data.draw(st.integers(1, 2))):
        value = changed(data.draw, value)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "plan.json")
        path.write_text(json.dumps(value))
        refused_in_one_line(lambda: read(path))
