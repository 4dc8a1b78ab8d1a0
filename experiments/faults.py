"""Faults that a config asks for at given times; what happens is told in the results.

A kind of fault is a class here, with its name in `FAULTS`, and a handler in
`experiments.faultplay`.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel

from experiments.fields import choice, units
from experiments.units import parse_time_ms
from testbed.errors import InputError, suggestion
from testbed.topology import Frozen, Topology

Time = Annotated[float, units(parse_time_ms)]
Role = Literal["island", "aggregator"]


class Restart(Frozen):
    """An agent ends, and starts again after a while.

    Attributes
    ----------
    at_ms
        After the start of round 0, emulated.
    city
        Whose agent.
    down_ms
        From its end to its new start.
    signal
        ``kill``: it ends there and then, and what it had only in memory is lost;
        ``term``: an aggregator lets what it holds leave first, an island writes down what
        it counted.
    """

    at_ms: Time
    event: Literal["aggregator-restart", "island-restart"]
    city: str
    down_ms: Time = 0.0
    signal: Annotated[Literal["kill", "term"], choice("kill", "term")] = "kill"

    @property
    def role(self) -> Role:
        """Which of the city's agents."""
        return "aggregator" if self.event == "aggregator-restart" else "island"


FAULTS: Mapping[str, type[BaseModel]] = MappingProxyType(
    {"aggregator-restart": Restart, "island-restart": Restart}
)
"""Every kind of fault, by the word under ``event``."""
Fault: TypeAlias = Restart


def check_faults(faults: Iterable[Fault], topology: Topology, *, aggregation: bool) -> None:
    """Compare faults with the network that they are to hit.

    Raises
    ------
    InputError
        A city that is not in the topology, an aggregator where there is none.
    """
    for fault in faults:
        if fault.city not in topology.codes:
            hint = suggestion(fault.city, topology.codes)
            raise InputError(f'{fault.event}: no city "{fault.city}" in the topology: {hint}')
        if fault.role == "aggregator" and not aggregation:
            raise InputError(f"{fault.event}: there is no aggregator with aggregation off")
