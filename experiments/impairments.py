"""Lossy links of an experiment: as the config writes them, and as shapers take them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Literal

from pydantic import Field, model_validator

from experiments.fields import choice, real
from testbed.errors import InputError, suggestion
from testbed.impairment import Impairment, burst_thresholds, threshold
from testbed.topology import Frozen, Topology

DIRECTIONS = ("both", "forth", "back", "down", "up")
MAX_JITTER_US = 2_000_000.0
"""``netem`` holds half of it in 31 bits of nanoseconds."""
_ACCESS, _WAN, _ALL = "access", "wan", "all"
_NS_PER_US = 1000


class LinkImpairment(Frozen):
    """What some links do to packets, beside their rate and delay.

    Attributes
    ----------
    link
        ``nyc-chi``; ``access:nyc``, the link between a city's switch and its island;
        ``access``, ``wan``, ``all``: every one of these.
    direction
        Of a wide-area link, ``forth`` is from the city named first (for ``wan``: first
        in the topology), ``back`` the other way; of an access link, ``down`` is to the
        island, ``up`` from it; ``both``. Without it: ``down`` for access links, where
        the last hop loses, and ``both`` for the others.
    loss_percent
        Of packets.
    loss_burst
        Mean length of a run of lost packets; without it losses are independent.
    duplicate_percent
        Of packets, which then arrive twice, one right behind the other.
    reorder_percent
        Of packets, which overtake all that wait or are on their way; more than a real
        link can do to them, as they take no time at all.
    jitter_us
        The most that a packet is late; it does not overtake.
    """

    link: str
    direction: (
        Annotated[Literal["both", "forth", "back", "down", "up"], choice(*DIRECTIONS)] | None
    ) = None
    loss_percent: Annotated[float, real(0, 100)] = 0.0
    loss_burst: Annotated[float, real(1, 1e6)] | None = None
    duplicate_percent: Annotated[float, real(0, 100)] = 0.0
    reorder_percent: Annotated[float, real(0, 100)] = 0.0
    jitter_us: Annotated[float, real(0, MAX_JITTER_US)] = Field(0.0)

    @model_validator(mode="after")
    def _possible(self) -> "LinkImpairment":
        if self.loss_burst is not None and not self.loss_percent:
            raise ValueError("loss_burst means nothing without loss_percent")
        try:
            self.thresholds()
        except InputError as error:
            raise ValueError(str(error)) from error
        return self

    def thresholds(self) -> Impairment:
        """The kernel's numbers.

        Raises
        ------
        InputError
            So much loss cannot come in such short runs.
        """
        burst = self.loss_burst
        chain = (0, 0) if burst is None else burst_thresholds(self.loss_percent, burst)
        return Impairment(
            loss=threshold(self.loss_percent) if burst is None else 0,
            duplicate=threshold(self.duplicate_percent),
            reorder=threshold(self.reorder_percent),
            enter_burst=chain[0],
            leave_burst=chain[1],
            jitter_ns=2 * round(self.jitter_us * _NS_PER_US / 2),
        )


def resolve(entries: Iterable[LinkImpairment], topology: Topology) -> dict[str, Impairment]:
    """Impairment of each impaired direction, by its name, such as ``nyc→chi``.

    Raises
    ------
    InputError
        A link that the topology does not have, a direction that a link does not have,
        or one that two entries name.
    """
    found: dict[str, Impairment] = {}
    for entry in entries:
        for name in directions(entry.link, entry.direction, topology):
            if name in found:
                raise InputError(f'link "{entry.link}": {name} is impaired twice')
            found[name] = entry.thresholds()
    return {name: impairment for name, impairment in found.items() if impairment != Impairment()}


def uplinks(names: Iterable[str]) -> bool:
    """Whether an island's own sending side is among the directions."""
    return any(name.startswith("island→") for name in names)


def directions(link: str, way: str | None, topology: Topology) -> Iterator[str]:
    """Names of the directions that a link's name and one of `DIRECTIONS` stand for.

    Raises
    ------
    InputError
        A link that the topology does not have, a direction that a link does not have.
    """
    codes, links = _members(link, topology)
    if (way in ("down", "up") and links) or (way in ("forth", "back") and codes):
        valid = "down, up, both" if not links else "forth, back, both" if not codes else "both"
        raise InputError(f'link "{link}" has no direction "{way}"; valid: {valid}')
    for a, b in links:
        if way != "back":
            yield f"{a}→{b}"
        if way != "forth":
            yield f"{b}→{a}"
    for code in codes:
        if way != "up":
            yield f"{code}→island"
        if way in ("up", "both"):
            yield f"island→{code}"


def _members(name: str, topology: Topology) -> tuple[Sequence[str], Sequence[tuple[str, str]]]:
    """Cities whose access links, and ends of the wide-area links, that a name stands for."""
    codes = topology.codes
    wan = [(link.a, link.b) for link in topology.links]
    groups = {_ACCESS: (codes, ()), _WAN: ((), wan), _ALL: (codes, wan)}
    if name in groups:
        return groups[name]
    kind, colon, code = name.partition(":")
    if kind == _ACCESS and colon:
        if code not in codes:
            raise InputError(f'link "{name}": no city "{code}": {suggestion(code, codes)}')
        return (code,), ()
    ends = tuple(name.split("-"))
    if ends in wan or ends[::-1] in wan:
        return (), [(ends[0], ends[1])]
    valid = [*groups, *(f"{_ACCESS}:{c}" for c in codes), *(f"{a}-{b}" for a, b in wan)]
    raise InputError(f'no link "{name}" in the topology: {suggestion(name, valid)}')
