"""Whether the faults of a config can happen: to this network, and one after the other."""

from collections.abc import Iterable, Sequence

from experiments.faults import Fault, LinkChange, LinkCut, LossBurst, Restart
from testbed.errors import InputError, suggestion
from testbed.topology import Topology


def check_faults(faults: Iterable[Fault], topology: Topology, *, aggregation: bool) -> None:
    """Compare faults with the network that they are to hit.

    Raises
    ------
    InputError
        A city or a link that is not in the topology, an aggregator where there is none,
        a link that goes down twice or up without having been down, or two bursts of
        losses at once.
    """
    in_order = sorted(faults, key=lambda fault: fault.at_ms)
    for fault in in_order:
        try:
            _check(fault, topology, aggregation=aggregation)
        except InputError as error:
            raise InputError(f"{fault.event}: {error}") from error
    _check_cuts([f for f in in_order if isinstance(f, LinkCut)], topology)
    _check_bursts([f for f in in_order if isinstance(f, LossBurst)], topology)


def _check(fault: Fault, topology: Topology, *, aggregation: bool) -> None:
    if isinstance(fault, LinkCut | LinkChange | LossBurst):
        names = fault.directions(topology)
        if isinstance(fault, LinkCut) and (len(names) != 2 or any("island" in n for n in names)):
            raise InputError(f'"{fault.link}" is not one link between two cities')
        return
    if fault.target and fault.target not in topology.codes:
        hint = suggestion(fault.target, topology.codes)
        raise InputError(f'no city "{fault.target}" in the topology: {hint}')
    if isinstance(fault, Restart) and fault.role == "aggregator" and not aggregation:
        raise InputError("there is no aggregator with aggregation off")


def _check_cuts(cuts: Sequence[LinkCut], topology: Topology) -> None:
    down: set[str] = set()
    for cut in cuts:
        names = set(cut.directions(topology))
        if (cut.event == "link-down") == bool(names & down):
            state = "down" if names & down else "up"
            raise InputError(f"{cut.event}: {cut.link} is {state} already at {cut.at_ms:g} ms")
        down ^= names


def _check_bursts(bursts: Sequence[LossBurst], topology: Topology) -> None:
    until_ms: dict[str, float] = {}
    for burst in bursts:
        for name in burst.directions(topology):
            if burst.at_ms < until_ms.get(name, 0.0):
                raise InputError(f"{burst.event}: {name} has two at {burst.at_ms:g} ms")
            until_ms[name] = burst.at_ms + burst.for_ms
