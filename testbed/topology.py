"""Cities and links: the frozen model of the network that is emulated, and its files."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from testbed.addressing import FIRST_LINK_PORT
from testbed.errors import InputError, suggestion
from testbed.yamlfile import Value, Where, YamlFile, read_yaml

MAX_ISLANDS = 64
"""The packets name their contributors in a bitmap of 64 bits."""

_BUILT_IN = Path(__file__).parent / "topologies"


class Frozen(BaseModel):
    """Base of every typed object that is read from a file: frozen, no unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class City(Frozen):
    """A site: one switch, one island host, one aggregator host."""

    code: str = Field(pattern=r"^[a-z][a-z0-9]{1,5}$")
    name: str
    region: str
    lat: float = Field(ge=-90, le=90)
    lon: float = Field(ge=-180, le=180)
    access_rate_gbps: float = Field(default=100.0, gt=0)


class Link(Frozen):
    """A wide-area link. Delays are one-way; ``delay_back_ms`` is b to a."""

    a: str
    b: str
    delay_ms: float = Field(ge=0)
    delay_back_ms: float = Field(ge=0)
    rate_gbps: float = Field(default=100.0, gt=0)
    source: str = ""


class Edge(Frozen):
    """One direction of one link. ``index`` is 2·link for a to b, 2·link + 1 for b to a."""

    index: int
    link: int
    src: str
    dst: str
    delay_ms: float
    rate_gbps: float


class Topology(Frozen):
    """Cities in index order and the links between them."""

    name: str
    cities: tuple[City, ...]
    links: tuple[Link, ...]
    source: str = ""

    @model_validator(mode="after")
    def _consistent(self) -> "Topology":
        for _, message in _faults(self.cities, self.links):
            raise ValueError(message)
        return self

    @cached_property
    def codes(self) -> tuple[str, ...]:
        """City codes in index order."""
        return tuple(city.code for city in self.cities)

    @cached_property
    def edges(self) -> tuple[Edge, ...]:
        """Both directions of every link; position equals `Edge.index`."""
        edges = []
        for i, link in enumerate(self.links):
            forward = (link.a, link.b, link.delay_ms)
            backward = (link.b, link.a, link.delay_back_ms)
            for way, (src, dst, delay_ms) in enumerate((forward, backward)):
                edges.append(
                    Edge(
                        index=2 * i + way,
                        link=i,
                        src=src,
                        dst=dst,
                        delay_ms=delay_ms,
                        rate_gbps=link.rate_gbps,
                    )
                )
        return tuple(edges)

    @property
    def fastest_access_gbps(self) -> float:
        """Rate of the fastest access link."""
        return max(city.access_rate_gbps for city in self.cities)

    def index(self, code: str) -> int:
        """Index of a city by its code."""
        return self.codes.index(code)

    def out_port(self, edge: int) -> int:
        """Port number, on the switch of ``edge.src``, that leads into this edge.

        Port 1 is the island, 2 the aggregator, 3 onwards the city's links in
        the order of the topology.
        """
        city = self.edges[edge].src
        touching = [i for i, link in enumerate(self.links) if city in (link.a, link.b)]
        return FIRST_LINK_PORT + touching.index(self.edges[edge].link)


def built_in_topologies() -> tuple[str, ...]:
    """Names of the topologies that come with the testbed."""
    return tuple(sorted(path.stem for path in _BUILT_IN.glob("*.yaml")))


def load_topology(name_or_path: str | Path) -> Topology:
    """Load a built-in topology by name, or one from a YAML file.

    Parameters
    ----------
    name_or_path
        A name of `built_in_topologies`, or a path: whatever ends in ``.yaml``
        or ``.yml``, or has a directory in it.

    Raises
    ------
    InputError
        No such topology, or a file that is wrong: it names the file, the line,
        and what to write instead.
    """
    text = str(name_or_path)
    if text in built_in_topologies():
        return _parse(read_yaml(_BUILT_IN / f"{text}.yaml"))
    path = Path(text)
    if path.suffix not in (".yaml", ".yml") and len(path.parts) < 2:
        hint = suggestion(text, built_in_topologies())
        raise InputError(f'unknown topology "{text}"; {hint} (a file must end in .yaml)')
    return _parse(read_yaml(path))


def _parse(file: YamlFile) -> Topology:
    """Build a topology from a file's values, with each error at its line."""
    top = file.mapping((), file.data, ("name", "source", "cities", "links"))
    for key in ("name", "cities", "links"):
        if key not in top:
            raise file.error((), f'key "{key}" is missing')
    name, source = top["name"], top.get("source", "")
    for key, value in (("name", name), ("source", source)):
        if not isinstance(value, str) or (key == "name" and not value):
            raise file.error((key,), f"{key}: expected a text")
    cities = tuple(
        _city(file, ("cities", i), value)
        for i, value in enumerate(file.sequence(("cities",), top["cities"]))
    )
    links = tuple(
        _link(file, ("links", i), value)
        for i, value in enumerate(file.sequence(("links",), top["links"]))
    )
    for where, message in _faults(cities, links):
        raise file.error(where, message)
    return Topology(name=str(name), source=str(source), cities=cities, links=links)


def _city(file: YamlFile, where: Where, value: Value) -> City:
    fields = file.mapping(where, value, City.model_fields)
    try:
        return City.model_validate(fields, strict=True)
    except ValidationError as error:
        what = f"city {fields.get('code', int(where[-1]) + 1)}"
        raise file.invalid(where, what, error) from error


def _link(file: YamlFile, where: Where, value: Value) -> Link:
    fields = file.mapping(where, value, Link.model_fields)
    if "delay_ms" in fields:
        fields = {"delay_back_ms": fields["delay_ms"], **fields}
    try:
        return Link.model_validate(fields, strict=True)
    except ValidationError as error:
        what = f"link {fields.get('a', '?')}–{fields.get('b', '?')}"
        raise file.invalid(where, what, error) from error


def _faults(cities: Sequence[City], links: Sequence[Link]) -> list[tuple[Where, str]]:
    """Find what is wrong between the parts: where, and one sentence each."""
    if not 2 <= len(cities) <= MAX_ISLANDS:
        text = f"a topology has 2 to {MAX_ISLANDS} cities, not {len(cities)}"
        bits = f": a packet has {MAX_ISLANDS} bits, one for each contributor"
        return [(("cities",), text + (bits if len(cities) > MAX_ISLANDS else ""))]
    faults: list[tuple[Where, str]] = []
    codes: set[str] = set()
    for i, city in enumerate(cities):
        if city.code in codes:
            faults.append((("cities", i), f'city "{city.code}" appears twice'))
        codes.add(city.code)
    for i, link in enumerate(links):
        for end in (link.a, link.b):
            if end not in codes:
                hint = suggestion(end, codes)
                text = f'link {link.a}–{link.b}: unknown city "{end}"; {hint}'
                faults.append((("links", i), text))
        if link.a == link.b:
            faults.append((("links", i), f"link {link.a}–{link.b} joins a city to itself"))
    if not faults:
        parts = _parts([city.code for city in cities], links)
        if len(parts) > 1:
            text = " | ".join(" ".join(part) for part in parts)
            faults.append((("links",), f"the cities are not all connected: {text}"))
    return faults


def _parts(codes: Sequence[str], links: Sequence[Link]) -> list[list[str]]:
    """Find the connected parts of the network, each in index order."""
    part_of = {code: i for i, code in enumerate(codes)}
    for link in links:
        old, new = part_of[link.a], part_of[link.b]
        part_of = {code: new if part == old else part for code, part in part_of.items()}
    parts: dict[int, list[str]] = {}
    for code in codes:
        parts.setdefault(part_of[code], []).append(code)
    return list(parts.values())
