"""The plan: the contract between planner, controller, agents and analysis.

It holds everything that a run needs and nothing that the run must work out.
All figures are those of the network that is emulated (unscaled); whoever
touches packets divides rates, payloads and memories by ``scale``.
"""

from pathlib import Path
from typing import Final, Literal

from pydantic import Field

from controller.hostplan import HostPlan
from controller.training import Training
from testbed.jsonmodel import read_model
from testbed.topology import Frozen, Topology

PLAN_VERSION: Final = 1


class Piece(Frozen):
    """A part of a stream with a constant rate; times within the round, at the sender."""

    start_ms: float = Field(ge=0)
    end_ms: float = Field(gt=0)
    rate_gbps: float = Field(gt=0)


class Stream(Frozen):
    """One sender's payload in one round of the period."""

    sender: str
    clique: int
    receivers: tuple[str, ...]
    edges: tuple[int, ...]
    """Directed edges of the multicast tree (empty with multicast off)."""
    paths: dict[str, tuple[int, ...]]
    """Receiver to the edges of the way there, in order."""
    delays_ms: dict[str, float]
    """Receiver to the one-way delay along that way."""
    offset_ms: float = Field(ge=0)
    rate_gbps: float = Field(gt=0)
    """Rate of one copy."""
    duration_ms: float = Field(gt=0)
    hub: str | None = None
    """City through which all ways lead before they come back down a shared tree.
    Only then may the stream pass a city twice; it is then forwarded by incoming port,
    and delivered where a path ends."""
    pieces: tuple[Piece, ...] = ()
    """Rate over time, where it changes; ``rate_gbps`` is then the mean over ``duration_ms``."""


class RoundPlan(Frozen):
    """One round of the period: disjoint cliques and the streams inside them."""

    cliques: tuple[tuple[str, ...], ...]
    streams: tuple[Stream, ...]
    t_ms: float = Field(ge=0)
    edge_streams: dict[int, int]
    """Directed edge to the number of stream copies that it carries."""
    held_bytes: dict[str, float]
    """City to the predicted memory high-water mark, by the plan's memory model."""
    resend_bytes: dict[str, float] = Field(default_factory=dict)
    """City to the resend buffer's share of the memory, on top of ``held_bytes``."""
    fifo_bytes: dict[str, float] = Field(default_factory=dict)
    """City to the packet FIFO in front of the memory."""
    trees_bound_ms: float | None = None
    """No trees of the family have a smaller T at a common rate; ``None`` where not known."""
    queued: bool = False
    """Whether streams wait in front of links; else no link ever carries more than it can."""
    timing_gap: float = 0.0
    """How far T may be above its least value for these trees and rates, relative to T."""

    def stream_of(self, sender: str) -> Stream | None:
        """Find the stream that a city sends in this round, if any."""
        return next((s for s in self.streams if s.sender == sender), None)

    def senders_to(self, receiver: str) -> tuple[str, ...]:
        """List the cities whose streams a receiver expects in this round."""
        return tuple(s.sender for s in self.streams if receiver in s.receivers)


class Prediction(Frozen):
    """What the planner expects; ``None`` for a disagreement that never dies out."""

    t_ms: float
    """Round time: the slowest round of the period."""
    a_rms: float | None
    a_var: float | None
    a_tv: float | None
    a_reach: float | None
    survival: tuple[float, ...]
    """S(k), rms, k = 0, 1, …: the mean error left after k rounds."""
    contraction: float
    """Error left per round, geometric mean over the period."""
    objective_ms: float | None
    """T (A + ½)."""
    busiest_link_streams: int


class Plan(Frozen):
    """A schedule with its trees, offsets and rates, ready to run."""

    version: Literal[1] = PLAN_VERSION
    schedule: str
    topology: Topology
    feasible: bool
    reason: str
    """Why not feasible, or empty."""
    payload_bytes: float = Field(gt=0)
    """Bytes of one stream on the wire, headers included."""
    memory_bytes: float = Field(ge=0)
    scale: float = Field(gt=0)
    multicast: bool
    aggregation: bool
    trees: str
    """The family of trees that was chosen."""
    rates: str = "common"
    """How senders pace; see `controller.demand.RATES`."""
    memory_model: str = "accumulate"
    """``accumulate``: one accumulator per weight; ``hold``: one buffer per sender."""
    resend_ms: float = Field(default=0.0, ge=0)
    """How long the aggregator keeps what it has sent on."""
    not_runnable: str = ""
    """Why packets cannot follow the plan, or empty."""
    period: tuple[RoundPlan, ...]
    rounds: int = Field(ge=1)
    """How many rounds to run; round k uses ``period[k % len(period)]``."""
    round_interval_ms: float = Field(gt=0)
    """Time between the starts of two rounds."""
    unicast: dict[str, dict[str, int]]
    """Destination city to (city to the edge that leads on), shortest paths."""
    prediction: Prediction
    collective: HostPlan | None = None
    """Set where the islands run a collective among themselves, instead of streams."""
    training: Training | None = None
    """Set where hosts compute between synchronisations."""

    @property
    def syncs(self) -> int:
        """How many all-reduces a collective between hosts makes."""
        return 1 if self.training is None else self.training.syncs

    @property
    def aggregators(self) -> tuple[str, ...]:
        """Cities whose aggregator takes part, in the order of the topology."""
        if self.collective is not None:
            return tuple(self.topology.codes[city] for city in self.collective.aggregators)
        return self.topology.codes if self.aggregation else ()

    def round(self, index: int) -> RoundPlan:
        """Return the plan of round ``index`` of the run."""
        return self.period[index % len(self.period)]

    def write(self, path: Path) -> None:
        """Write the plan as JSON."""
        path.write_text(self.model_dump_json(indent=1) + "\n")


def read_plan(path: Path) -> Plan:
    """Read a plan that `Plan.write` wrote.

    Raises
    ------
    InputError
        The file is missing, not JSON, of another version, or does not fit the model.
    """
    return read_model(Plan, path, "the plan")
