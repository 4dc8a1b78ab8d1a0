"""Faults at given times: read from the config, compared with the network, refused in one line."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.faultchecks import check_faults
from experiments.faults import LinkChange, LinkCut, LossBurst, Restart
from experiments.planning import plan_experiment
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


def test_faults_of_links_are_told_apart_by_their_event(tmp_path: Path) -> None:
    down, change, burst = config(
        tmp_path,
        "events:\n"
        "  - {at_ms: 1, event: link-down, link: chi-nyc}\n"
        "  - {at_ms: 2, event: link-change, link: nyc-lon, delay_ms: 40ms}\n"
        "  - {at_ms: 3, event: loss-burst, link: 'access:tyo', loss_percent: 5, for_ms: 2}\n",
    ).events
    assert down == LinkCut(at_ms=1, event="link-down", link="chi-nyc")
    assert set(down.directions(NINE)) == {"nyc→chi", "chi→nyc"}
    assert (change.delay_ms, change.rate_gbps) == (40.0, None)
    assert burst.directions(NINE) == ("tyo→island",)


@pytest.mark.parametrize(
    ("events", "message"),
    [
        (
            "{at_ms: 1, event: link-down, link: nyc-tko}",
            'link-down: no link "nyc-tko" in the topology',
        ),
        ("{at_ms: 1, event: link-down, link: wan}", '"wan" is not one link between two cities'),
        ("{at_ms: 1, event: link-down, link: 'access:nyc'}", "is not one link between two cities"),
        ("{at_ms: 1, event: link-up, link: nyc-chi}", "nyc-chi is up already at 1 ms"),
        (
            "{at_ms: 1, event: link-down, link: nyc-chi}, "
            "{at_ms: 2, event: link-down, link: chi-nyc}",
            "chi-nyc is down already at 2 ms",
        ),
        ("{at_ms: 1, event: link-change, link: wan}", "entry 1: nothing changes"),
        ("{at_ms: 1, event: link-change, link: wan, rate_gbps: -1}", "entry 1: rate_gbps:"),
        (
            "{at_ms: 1, event: loss-burst, link: wan, loss_percent: 1, for_ms: 5}, "
            "{at_ms: 4, event: loss-burst, link: nyc-chi, loss_percent: 1, for_ms: 5}",
            "nyc→chi has two at 4 ms",
        ),
    ],
)
def test_faults_of_links_that_make_no_sense_are_refused(events: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        load_config(None, {"events": f"[{events}]"})
    assert message in str(caught.value)
    assert str(caught.value).startswith("EVENTS")


CUTS = st.builds(
    LinkCut,
    at_ms=st.integers(0, 9),
    event=st.sampled_from(["link-down", "link-up"]),
    link=st.sampled_from(["nyc-chi", "chi-nyc", "nyc-lon"]),
)


@given(st.lists(CUTS, max_size=5))
def test_links_go_down_and_up_in_turns(cuts: list[LinkCut]) -> None:
    down: set[frozenset[str]] = set()
    sound = True
    for cut in sorted(cuts, key=lambda cut: cut.at_ms):
        link = frozenset(cut.link.split("-"))
        sound &= (link in down) == (cut.event == "link-up")
        down ^= {link}
    try:
        check_faults(cuts, NINE, aggregation=True)
    except InputError:
        assert not sound
    else:
        assert sound


def test_two_bursts_of_losses_may_follow_each_other() -> None:
    bursts = [
        LossBurst(at_ms=at, event="loss-burst", link="nyc-chi", loss_percent=3, for_ms=5)
        for at in (5, 0)
    ]
    check_faults(bursts, NINE, aggregation=True)


def test_a_rate_that_leaves_nothing_at_this_scale_is_refused() -> None:
    change = LinkChange(at_ms=1, event="link-change", link="nyc-chi", rate_gbps=1e-4)
    config = load_config(None, {"events": [change], "trees": "shortest-path"})
    with pytest.raises(InputError, match="choose a smaller scale"):
        plan_experiment(config)


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
