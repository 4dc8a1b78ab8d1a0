"""Lossy links as a config names them: which directions, which numbers, which refusals."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from experiments.impairments import LinkImpairment, resolve, uplinks
from testbed.errors import InputError
from testbed.impairment import Impairment, threshold
from testbed.topology import City, Link, Topology, load_topology

NINE = load_topology("nine-cities")
CODES = ("aaa", "bbb", "ccc")
PAIRS = (("aaa", "bbb"), ("bbb", "ccc"))
LINE = Topology(
    name="line",
    cities=tuple(City(code=c, name=c, region="test", lat=0, lon=0) for c in CODES),
    links=tuple(Link(a=a, b=b, delay_ms=1, delay_back_ms=1) for a, b in PAIRS),
)
DOWN = {f"{code}→island" for code in CODES}
UP = {f"island→{code}" for code in CODES}
FORTH = {"aaa→bbb", "bbb→ccc"}
BACK = {"bbb→aaa", "ccc→bbb"}


def named(link: str, direction: str | None = None) -> set[str]:
    entry = LinkImpairment(link=link, direction=direction, loss_percent=1)
    return set(resolve([entry], LINE))


@pytest.mark.parametrize(
    ("link", "direction", "expected"),
    [
        ("access", None, DOWN),
        ("access", "down", DOWN),
        ("access", "up", UP),
        ("access", "both", DOWN | UP),
        ("access:bbb", None, {"bbb→island"}),
        ("access:bbb", "up", {"island→bbb"}),
        ("wan", None, FORTH | BACK),
        ("wan", "forth", FORTH),
        ("wan", "back", BACK),
        ("aaa-bbb", None, {"aaa→bbb", "bbb→aaa"}),
        ("bbb-aaa", "forth", {"bbb→aaa"}),
        ("bbb-aaa", "back", {"aaa→bbb"}),
        ("all", None, FORTH | BACK | DOWN),
        ("all", "both", FORTH | BACK | DOWN | UP),
    ],
)
def test_a_name_stands_for_these_directions(link, direction, expected) -> None:
    assert named(link, direction) == expected


@pytest.mark.parametrize(
    ("link", "direction", "message"),
    [
        ("nyc-chj", None, 'no link "nyc-chj" in the topology: did you mean "nyc-chi"'),
        ("nyc", None, 'no link "nyc" in the topology'),
        ("access:nyx", None, 'link "access:nyx": no city "nyx": did you mean "nyc"'),
        ("acces", None, 'did you mean "access"'),
        ("access", "forth", 'link "access" has no direction "forth"; valid: down, up, both'),
        ("nyc-chi", "up", 'link "nyc-chi" has no direction "up"; valid: forth, back, both'),
        ("all", "down", 'link "all" has no direction "down"; valid: both'),
    ],
)
def test_a_link_that_is_not_there_is_refused(link, direction, message) -> None:
    entry = LinkImpairment(link=link, direction=direction, loss_percent=1)
    with pytest.raises(InputError) as caught:
        resolve([entry], NINE)
    assert message in str(caught.value)


def test_no_direction_is_impaired_twice() -> None:
    entries = [LinkImpairment(link=link, loss_percent=1) for link in ("access", "access:nyc")]
    with pytest.raises(InputError, match='link "access:nyc": nyc→island is impaired twice'):
        resolve(entries, NINE)


def test_percent_and_microseconds_become_the_numbers_of_the_kernel() -> None:
    entry = LinkImpairment(
        link="access:nyc", loss_percent=1, duplicate_percent=2, reorder_percent=3, jitter_us=100
    )
    assert resolve([entry], NINE) == {
        "nyc→island": Impairment(
            loss=threshold(1), duplicate=threshold(2), reorder=threshold(3), jitter_ns=100_000
        )
    }


def test_losses_in_runs_are_a_chain() -> None:
    entry = LinkImpairment(link="access:nyc", loss_percent=1, loss_burst=10)
    (found,) = resolve([entry], NINE).values()
    assert found.loss == 0
    assert found.loss_share == pytest.approx(0.01)
    assert found.mean_burst == pytest.approx(10)


def test_an_entry_without_faults_impairs_nothing() -> None:
    assert resolve([LinkImpairment(link="all")], NINE) == {}


def test_runs_that_are_too_short_for_the_loss_are_refused() -> None:
    with pytest.raises(ValidationError, match=r"use runs of 1\.5 or more"):
        LinkImpairment(link="access", loss_percent=60, loss_burst=1)


@given(st.text(max_size=12), st.sampled_from([None, "both", "forth", "back", "down", "up"]))
def test_any_name_is_resolved_or_refused_in_one_line(link: str, direction: str | None) -> None:
    entry = LinkImpairment(link=link, direction=direction, loss_percent=1)
    assert outcome(entry).startswith(("{'", "no link", "link"))


def outcome(entry: LinkImpairment) -> str:
    """The directions, or the refusal."""
    try:
        return str(resolve([entry], NINE))
    except InputError as error:
        return str(error)


def test_only_an_islands_own_sending_side_is_an_uplink() -> None:
    assert uplinks(["nyc→chi", "island→nyc"])
    assert not uplinks(["nyc→chi", "nyc→island"])
