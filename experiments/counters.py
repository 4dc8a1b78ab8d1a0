"""What the agents and the network counted, put together: places of loss, memory used."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from experiments.network_record import NetworkRecord
from experiments.rundata import RunData
from testbed.errors import InputError


@dataclass(frozen=True)
class SumChecks:
    """Block sums, own contribution included, as each island compared them with the truth."""

    expected: int
    exact: int
    wrong: int
    stale: int
    """They differ because some island had to send an older state."""

    @property
    def incomplete(self) -> int:
        """Block sums that an island never had in full, so that there was nothing to compare."""
        return self.expected - self.exact - self.wrong - self.stale

    @property
    def all_exact(self) -> bool:
        """Whether every island holds exactly the true sum of every block."""
        return self.exact == self.expected


def drop_places(run: RunData) -> dict[str, int]:
    """Count the datagrams that were dropped, by place and reason.

    Returns
    -------
    dict
        ``"aggregator nyc: duplicate"``, ``"island lax: socket full"``,
        ``"shaper chi-3"``, ``"switch hkg"``; places where nothing was dropped
        are left out.
    """
    nodes = (
        (f"{role} {code}", counted)
        for role, by_city in run.counters.items()
        for code, counted in by_city.items()
    )
    return dropped_by_place(run.network, nodes)


def dropped_by_place(
    network: NetworkRecord, nodes: Iterable[tuple[str, dict[str, Any]]]
) -> dict[str, int]:
    """Count what a network and agents dropped; see `drop_places`.

    Parameters
    ----------
    network
        What shapers and switches counted.
    nodes
        Names of agents, such as ``island nyc``, and what each counted.
    """
    places = {f"shaper {q.interface}": q.drops - q.drops_before for q in network.qdiscs}
    places |= {f"switch {name}": count for name, count in network.switch_drops.items()}
    for node, counted in nodes:
        udp = _entry(counted, "udp", node)
        # The kernel tells of a full socket twice: to its reader, and in the host's sum.
        full = max(_entry(counted, "socket_overflow", node), udp.get("RcvbufErrors", 0))
        places[f"{node}: socket full"] = full
        places[f"{node}: no such port"] = udp.get("NoPorts", 0)
        for reason, count in _entry(counted, "drops", node).items():
            places[f"{node}: {reason}"] = count
    return {place: count for place, count in sorted(places.items()) if count}


def memory_high_water(run: RunData) -> dict[str, float]:
    """Most bytes that each city's aggregator held at once, unscaled; empty without one."""
    return {
        code: float(_entry(counted, "high_water_unscaled_bytes", f"aggregator {code}"))
        for code, counted in run.counters.get("aggregator", {}).items()
    }


def memory_capacity(run: RunData) -> float:
    """Bytes that the largest aggregator could hold, unscaled: M and the chip's FIFO."""
    sizes = [
        float(_entry(counted, "memory_bytes", f"aggregator {code}"))
        for code, counted in run.counters.get("aggregator", {}).items()
    ]
    return max(sizes, default=0.0) * run.plan.scale


def sum_checks(run: RunData) -> SumChecks:
    """Add up what the islands found when they compared their sums with the true ones."""
    expected = exact = wrong = stale = 0
    for code, counted in run.counters["island"].items():
        for this_round in _entry(counted, "rounds", f"island {code}"):
            expected += _entry(this_round, "expected_blocks", f"island {code}")
            exact += _entry(this_round, "exact_blocks", f"island {code}")
            wrong += _entry(this_round, "wrong_blocks", f"island {code}")
            stale += _entry(this_round, "stale_blocks", f"island {code}")
    return SumChecks(expected, exact, wrong, stale)


def stale_rows(run: RunData) -> dict[str, int]:
    """Count the rows of its parameter vector that each island could not average in time."""
    stale = {
        code: sum(_entry(r, "stale_rows", f"island {code}") for r in counted["rounds"])
        for code, counted in run.counters["island"].items()
    }
    return {code: count for code, count in stale.items() if count}


def _entry(counted: dict[str, Any], key: str, node: str) -> Any:
    """An entry that every agent of this role writes; its absence is an error, not a zero."""
    if key not in counted:
        raise InputError(
            f'the counters of {node} lack "{key}": was the run made by another version?'
        )
    return counted[key]
