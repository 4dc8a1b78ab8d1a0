"""Faults that a config asks for at given times; what happens is told in the results.

A kind of fault is a class here, with its name in `FAULTS`, and a handler in
`experiments.faultplay`.
"""

import math
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, Field, model_validator

from experiments.fields import choice, real, units
from experiments.impairments import DIRECTIONS, directions
from experiments.units import parse_time_ms
from testbed.topology import Frozen, Topology

Time = Annotated[float, units(parse_time_ms)]
Role = Literal["island", "aggregator"]
OnLinkDown = Literal["reroute", "ignore"]
"""Whether the controller leads trees around links that are down."""
OnFault = Literal["continue", "fail"]
"""Whether a run with rounds that an event spoilt is degraded, or has failed."""
Direction = Annotated[Literal["both", "forth", "back", "down", "up"], choice(*DIRECTIONS)]


class _Timed(Frozen):
    """What all faults have.

    Attributes
    ----------
    at_ms
        After the start of round 0, emulated.
    """

    at_ms: Time


class _OfCity(_Timed):
    """What happens in a city.

    Attributes
    ----------
    city
        Its code.
    """

    city: str

    @property
    def target(self) -> str:
        """What it happens to."""
        return self.city


class Restart(_OfCity):
    """An agent ends, and starts again after a while.

    Attributes
    ----------
    down_ms
        From its end to its new start.
    signal
        ``kill``: it ends there and then, and what it had only in memory is lost;
        ``term``: an aggregator lets what it holds leave first, an island writes down what
        it counted.
    """

    event: Literal["aggregator-restart", "island-restart"]
    down_ms: Time = 0.0
    signal: Annotated[Literal["kill", "term"], choice("kill", "term")] = "kill"

    @property
    def role(self) -> Role:
        """Which of the city's agents."""
        return "aggregator" if self.event == "aggregator-restart" else "island"


class LinkCut(_Timed):
    """A wide-area link goes down, both ways, until it comes up or the rounds are over.

    Attributes
    ----------
    link
        Such as ``nyc-chi``.
    """

    event: Literal["link-down", "link-up"]
    link: str

    @property
    def target(self) -> str:
        """What it happens to."""
        return self.link

    def directions(self, topology: Topology) -> tuple[str, ...]:
        """Names of both directions."""
        return tuple(directions(self.link, "both", topology))


class _Directed(_Timed):
    """What happens to some directions of links.

    Attributes
    ----------
    link, direction
        As in an impairment.
    """

    link: str
    direction: Direction | None = None

    @property
    def target(self) -> str:
        """What it happens to."""
        return self.link

    def directions(self, topology: Topology) -> tuple[str, ...]:
        """Names of the directions."""
        return tuple(directions(self.link, self.direction, topology))


class LinkChange(_Directed):
    """Links get another rate or delay, until they get another one or the rounds are over.

    Attributes
    ----------
    rate_gbps, delay_ms
        From then on; what is left out stays.
    """

    event: Literal["link-change"]
    rate_gbps: Annotated[float, real(1e-6, 1e6)] | None = None
    delay_ms: Time | None = None

    @model_validator(mode="after")
    def _changes(self) -> "LinkChange":
        if self.rate_gbps is None and self.delay_ms is None:
            raise ValueError("nothing changes: write rate_gbps, delay_ms or both")
        return self


class LossBurst(_Directed):
    """Links lose packets for a while.

    Attributes
    ----------
    loss_percent
        Of packets, each by itself.
    for_ms
        How long.
    """

    event: Literal["loss-burst"]
    loss_percent: Annotated[float, real(0, 100)]
    for_ms: Time


class Straggle(_OfCity):
    """An island sends slower for a while; what is late then follows at the usual pace.

    Attributes
    ----------
    for_ms
        How long.
    factor
        So many times slower; without it nothing is sent.
    """

    event: Literal["straggle"]
    for_ms: Time
    factor: Annotated[float, real(1, 1e6)] | None = None


class Crash(_OfCity):
    """An island is killed, and does not come back."""

    event: Literal["island-crash"]


class ControllerRestart(_Timed):
    """The controller is killed, and started again after a while.

    Attributes
    ----------
    down_ms
        From its end to its new start. Switches try to connect once a second.
    """

    event: Literal["controller-restart"]
    down_ms: Time = 0.0

    @property
    def target(self) -> str:
        """What it happens to: there is only one."""
        return ""


class SwitchReconnect(_OfCity):
    """A switch loses its controller, and connects again after a while; its flows stay.

    Attributes
    ----------
    down_ms
        How long it has none.
    """

    event: Literal["switch-reconnect"]
    down_ms: Time = 0.0


Fault: TypeAlias = Annotated[
    Restart
    | LinkCut
    | LinkChange
    | LossBurst
    | Straggle
    | Crash
    | ControllerRestart
    | SwitchReconnect,
    Field(discriminator="event"),
]
FAULTS: Mapping[str, type[BaseModel]] = MappingProxyType(
    {
        "aggregator-restart": Restart,
        "island-restart": Restart,
        "link-down": LinkCut,
        "link-up": LinkCut,
        "link-change": LinkChange,
        "loss-burst": LossBurst,
        "straggle": Straggle,
        "island-crash": Crash,
        "controller-restart": ControllerRestart,
        "switch-reconnect": SwitchReconnect,
    }
)
"""Every kind of fault, by the word under ``event``."""


def changes_links(faults: Iterable[Fault]) -> bool:
    """Whether any of the faults happens to links."""
    return any(isinstance(fault, LinkCut | LinkChange | LossBurst) for fault in faults)


def hits_control(faults: Iterable[Fault]) -> bool:
    """Whether any of the faults may keep rules from being in time."""
    return any(isinstance(fault, ControllerRestart | SwitchReconnect) for fault in faults)


def straggles(faults: Iterable[Fault], city: str) -> tuple[tuple[float, float, float], ...]:
    """When and by how much a city's island is slow: begin and end in ms, and the factor."""
    mine = (fault for fault in faults if isinstance(fault, Straggle) and fault.city == city)
    slow = ((f.at_ms, f.at_ms + f.for_ms, math.inf if f.factor is None else f.factor) for f in mine)
    return tuple(sorted(slow))


def disturbed(faults: Iterable[Fault], topology: Topology) -> tuple[str, ...]:
    """Directions that are to lose packets for a while."""
    bursts = (fault for fault in faults if isinstance(fault, LossBurst))
    return tuple(name for burst in bursts for name in burst.directions(topology))
