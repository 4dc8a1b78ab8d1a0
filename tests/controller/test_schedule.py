"""Schedules: the four named ones, schedule files, and what is refused."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.schedule import NAMED, Schedule, latency_part_ms, load_schedule
from controller.tour import shortest_tour
from testbed.errors import InputError
from testbed.routing import route
from testbed.topology import City, Link, Topology, load_topology

NINE = load_topology("nine-cities")
REGIONS = (("nyc", "chi", "lax"), ("lon", "ams", "fra"), ("tyo", "sin", "hkg"))


def star(regions: list[str]) -> Topology:
    """Cities around the first one, at growing distance."""
    cities = tuple(
        City(code=f"c{i}", name="C", region=region, lat=0, lon=0)
        for i, region in enumerate(regions)
    )
    links = tuple(
        Link(a="c0", b=f"c{i}", delay_ms=i, delay_back_ms=i) for i in range(1, len(cities))
    )
    return Topology(name="star", cities=cities, links=links)


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "rounds.yaml"
    path.write_text(text)
    return path


def test_triangles_are_regions_then_one_city_of_each() -> None:
    schedule = load_schedule("triangles", NINE)
    cross = (("nyc", "fra", "tyo"), ("chi", "lon", "sin"), ("lax", "ams", "hkg"))
    assert schedule == Schedule("triangles", (REGIONS, cross))


def test_triangles_are_the_same_with_the_optional_direct_link() -> None:
    direct = Link(a="fra", b="tyo", delay_ms=99.28, delay_back_ms=99.28)
    topology = Topology(name="direct", cities=NINE.cities, links=(*NINE.links, direct))
    assert load_schedule("triangles", topology) == load_schedule("triangles", NINE)


def test_no_other_assignment_has_less_latency() -> None:
    delays_ms = route(NINE).delays_ms().tolist()
    cross = load_schedule("triangles", NINE).rounds[1]
    chosen = max(latency_part_ms(delays_ms, [NINE.index(c) for c in clique]) for clique in cross)
    # longest + middle − shortest of New York, Frankfurt, Tokyo: 104.88 + 68.89 − 37.795.
    assert chosen == pytest.approx(135.975)
    # New York has to meet some European and some Asian city.
    nyc = NINE.index("nyc")
    bound = min(
        latency_part_ms(delays_ms, (nyc, NINE.index(europe), NINE.index(asia)))
        for europe in REGIONS[1]
        for asia in REGIONS[2]
    )
    assert chosen == pytest.approx(bound)


def test_pairs_alternate_on_the_shortest_tour() -> None:
    schedule = load_schedule("pairs", NINE)
    assert schedule.rounds == (
        (("nyc", "chi"), ("lax", "tyo"), ("hkg", "sin"), ("fra", "ams")),
        (("chi", "lax"), ("tyo", "hkg"), ("sin", "fra"), ("ams", "lon")),
    )


def test_all_to_all_and_regional() -> None:
    assert load_schedule("all-to-all", NINE).rounds == ((NINE.codes,),)
    assert load_schedule("regional", NINE).rounds == (REGIONS,)


@pytest.mark.parametrize("name", NAMED)
def test_named_schedules_pass_their_own_check(name: str) -> None:
    load_schedule(name, NINE).check(NINE)
    two = star(["a", "a"])
    if name != "triangles":
        load_schedule(name, two).check(two)


def test_a_region_of_one_city_sits_the_regional_round_out() -> None:
    assert load_schedule("regional", star(["a", "a", "b"])).rounds == ((("c0", "c1"),),)
    with pytest.raises(InputError, match="region with two cities"):
        load_schedule("regional", star(["a", "b", "c"]))


def test_triangles_need_a_grid() -> None:
    with pytest.raises(InputError, match=r"same size.*found a 2, b 1"):
        load_schedule("triangles", star(["a", "a", "b"]))
    with pytest.raises(InputError, match=r"too many to try"):
        load_schedule("triangles", star([*"aaaaaaaa", *"bbbbbbbb"]))
    # Two regions of two: each city of the first with one of the second.
    schedule = load_schedule("triangles", star(["a", "a", "b", "b"]))
    assert schedule.rounds[1] == (("c0", "c3"), ("c1", "c2"))


def test_a_schedule_file(tmp_path: Path) -> None:
    path = write(tmp_path, "name: mine\nrounds: [[[nyc, chi, lax], [lon, ams]], [[lon, fra]]]\n")
    assert load_schedule(path, NINE) == Schedule(
        "mine", ((("nyc", "chi", "lax"), ("lon", "ams")), (("lon", "fra"),))
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name: x\nrounds:\n- - [nyc, chi]\n  - [lax, nyc]\n", [":4:", '"nyc" appears twice']),
        ("name: x\nrounds:\n- - [nyc, nyc]\n", [":3:", '"nyc" appears twice']),
        ("name: x\nrounds:\n- - [nyc, cho]\n", [":3:", '"cho"', 'did you mean "chi"?']),
        ("name: x\nrounds:\n- - [nyc]\n", [":3:", "two cities or more", "leave out"]),
        ("name: x\nrounds:\n- - []\n", [":3:", "two cities or more"]),
        ("name: x\nrounds:\n- []\n", [":3:", "round 0 has no clique"]),
        ("name: x\nrounds: []\n", [":2:", "one round or more"]),
        ("name: x\nrounds: nyc\n", [":2:", "expected a list"]),
        ("name: x\nrounds: [[nyc, chi]]\n", [":2:", "expected a list", '"nyc"']),
        ("name: x\nrounds: [[[nyc, no]]]\n", [":2:", "false", "quote it"]),
        ("name: x\nrounds: [[[nyc, 3]]]\n", [":2:", "code of a city", "3"]),
        ("name: x\nround: []\n", [":2:", 'did you mean "rounds"?']),
        ("rounds: [[[nyc, chi]]]\n", ['"name" is missing']),
        ("name: x\n", ['"rounds" is missing']),
        ("name: [x]\nrounds: [[[nyc, chi]]]\n", [":1:", "expected a text"]),
    ],
)
def test_a_wrong_schedule_file_is_refused(tmp_path: Path, text: str, words: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        load_schedule(write(tmp_path, text), NINE)
    for word in words:
        assert word in str(caught.value)


def test_unknown_schedules_get_the_nearest_name() -> None:
    with pytest.raises(InputError, match=r'"triangle"; did you mean "triangles"\?'):
        load_schedule("triangle", NINE)
    with pytest.raises(InputError, match=r"cannot read none/rounds\.yaml"):
        load_schedule("none/rounds.yaml", NINE)


@given(
    rounds=st.lists(
        st.lists(st.lists(st.sampled_from([*NINE.codes, "xyz", "3"]), max_size=4), max_size=3),
        max_size=3,
    )
)
def test_any_rounds_load_unchanged_or_are_refused(
    tmp_path_factory: pytest.TempPathFactory, rounds: list[list[list[str]]]
) -> None:
    path = write(tmp_path_factory.mktemp("fuzz"), f"name: x\nrounds: {rounds}\n")
    good = bool(rounds) and all(
        cliques
        and min(map(len, cliques)) > 1
        and len({c for clique in cliques for c in clique}) == sum(map(len, cliques))
        and {c for clique in cliques for c in clique} <= set(NINE.codes)
        for cliques in rounds
    )
    if good:
        wanted = tuple(tuple(tuple(clique) for clique in cliques) for cliques in rounds)
        assert load_schedule(path, NINE).rounds == wanted
    else:
        with pytest.raises(InputError):
            load_schedule(path, NINE)


def test_the_tour_of_the_nine_cities() -> None:
    delays_ms = route(NINE).delays_ms()
    tour = shortest_tour(delays_ms)
    assert [NINE.codes[city] for city in tour] == (
        ["nyc", "chi", "lax", "tyo", "hkg", "sin", "fra", "ams", "lon"]
    )
    # 8.26 + 19.065 + 49.36 + 22.29 + 17.605 + 72.625 + 2.855 + 2.815 + 32.125
    length = sum(delays_ms[a, b] for a, b in zip(tour, [*tour[1:], tour[0]], strict=True))
    assert length == pytest.approx(227.0)


@pytest.mark.parametrize("count", [2, 3, 4, 12, 13, 40])
def test_the_tour_around_a_circle_is_the_circle(count: int) -> None:
    order = np.random.default_rng(count).permutation(count)
    angle = 2 * np.pi * order / count
    points = np.column_stack([np.cos(angle), np.sin(angle)])
    distances = np.linalg.norm(points[:, None] - points[None, :], axis=2)
    tour = shortest_tour(distances)
    assert sorted(tour) == list(range(count))
    assert tour[0] == 0
    steps = {int(order[b] - order[a]) % count for a, b in itertools.pairwise(tour)}
    assert len(steps) == 1
    assert steps <= {1, count - 1}
