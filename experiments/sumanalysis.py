"""What aggregators did in an all-reduce through the network: streams, datagrams, partial sums."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from agents.aggregator.daemon import ROLE
from agents.records import Kind, read_events
from controller.hostplan import HostPath, HostPlan, HostStep
from controller.plan import Plan
from experiments.results import read_json
from testbed.errors import InputError
from testbed.findings import Finding

NS_PER_MS = 1_000_000
EDGE = " edge"
"""Behind a city's code: its aggregator."""
Events = npt.NDArray[np.void]


@dataclass(frozen=True)
class AggregatorRecord:
    """What one aggregator left behind."""

    events: Events
    counters: dict[str, Any]

    @property
    def datagrams(self) -> tuple[int, int]:
        """Datagrams that came and were taken, and that left."""
        rounds = self.counters["rounds"]
        came = sum(int(counted["datagrams_in"]) for counted in rounds)
        return came, sum(int(counted["datagrams_out"]) for counted in rounds)

    @property
    def partial_sums(self) -> int:
        """Blocks that left without all their contributions."""
        left = self.counters["emitted_blocks"]
        return sum(count for cause, count in left.items() if cause != "complete")


Aggregators = dict[int, AggregatorRecord]
"""By city index."""


def read_aggregators(raw_dir: Path, plan: Plan) -> Aggregators:
    """Read the records of all aggregators that took part; empty where none did.

    Raises
    ------
    InputError
        A file is missing or damaged: the run did not finish.
    """
    found = {}
    for code in plan.aggregators:
        stem = raw_dir / f"{ROLE}-{code}"
        try:
            events = read_events(stem.with_suffix(".bin"))
        except (OSError, ValueError) as error:
            raise InputError(f"cannot read the records of {stem.name}: {error}") from error
        counters = read_json(stem.with_suffix(".json"))
        found[plan.topology.index(code)] = AggregatorRecord(events, counters)
    return found


def sum_streams(
    hosts: HostPlan, codes: Sequence[str], islands: Sequence[Events], aggregators: Aggregators
) -> pd.DataFrame:
    """One row per stream: planned and measured begin and end, in ms.

    Parameters
    ----------
    hosts
        The plan, with a hub.
    codes, islands
        City codes, and events of the islands, by city index.
    aggregators
        Their records.

    Returns
    -------
    pandas.DataFrame
        The columns of `experiments.hostanalysis.transfer_table`. An aggregator is named
        ``<city> edge``; the measured end is missing if nothing came.
    """
    rows = []
    for path, step in _streams(hosts):
        out, sends = islands[path.src], Kind.EMIT
        if path.starts_at == "aggregator":
            out, sends = aggregators[path.src].events, Kind.AGGREGATE_OUT
        into, takes = islands[path.dst], Kind.AGGREGATE_IN
        if path.ends_at == "aggregator":
            into, takes = aggregators[path.dst].events, Kind.HELD
        left = out[out["kind"] == sends]["t_ns"]
        came = into[(into["kind"] == takes) & (into["src"] == path.src)]["t_ns"]
        rows.append(
            {
                "transfer": step.transfer,
                "sender": _name(codes[path.src], path.starts_at),
                "receiver": _name(codes[path.dst], path.ends_at),
                "chunk": step.chunk,
                "planned_start_ms": step.start_ms,
                "planned_end_ms": step.end_ms,
                "adds": path.ends_at == "aggregator",
                "start_ms": left.min() / NS_PER_MS if len(left) else np.nan,
                "end_ms": came.max() / NS_PER_MS if len(came) else np.nan,
            }
        )
    return pd.DataFrame(rows)


def _streams(hosts: HostPlan) -> Iterator[tuple[HostPath, HostStep]]:
    """Every stream: up from islands, from aggregator to aggregator, down from the hub."""
    up = [steps[0] for steps in hosts.steps]
    down = [steps[1] for steps in hosts.steps]
    for step in (*up, *hosts.relays, *down):
        yield hosts.paths[step.path], step


def _name(code: str, place: str) -> str:
    return code if place == "island" else code + EDGE


def sum_copies(hosts: HostPlan) -> list[int]:
    """The edge of every copy of the payload: each stream's, each of the tree's once."""
    once = {edge for path in hosts.paths if path.is_branch for edge in path.edges}
    up = [edge for path in hosts.paths if not path.is_branch for edge in path.edges]
    return [*up, *sorted(once)]


def count_datagrams(
    hosts: HostPlan, sent: int, came: int, aggregators: Aggregators
) -> tuple[int, int]:
    """Datagrams that were sent and that came, over all streams.

    What the hub multicasts counts once for each island.

    Parameters
    ----------
    sent, came
        By and to the islands.
    """
    for city, record in aggregators.items():
        taken, left = record.datagrams
        came += taken
        sent += left * (len(hosts.steps) if city == hosts.hub else 1)
    return sent, came


def check_aggregators(aggregators: Aggregators, codes: Sequence[str]) -> list[Finding]:
    """Sums that left before everything of them had come are of no use to anybody."""
    return [
        Finding("FAIL", f"{codes[city]}: {record.partial_sums} blocks left as partial sums")
        for city, record in aggregators.items()
        if record.partial_sums
    ]


def aggregator_entries(
    hosts: HostPlan, codes: Sequence[str], aggregators: Aggregators
) -> dict[str, Any]:
    """What ``summary.json`` says of the aggregators; nothing where there are none."""
    if not aggregators:
        return {}
    held = {city: r.counters["high_water_unscaled_bytes"] for city, r in aggregators.items()}
    return {
        "hub": None if hosts.hub is None else codes[hosts.hub],
        "memory_high_water_bytes": max(held.values()),
        "aggregators": {
            codes[city]: {
                "contributors": [codes[island] for island in hosts.contributors(city)],
                "memory_high_water_bytes": held[city],
                "datagrams_in": record.datagrams[0],
                "datagrams_out": record.datagrams[1],
                "partial_sums": record.partial_sums,
            }
            for city, record in sorted(aggregators.items())
        },
    }
