"""From the agents' binary records to tables: ``raw/*.bin`` to ``events/*.parquet``.

The order of the events is total and does not depend on the machine: time, then
role, then city, then the order in which the agent wrote them.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from agents.records import EVENT_DTYPE, Kind, read_events
from controller.plan import Plan
from experiments.incarnations import FaultRecord, incarnations
from experiments.network_record import NetworkRecord
from testbed.errors import InputError
from testbed.topology import Topology

ROLES = ("island", "aggregator")
NS_PER_MS = 1_000_000

_TRACE_DTYPE = np.dtype([("role", "u1"), ("city", "u1"), *EVENT_DTYPE.descr])
_LEGS = {
    Kind.EMIT: "emit",
    Kind.HELD: "network",
    Kind.DATA_IN: "network",
    Kind.AGGREGATE_IN: "access",
    Kind.SURPLUS_IN: "surplus",
}
"""Where a stream was seen: leaving its sender, at the end of its tree, or, as a
sum, behind the receiver's access link; there also what was of no use any more. With
aggregation, raw blocks that an island gets are ``repair``."""


@dataclass(frozen=True)
class Trace:
    """All events of a run in their total order; shape (n,)."""

    events: npt.NDArray[np.void]
    topology: Topology

    def sha256(self) -> str:
        """Hash of the packed events: what happened, where, and when in emulated time."""
        return hashlib.sha256(self.events.tobytes()).hexdigest()

    def of(self, *kinds: Kind) -> npt.NDArray[np.void]:
        """Select the events of some kinds, in order."""
        return self.events[np.isin(self.events["kind"], [int(kind) for kind in kinds])]


def read_trace(
    raw_dir: Path,
    topology: Topology,
    *,
    aggregation: bool,
    faults: tuple[FaultRecord, ...] = (),
) -> Trace:
    """Read the records of every agent, in each of its lives, that must have left some.

    Raises
    ------
    InputError
        An agent's file is missing or cut off, so the run did not finish.
    """
    parts = []
    for role_index, role in enumerate(ROLES if aggregation else ROLES[:1]):
        for city, code in enumerate(topology.codes):
            for life in incarnations(role, code, faults):
                path = raw_dir / f"{life.stem}.bin"
                if life.killed and not path.exists():
                    continue
                records = _read_records(path)
                part = np.empty(len(records), dtype=_TRACE_DTYPE)
                part["role"], part["city"] = role_index, city
                for field in EVENT_DTYPE.names or ():
                    part[field] = records[field]
                parts.append(part)
    events = np.concatenate(parts)
    return Trace(events[np.argsort(events["t_ns"], kind="stable")], topology)


def _read_records(path: Path) -> npt.NDArray[np.void]:
    try:
        return read_events(path)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise InputError(f"{path} is cut off: {error}") from error


def stream_table(trace: Trace, plan: Plan, block_bytes: npt.NDArray[np.int64]) -> pd.DataFrame:
    """One row per stream and place where it was seen.

    Parameters
    ----------
    trace, plan
        The run.
    block_bytes
        Bytes on the wire of each block of a stream, shape (blocks,), scaled.

    Returns
    -------
    pandas.DataFrame
        Columns ``round``, ``leg``, ``receiver``, ``sender`` (``sum`` for an
        aggregated stream), ``first_ms`` and ``last_ms`` after the start of the
        round, ``datagrams``, ``bytes`` (unscaled). Sorted by the first four.
    """
    events = trace.of(*_LEGS)
    codes = trace.topology.codes
    ends = np.concatenate([[0], np.cumsum(block_bytes)])
    stop = np.minimum(events["block"].astype(np.int64) + events["count"], len(block_bytes))
    sizes = ends[stop] - ends[np.minimum(events["block"], stop)]
    # A sender with multicast off repeats its blocks, so it says itself what it sent.
    sizes = np.where(events["kind"] == Kind.EMIT, events["value"].astype(np.int64), sizes)
    is_sum = (events["kind"] == Kind.AGGREGATE_IN) | (
        (events["kind"] == Kind.SURPLUS_IN) & (events["src"] == events["city"])
    )
    legs = {int(kind): leg for kind, leg in _LEGS.items()}
    if plan.aggregation:
        legs[Kind.DATA_IN] = "repair"
    names = np.array([*codes, "sum"])
    frame = pd.DataFrame(
        {
            "round": events["round"].astype(np.int64),
            "leg": pd.Series(events["kind"]).map(legs),
            "receiver": names[events["city"].astype(np.int64)],
            "sender": names[np.where(is_sum, len(codes), events["src"].astype(np.int64))],
            "at_ms": events["t_ns"] / NS_PER_MS - events["round"] * plan.round_interval_ms,
            "datagrams": events["count"].astype(np.int64),
            "bytes": sizes * plan.scale,
        }
    )
    grouped = frame.groupby(["round", "leg", "receiver", "sender"], sort=True)
    return grouped.agg(
        first_ms=("at_ms", "min"),
        last_ms=("at_ms", "max"),
        datagrams=("datagrams", "sum"),
        bytes=("bytes", "sum"),
    ).reset_index()


def event_table(trace: Trace) -> pd.DataFrame:
    """Every event with its node and the names of its kind and source."""
    events = trace.events
    codes = np.array(trace.topology.codes)
    kinds = {int(kind): kind.name.lower() for kind in Kind}
    cities = codes[events["city"].astype(np.int64)]
    roles = np.array(ROLES)[events["role"].astype(np.int64)]
    plain = {name: events[name] for name in ("t_ns", "round", "cause", "exact", "block", "count")}
    return pd.DataFrame(
        {
            "role": roles,
            "city": cities,
            "kind": pd.Series(events["kind"]).map(kinds),
            "source": codes[np.minimum(events["src"], len(codes) - 1).astype(np.int64)],
            **plain,
            "value": events["value"],
        }
    )


def write_tables(
    events_dir: Path, trace: Trace, streams: pd.DataFrame, network: NetworkRecord, plan: Plan
) -> None:
    """Write ``bursts``, ``streams``, ``links`` and ``rules`` as Parquet."""
    edges = plan.topology.edges
    links = pd.DataFrame([qdisc.model_dump() for qdisc in network.qdiscs])
    links["edge"] = links["edge"].astype("Int64")
    links["link"] = [
        "access" if q.edge is None else f"{edges[q.edge].src}-{edges[q.edge].dst}"
        for q in network.qdiscs
    ]
    rules = pd.DataFrame(
        {
            "round": [r.round for r in network.rounds],
            "confirmed_ms": [r.confirmed_ns / NS_PER_MS for r in network.rounds],
            "removed_ms": [
                None if r.removed_ns is None else r.removed_ns / NS_PER_MS for r in network.rounds
            ],
        }
    )
    events_dir.mkdir(exist_ok=True)
    tables = {"bursts": event_table(trace), "streams": streams, "links": links, "rules": rules}
    for name, table in tables.items():
        table.to_parquet(events_dir / f"{name}.parquet", index=False)
