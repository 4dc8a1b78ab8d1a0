"""``raw/network.json``: what the emulation says about the network that it built.

The emulation writes it after the last round; analysis and plots read it.
Times in ns are relative to the start of round 0.
"""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

from controller.plan import Plan
from testbed.jsonmodel import read_model


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class AskedRecord(_Record):
    """What a link was asked to do to packets during the rounds."""

    loss_share: float
    mean_burst: float
    """Mean length of a run of lost packets."""
    duplicate_share: float = 0.0
    reorders: bool = False
    jitter_ns: int = 0


class QdiscRecord(_Record):
    """One shaper as the kernel reported it after the last round."""

    link: str = ""
    """Direction that it stands for, such as ``nyc→chi``."""
    node: str
    """``switch-<code>`` or ``island-<code>``."""
    interface: str
    edge: int | None
    """Directed edge of the topology; None for an access link."""
    kind: str
    delay_ns: int
    rate_bps: int
    """Scaled, as it was set."""
    limit: int
    sent_bytes: int
    sent_bytes_before: int = 0
    """Of these, sent before round 0: probes and the controller's checks."""
    sent_packets: int
    sent_packets_before: int = 0
    drops: int
    drops_before: int = 0
    fault_drops: int = 0
    """Of these, while the link was down, or lost packets for a while, as was asked for."""
    asked: AskedRecord | None = None
    backlog: int
    """Bytes still queued when it was read."""


class RulesRecord(_Record):
    """When the rules of one round were confirmed and removed by every switch."""

    round: int
    confirmed_ns: int
    removed_ns: int | None


class NetworkRecord(_Record):
    """The whole file."""

    network_up: dict[str, float]
    """Wall seconds by step; ``total_wall_s``, if present, is the whole."""
    qdiscs: tuple[QdiscRecord, ...]
    switch_drops: dict[str, int] = Field(default_factory=dict)
    """City code (or code and reason) to datagrams that its switch dropped."""
    aggregator_frames: dict[str, int] = Field(default_factory=dict)
    """City to the frames for its island that its switch got from its aggregator."""
    island_udp: dict[str, dict[str, int]] = Field(default_factory=dict)
    """City to the kernel's UDP counters of its island's host, after the run."""
    rounds: tuple[RulesRecord, ...]
    start_ns: int
    """Start of round 0 on the emulation's monotonic clock."""

    def network_up_wall_s(self) -> float:
        """Wall seconds until Mininet, switches, shaping and controller were up."""
        total = self.network_up.get("total_wall_s")
        return total if total is not None else sum(self.network_up.values())


def read_network(path: Path) -> NetworkRecord:
    """Read and validate ``raw/network.json``.

    Raises
    ------
    InputError
        It is missing (the run did not finish) or does not fit.
    """
    return read_model(NetworkRecord, path)


def measured_loads(
    network: NetworkRecord, plan: Plan, planned_bytes: npt.NDArray[np.float64], time_ms: float
) -> list[dict[str, Any]]:
    """Bytes of every directed link, planned (by edge) and measured, and its use in a time."""
    loads = []
    for qdisc in network.qdiscs:
        if qdisc.edge is None:
            continue
        edge = plan.topology.edges[qdisc.edge]
        measured = (qdisc.sent_bytes - qdisc.sent_bytes_before) * plan.scale
        loads.append(
            {
                "link": f"{edge.src}-{edge.dst}",
                "edge": edge.index,
                "bytes_planned": float(planned_bytes[edge.index]),
                "bytes_measured": float(measured),
                "utilisation": measured * 8 / (edge.rate_gbps * 1e6 * time_ms),
                "drops": qdisc.drops,
            }
        )
    return loads
