"""Topology files: what is read, and what is refused with which words."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from testbed.errors import InputError
from testbed.topology import City, Link, Topology, built_in_topologies, load_topology

CITIES = """\
name: two
cities:
  - {code: aaa, name: A, region: r, lat: 0, lon: 0}
  - {code: bbb, name: B, region: r, lat: 1, lon: 1}
links:
"""
LINK = "  - {a: aaa, b: bbb, delay_ms: 5}\n"


def load(tmp_path: Path, text: str) -> Topology:
    path = tmp_path / "net.yaml"
    path.write_text(text)
    return load_topology(path)


def test_nine_cities_are_the_published_ones() -> None:
    topology = load_topology("nine-cities")
    assert topology.codes == ("nyc", "chi", "lax", "lon", "ams", "fra", "tyo", "sin", "hkg")
    assert [city.region for city in topology.cities] == (
        ["north-america"] * 3 + ["europe"] * 3 + ["asia"] * 3
    )
    assert len(topology.links) == 13
    assert len(topology.edges) == 26
    # DoubleZero mainnet link table, epoch 149, p95 RTT / 2.
    delays = {(link.a, link.b): link.delay_ms for link in topology.links}
    assert delays["nyc", "chi"] == pytest.approx(16.52 / 2)
    assert delays["nyc", "lon"] == pytest.approx(64.25 / 2)
    assert delays["chi", "tyo"] == pytest.approx((39.03 + 82.23) / 2)
    assert delays["fra", "sin"] == pytest.approx((13.34 + 131.91) / 2)
    for link in topology.links:
        assert link.delay_back_ms == link.delay_ms
        assert link.rate_gbps == 100
        assert "RTT" in link.source


def test_built_in_names_and_paths_load_alike() -> None:
    assert "nine-cities" in built_in_topologies()
    path = Path("testbed/topologies/nine-cities.yaml").resolve()
    assert load_topology(path) == load_topology("nine-cities")


def test_links_may_differ_by_direction(tmp_path: Path) -> None:
    text = CITIES + "  - {a: aaa, b: bbb, delay_ms: 5, delay_back_ms: 7.5, rate_gbps: 10}\n"
    topology = load(tmp_path, text)
    there, back = topology.edges
    assert (there.src, there.dst, there.delay_ms) == ("aaa", "bbb", 5)
    assert (back.src, back.dst, back.delay_ms) == ("bbb", "aaa", 7.5)
    assert there.rate_gbps == back.rate_gbps == 10


def test_parallel_links_are_kept_apart(tmp_path: Path) -> None:
    topology = load(tmp_path, CITIES + LINK + LINK)
    assert [topology.out_port(edge) for edge in range(4)] == [3, 3, 4, 4]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (CITIES + LINK + "extra: 1\n", ["net.yaml:7:", 'unknown key "extra"']),
        (CITIES + LINK + "link: []\n", ["net.yaml:7:", 'did you mean "links"?']),
        (CITIES + LINK + "name: again\n", ["net.yaml:7:", '"name" appears twice']),
        (
            CITIES + "  - {a: aaa, b: bbb, delay: 5}\n",
            ["net.yaml:6:", 'unknown key "delay"', 'did you mean "delay_ms"?'],
        ),
        (
            CITIES + "  - {a: aaa, b: bbc, delay_ms: 5}\n",
            ["net.yaml:6:", "aaa–bbc", 'unknown city "bbc"', 'did you mean "bbb"?'],
        ),
        (CITIES + LINK.replace("bbb", "aaa"), ["net.yaml:6:", "joins a city to itself"]),
        (CITIES + LINK.replace("5", "-5"), ["net.yaml:6:", "aaa–bbb", "delay_ms", "-5"]),
        (CITIES + LINK.replace("5", ".nan"), ["net.yaml:6:", "delay_ms", "nan"]),
        (CITIES + LINK.replace("5", ".inf"), ["net.yaml:6:", "delay_ms", "inf"]),
        (CITIES + LINK.replace("5", "true"), ["net.yaml:6:", "delay_ms", "true"]),
        (CITIES + LINK.replace("5", "5 ms"), ["net.yaml:6:", "delay_ms", '"5 ms"']),
        (CITIES + LINK.replace("5", "5, rate_gbps: 0"), ["net.yaml:6:", "rate_gbps", "found 0"]),
        (CITIES + "  - {a: aaa, b: bbb}\n", ["net.yaml:6:", '"delay_ms" is missing']),
        (CITIES + "  - aaa\n", ["net.yaml:6:", "expected keys", '"aaa"']),
        (CITIES, ["net.yaml:5:", "expected a list", "nothing"]),
        (CITIES + "  []\n", ["not all connected", "aaa | bbb"]),
        (CITIES.replace("bbb", "aaa") + LINK, ["net.yaml:4:", '"aaa" appears twice']),
        (CITIES.replace("bbb", "no") + LINK, ["net.yaml:4:", "code", "quote it"]),
        (CITIES.replace("bbb", "B-1") + LINK, ["net.yaml:4:", "code", '"B-1"']),
        (CITIES.replace("lat: 1", "lat: 91") + LINK, ["net.yaml:4:", "lat", "91"]),
        (CITIES.replace("name: two", "name: 2") + LINK, ["net.yaml:1:", "name"]),
        ("name: x\ncities: []\nlinks: []\n", ["net.yaml:2:", "2 to 64 cities, not 0"]),
        ("cities: []\nlinks: []\n", ['"name" is missing']),
        ("", ["expected keys", "nothing"]),
        ("[1, 2", ["net.yaml:1:"]),
        ("a: &x 1\nb: *x\n", ["net.yaml:1:", "aliases"]),
        ("a: !!python/object:os.system 1\n", ["net.yaml:1:", "not supported"]),
        ("? [1, 2]\n: 3\n", ["net.yaml:1:", "a key must be a name"]),
        ("[" * 2000, ["nested too deeply"]),
        ("a: 0x1G\nb: 1:30\n", ["net.yaml:2:", "1:30", "decimal"]),
    ],
)
def test_a_wrong_file_is_refused_at_its_line(tmp_path: Path, text: str, words: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        load(tmp_path, text)
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message


def test_more_islands_than_bits_are_refused(tmp_path: Path) -> None:
    cities = "".join(f"  - {{code: c{i}, name: C, region: r, lat: 0, lon: 0}}\n" for i in range(65))
    links = "".join(f"  - {{a: c{i}, b: c{i + 1}, delay_ms: 1}}\n" for i in range(64))
    with pytest.raises(InputError, match="2 to 64 cities, not 65: a packet has 64 bits"):
        load(tmp_path, f"name: many\ncities:\n{cities}links:\n{links}")


def test_unknown_names_get_the_nearest_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r'did you mean "nine-cities"'):
        load_topology("nine-citys")
    with pytest.raises(InputError, match=r"cannot read .*missing\.yaml"):
        load_topology(tmp_path / "missing.yaml")
    with pytest.raises(InputError, match="cannot read"):
        load_topology(tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"name: \xff\xfe")
    with pytest.raises(InputError, match="UTF-8"):
        load_topology(tmp_path / "latin.yaml")


def test_exponents_are_numbers(tmp_path: Path) -> None:
    topology = load(tmp_path, CITIES + LINK.replace("5", "5e-1, rate_gbps: 1e2"))
    assert topology.links[0].delay_ms == 0.5
    assert topology.links[0].rate_gbps == 100


def test_a_topology_made_in_code_is_checked_too() -> None:
    cities = tuple(
        City(code=code, name=code, region="r", lat=0, lon=0) for code in ("aaa", "bbb", "ccc")
    )
    link = Link(a="aaa", b="bbb", delay_ms=1, delay_back_ms=1)
    with pytest.raises(ValidationError, match=r"not all connected: aaa bbb \| ccc"):
        Topology(name="x", cities=cities, links=(link,))


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 10**20),
    st.floats(),
    st.sampled_from(["aaa", "bbb", "r", "1e999", "2001-99-99", "0o9", "1_0", ".inf", "=", "<<"]),
    st.text(max_size=8),
)
KEYS = st.sampled_from(
    ["name", "cities", "links", "source", "code", "region", "lat", "lon", "a", "b", "delay_ms"]
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5)
)


def write_yaml(value: object) -> str:
    """Flow style by hand: PyYAML would quote away the odd cases."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {write_yaml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(write_yaml(item) for item in value) + "]"
    return str(value)


@given(value=st.dictionaries(KEYS, VALUES, max_size=5))
def test_any_structure_loads_or_is_refused(
    tmp_path_factory: pytest.TempPathFactory, value: dict[str, object]
) -> None:
    text = write_yaml(value)
    path = tmp_path_factory.mktemp("fuzz") / "net.yaml"
    path.write_text(text, encoding="utf-8", errors="replace")
    with pytest.raises(InputError):  # a random structure is never a whole topology
        load_topology(path)


@given(
    position=st.integers(0, 3500),
    length=st.integers(0, 40),
    patch=st.text(max_size=10)
    | st.sampled_from(["- ", "{", ": ", "\n", "*a", "!!int ", "'", "-1"]),
)
def test_a_damaged_file_loads_or_is_refused(
    tmp_path_factory: pytest.TempPathFactory, position: int, length: int, patch: str
) -> None:
    whole = Path("testbed/topologies/nine-cities.yaml").read_text()
    path = tmp_path_factory.mktemp("fuzz") / "net.yaml"
    damaged = whole[:position] + patch + whole[position + length :]
    path.write_text(damaged, encoding="utf-8", errors="replace")
    outcome = load_or_message(path)
    if isinstance(outcome, Topology):
        assert len(outcome.edges) == 2 * len(outcome.links)
    else:
        assert outcome.startswith(str(path))
        assert "\n" not in outcome


def load_or_message(path: Path) -> Topology | str:
    """Only an `InputError` is an answer; any other exception fails the test."""
    try:
        return load_topology(path)
    except InputError as error:
        return str(error)
