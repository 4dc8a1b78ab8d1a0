"""Writes down what the network was and did, for ``raw/network.json``.

The reader's side is `experiments.network_record`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agents.sockets import udp_counters
from controller.plan import Plan
from experiments.control import ControlServer
from testbed.addressing import AGGREGATOR_PORT
from testbed.errors import CliquenetError
from testbed.impairment import Impairment
from testbed.network import Network

_READINGS = 50


def network_facts(
    plan: Plan,
    network: Network,
    control: ControlServer,
    before: dict[str, Any],
    start_ns: int,
    impairments: Mapping[str, Impairment],
    fault_drops: Mapping[str, int],
) -> dict[str, Any]:
    """Collect shapers, drops and rule times of a finished run.

    Parameters
    ----------
    plan, network, control
        The run.
    before
        The network's counters when it had been measured, so that the streams can be
        told from the probes.
    start_ns
        Start of round 0 on the monotonic clock; the times in the result are relative to it.
    impairments
        Of the directions that were impaired during the rounds.
    fault_drops
        Datagrams that directions dropped during faults that were asked for.

    Returns
    -------
    dict
        Plain JSON values.
    """
    counters, reports = _counters_and_reports(network)
    queues_before = {row["interface"]: row for row in before["queues"]}
    return {
        "network_up": {},
        "qdiscs": [
            {
                **_qdisc(plan, network.name_prefix, row),
                **_before(queues_before[row["interface"]]),
                "asked": _asked(impairments.get(row["link"])),
                "fault_drops": fault_drops.get(row["link"], 0),
            }
            for row in counters["queues"]
        ],
        "switch_drops": _switch_drops(before, counters),
        "aggregator_frames": _aggregator_frames(network, before, counters, reports),
        "island_udp": _island_udp(network),
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
        "link": row["link"],
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


def _before(row: dict[str, Any]) -> dict[str, int]:
    """What a shaper had counted before the rounds."""
    return {f"{name}_before": row[name] for name in ("sent_bytes", "sent_packets", "drops")}


def _asked(impairment: Impairment | None) -> dict[str, Any] | None:
    """An impairment in shares, as the reader compares them."""
    if impairment is None:
        return None
    return {
        "loss_share": impairment.loss_share,
        "mean_burst": impairment.mean_burst,
        "duplicate_share": impairment.duplicate_share,
        "reorders": bool(impairment.reorder),
        "jitter_ns": impairment.jitter_ns,
    }


def _aggregator_frames(
    network: Network, before: dict[str, Any], after: dict[str, Any], reports: Mapping[str, int]
) -> dict[str, int]:
    """Frames for its island that each city's switch got from its aggregator in the rounds.

    All but the reports of group membership (IGMP), its only multicast: they end there.
    """
    first = {row["name"]: row["rx_packets"] for row in before["interfaces"]}
    last = {row["name"]: row["rx_packets"] for row in after["interfaces"]}
    frames = {}
    for code, sent in reports.items():
        port = f"{network.name_prefix}{code}-{AGGREGATOR_PORT}"
        frames[code] = last[port] - first[port] - sent
    return frames


def _counters_and_reports(network: Network) -> tuple[dict[str, Any], dict[str, int]]:
    """The network's counters, and each aggregator's reports of membership at that moment.

    A host that has left its groups says so again up to a second later (RFC 3376,
    section 5.1), which may be just between the two readings.
    """
    reports = _reports_sent(network)
    for _ in range(_READINGS):
        counters, again = network.counters(), _reports_sent(network)
        if again == reports:
            return counters, reports
        reports = again
    raise CliquenetError(
        f"aggregators report group memberships without end: {_READINGS} readings all differ"
    )


def _reports_sent(network: Network) -> dict[str, int]:
    """Multicast packets that each aggregator's host has sent, by city."""
    sent = {}
    for city, code in enumerate(network.topology.codes):
        namespace = network.aggregator(city).namespace
        if namespace is not None:
            with namespace.entered():
                rows = Path("/proc/self/net/netstat").read_text().splitlines()
            names, values = (row.split()[1:] for row in rows if row.startswith("IpExt:"))
            sent[code] = int(values[names.index("OutMcastPkts")])
    return sent


def _island_udp(network: Network) -> dict[str, dict[str, int]]:
    """The kernel's UDP counters of each island's host, by city."""
    counted = {}
    for code, namespace in zip(network.topology.codes, network.islands(), strict=True):
        with namespace.entered():
            counted[code] = udp_counters()
    return counted


def _switch_drops(before: dict[str, Any], after: dict[str, Any]) -> dict[str, int]:
    """Packets that interfaces or the datapath dropped since; only places that dropped any."""
    first, last = _drops_so_far(before), _drops_so_far(after)
    return {place: n - first[place] for place, n in last.items() if n > first[place]}


def _drops_so_far(counters: dict[str, Any]) -> dict[str, int]:
    drops = {}
    for row in counters["interfaces"]:
        for key in ("rx_dropped", "tx_dropped", "rx_errors", "tx_errors"):
            drops[f"{row['name']} {key}"] = row[key]
    drops["datapath upcalls lost"] = counters["datapath"]["lost"]
    return drops
