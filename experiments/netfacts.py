"""Writes down what the network was and did, for ``raw/network.json``.

The reader's side is `experiments.network_record`.
"""

from collections.abc import Sequence
from typing import Any

from controller.plan import Plan
from experiments.control import ControlServer
from testbed.network import Network
from testbed.probe import RoundTrip


def network_facts(
    plan: Plan,
    network: Network,
    control: ControlServer,
    trips: Sequence[RoundTrip],
    before: dict[str, Any],
    start_ns: int,
) -> dict[str, Any]:
    """Collect shapers, drops, round-trip times and rule times of a finished run.

    Parameters
    ----------
    plan, network, control
        The run.
    trips
        Round-trip times measured before the first round.
    before
        The network's counters when those were measured, so that the streams can be
        told from the echoes.
    start_ns
        Start of round 0 on the monotonic clock; the times in the result are relative to it.

    Returns
    -------
    dict
        Plain JSON values.
    """
    counters = network.counters()
    sent_before = {row["interface"]: row["sent_bytes"] for row in before["queues"]}
    return {
        "network_up": {},
        "qdiscs": [
            {
                **_qdisc(plan, network.name_prefix, row),
                "sent_bytes_before": sent_before[row["interface"]],
            }
            for row in counters["queues"]
        ],
        "rtt": [
            {
                "src": trip.src,
                "dst": trip.dst,
                "rtt_us": trip.rtt_ns / 1e3,
                "expected_us": trip.expected_ns / 1e3,
            }
            for trip in trips
        ],
        "switch_drops": _switch_drops(counters),
        "rounds": [
            {
                "round": index,
                "confirmed_ns": confirmed_ns - start_ns,
                "removed_ns": (
                    control.removed_ns[index] - start_ns if index in control.removed_ns else None
                ),
            }
            for index, confirmed_ns in sorted(control.confirmed_ns.items())
        ],
        "start_ns": start_ns,
    }


def _qdisc(plan: Plan, prefix: str, row: dict[str, Any]) -> dict[str, Any]:
    """One shaper: which edge it stands for, what it was set to, what it counted."""
    edges = {
        f"{prefix}{edge.src}-{plan.topology.out_port(edge.index)}": edge
        for edge in plan.topology.edges
    }
    name = row["interface"]
    edge = edges.get(name)
    code = name.removeprefix(prefix).split("-")[0]
    shape = row["shape"] or {"delay_ns": 0, "rate_bytes_per_s": 0, "limit_packets": 0}
    return {
        "node": f"island-{code}" if name.endswith("-i") else f"switch-{code}",
        "interface": name,
        "edge": edge.index if edge else None,
        "kind": row["kind"],
        "delay_ns": shape["delay_ns"],
        "rate_bps": 8 * shape["rate_bytes_per_s"],
        "limit": shape["limit_packets"],
        "sent_bytes": row["sent_bytes"],
        "sent_packets": row["sent_packets"],
        "drops": row["drops"],
        "backlog": row["backlog_bytes"],
    }


def _switch_drops(counters: dict[str, Any]) -> dict[str, int]:
    """Packets that interfaces or the datapath dropped; only places that dropped any."""
    drops = {}
    for row in counters["interfaces"]:
        for key in ("rx_dropped", "tx_dropped", "rx_errors", "tx_errors"):
            drops[f"{row['name']} {key}"] = row[key]
    drops["datapath upcalls lost"] = counters["datapath"]["lost"]
    return {place: count for place, count in drops.items() if count}
