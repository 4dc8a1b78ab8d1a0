"""Faults at given times: read from the config, compared with the network, refused in one line."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.faults import Restart, check_faults
from experiments.sources import load_config
from testbed.errors import InputError
from testbed.topology import load_topology

NINE = load_topology("nine-cities")
GOOD = "{at_ms: 300, event: aggregator-restart, city: nyc}"


def config(tmp_path: Path, text: str):
    path = tmp_path / "own.yaml"
    path.write_text(text)
    return load_config(str(path), {})


def test_a_fault_with_its_defaults_and_units(tmp_path: Path) -> None:
    text = "events:\n  - {at_ms: 0.3s, event: island-restart, city: chi, signal: term}\n"
    (fault,) = config(tmp_path, text).events
    assert fault == Restart(
        at_ms=300.0, event="island-restart", city="chi", down_ms=0.0, signal="term"
    )
    assert fault.role == "island"


def test_a_text_of_the_command_line_is_a_list_as_well() -> None:
    (fault,) = load_config(None, {"events": f"[{GOOD}]"}).events
    assert (fault.role, fault.at_ms, fault.signal) == ("aggregator", 300.0, "kill")


@pytest.mark.parametrize(
    ("spoilt", "message"),
    [
        (("aggregator-restart", "agregator-restart"), 'did you mean "aggregator-restart"'),
        (("event: aggregator-restart, ", ""), '"event" is missing'),
        (("at_ms: 300, ", ""), "entry 1: at_ms: is missing"),
        (("at_ms: 300", "at_ms: -1"), 'entry 1: at_ms: "-1" is negative'),
        (("city: nyc", "city: nyx"), 'no city "nyx" in the topology: did you mean "nyc"'),
        (("city: nyc", "city: nyc, down: 3"), 'unknown key "down": did you mean "down_ms"'),
        (("city: nyc", "city: nyc, signal: stop"), 'signal: "stop" is not valid: valid: kill, ter'),
    ],
)
def test_a_fault_that_makes_no_sense_is_refused_with_its_place(
    tmp_path: Path, spoilt: tuple[str, str], message: str
) -> None:
    with pytest.raises(InputError) as caught:
        config(tmp_path, f"rounds: 2\nevents:\n  - {GOOD.replace(*spoilt)}\n")
    text = str(caught.value)
    assert message in text
    assert text.startswith(f"{tmp_path}/own.yaml:")
    assert "events" in text


def test_there_is_no_aggregator_to_restart_without_aggregation() -> None:
    fault = Restart(at_ms=1, event="aggregator-restart", city="nyc")
    check_faults([fault], NINE, aggregation=True)
    with pytest.raises(InputError, match="no aggregator with aggregation off"):
        check_faults([fault], NINE, aggregation=False)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["at_ms", "event", "city", "x"]), inner, max_size=3)
        ),
        max_leaves=6,
    )
)
def test_whatever_stands_there_is_one_line(value: object) -> None:
    assert all(refusal(key, value).startswith(key.upper()) for key in ("events", "impairments"))


def refusal(key: str, value: object) -> str:
    """What is said of a value; the key alone if it is taken."""
    try:
        load_config(None, {key: value})
    except InputError as error:
        return str(error)
    return key.upper()
