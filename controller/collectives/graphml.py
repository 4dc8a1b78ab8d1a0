"""Topologies from GraphML, as the Internet Topology Zoo (Knight et al. 2011) publishes them.

Nodes are workers. An edge without direction is a link each way. ``LinkSpeedRaw`` is in bit/s;
latencies come from ``Latitude`` and ``Longitude``. What a file lacks is assumed, and said.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

import numpy as np

from controller.collectives.network import LinkSpec, Network, Node, make_network
from testbed.errors import InputError
from testbed.generate import fibre_delay_ms, great_circles_km

ASSUMED_GBPS = 10.0
ASSUMED_LATENCY_MS = 1.0

_MAX_BYTES = 50_000_000
_BYTES_PER_US_OF_BPS = 1 / 8e6


@dataclass
class _Part:
    """A node or an edge as it stands in the file."""

    line: int
    attributes: Mapping[str, str]
    data: dict[str, str] = field(default_factory=dict)


@dataclass
class _Reader:
    """Collects nodes and edges while expat goes through the file."""

    keys: dict[str, str] = field(default_factory=dict)
    nodes: list[_Part] = field(default_factory=list)
    edges: list[_Part] = field(default_factory=list)
    directed: bool = False
    root: str = ""
    _part: _Part | None = None
    _key: str | None = None

    def start(self, name: str, attributes: Mapping[str, str], line: int) -> None:
        name = name.rpartition(":")[2]
        self.root = self.root or name
        if name == "key":
            self.keys[attributes.get("id", "")] = attributes.get("attr.name", "")
        elif name == "graph":
            self.directed = attributes.get("edgedefault") == "directed"
        elif name in ("node", "edge"):
            self._part = _Part(line, dict(attributes))
            (self.nodes if name == "node" else self.edges).append(self._part)
        elif name == "data":
            self._key = self.keys.get(attributes.get("key", ""), "")

    def end(self, name: str) -> None:
        name = name.rpartition(":")[2]
        if name in ("node", "edge"):
            self._part = None
        elif name == "data":
            self._key = None

    def text(self, text: str) -> None:
        if self._part is not None and self._key:
            self._part.data[self._key] = self._part.data.get(self._key, "") + text


def read_graphml(path: Path) -> tuple[Network, tuple[str, ...]]:
    """Read a network from a GraphML file.

    Returns
    -------
    tuple
        The network, and what had to be assumed.

    Raises
    ------
    InputError
        The file cannot be read, is not GraphML, or describes no network: with the line.
    """
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise InputError(f"{path}: larger than {_MAX_BYTES // 1_000_000} MB")
        return parse_graphml(path.read_bytes(), str(path), path.stem)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error


def parse_graphml(text: bytes, where: str, name: str) -> tuple[Network, tuple[str, ...]]:
    """Read a network from the text of a GraphML file; see `read_graphml`.

    Parameters
    ----------
    text
        The file's.
    where
        What messages call the file.
    name
        The network's.
    """
    reader = _Reader()
    parser = expat.ParserCreate()
    parser.StartElementHandler = lambda tag, attributes: reader.start(
        tag, attributes, parser.CurrentLineNumber
    )
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        reason = expat.ErrorString(error.code)
        raise InputError(f"{where}:{error.lineno}: not XML: {reason}") from error
    if reader.root != "graphml":
        raise InputError(f"{where}:1: expected <graphml>, found <{reader.root}>")
    number = _numbers(reader, where)
    places = [_place(part, f"{where}:{part.line}") for part in reader.nodes]
    links, notes = _links(reader, where, number, places)
    return make_network(name, _nodes(reader), links), notes


def _numbers(reader: _Reader, where: str) -> dict[str, int]:
    number: dict[str, int] = {}
    for part in reader.nodes:
        key = part.attributes.get("id")
        if key is None or key in number:
            reason = "a node has no id" if key is None else f'node "{key}" appears twice'
            raise InputError(f"{where}:{part.line}: {reason}")
        number[key] = len(number)
    return number


def _nodes(reader: _Reader) -> list[Node]:
    labels = [p.data.get("label", "").strip() or p.attributes["id"] for p in reader.nodes]
    names = [
        label if labels.count(label) == 1 else f"{label} ({part.attributes['id']})"
        for label, part in zip(labels, reader.nodes, strict=True)
    ]
    return [Node(name) for name in names]


def _place(part: _Part, where: str) -> tuple[float, float] | None:
    if "Latitude" not in part.data or "Longitude" not in part.data:
        return None
    place = _number(part, "Latitude", where), _number(part, "Longitude", where)
    if not (-90 <= place[0] <= 90 and -360 <= place[1] <= 360):
        raise InputError(f"{where}: {place[0]:g}, {place[1]:g} is no place on earth")
    return place


def _links(
    reader: _Reader,
    where: str,
    number: Mapping[str, int],
    places: list[tuple[float, float] | None],
) -> tuple[list[LinkSpec], tuple[str, ...]]:
    links: list[LinkSpec] = []
    no_speed = no_place = 0
    for part in reader.edges:
        here = f"{where}:{part.line}"
        ends = [part.attributes.get(end, "") for end in ("source", "target")]
        for end in ends:
            if end not in number:
                raise InputError(f'{here}: edge: there is no node "{end}"')
        a, b = number[ends[0]], number[ends[1]]
        rate_bps = ASSUMED_GBPS * 1e9
        if "LinkSpeedRaw" in part.data:
            rate_bps = _number(part, "LinkSpeedRaw", here)
        else:
            no_speed += 1
        latency_ms, known = _latency_ms(places[a], places[b])
        no_place += not known
        link = LinkSpec(a, b, latency_ms * 1e3, rate_bps * _BYTES_PER_US_OF_BPS, here)
        links.append(link)
        if part.attributes.get("directed", str(reader.directed).lower()) != "true":
            links.append(LinkSpec(b, a, link.latency_us, link.bytes_per_us, here))
    notes = []
    if no_speed:
        notes.append(f"{no_speed} of {len(reader.edges)} links: {ASSUMED_GBPS:g} Gbit/s assumed")
    if no_place:
        notes.append(f"{no_place} of {len(reader.edges)} links: {ASSUMED_LATENCY_MS:g} ms assumed")
    return links, tuple(notes)


def _latency_ms(a: tuple[float, float] | None, b: tuple[float, float] | None) -> tuple[float, bool]:
    if a is None or b is None:
        return ASSUMED_LATENCY_MS, False
    return fibre_delay_ms(float(great_circles_km(np.array([a, b]))[0, 1])), True


def _number(part: _Part, key: str, where: str) -> float:
    try:
        return float(part.data[key])
    except ValueError as error:
        found = part.data[key].strip()[:40]
        raise InputError(f'{where}: {key}: "{found}" is not a number') from error
