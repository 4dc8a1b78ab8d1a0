"""What an agent is told, and what follows from it."""

import json
import math
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from crc32c import crc32c

from agents.names import Collision, ElementType, EngineName, Hash, MemoryModel
from agents.wire import DType, StreamLayout, burst_limit, dtype_named, stream_layout
from controller.demand import resend_bytes
from controller.plan import Plan
from testbed import addressing
from testbed.errors import InputError

Endpoint = tuple[str, int]

Slow = tuple[float, float, float]
"""From and until when, in ms since the start of round 0, and how many times slower."""

END_MARGIN_NS = 1_000_000_000
NS_PER_MS = 1_000_000


class Addressing(Protocol):
    """Where streams go."""

    def island(self, city: int) -> Endpoint:
        """Address of a city's island."""

    def aggregator(self, city: int) -> Endpoint:
        """Address of a city's aggregator."""

    def control(self, city: int) -> Endpoint:
        """Where a city's aggregator takes requests to send again."""

    def group(self, round_index: int, sender: int) -> Endpoint:
        """Multicast address of one sender in one round."""

    def path(self, city: int, tag: int) -> Endpoint:
        """Where a city's island sends from what takes the path with a tag."""


class TestbedAddressing:
    """The addresses of the emulated network."""

    def island(self, city: int) -> Endpoint:
        """Address of a city's island."""
        return addressing.island_ip(city), addressing.STREAM_UDP_PORT

    def aggregator(self, city: int) -> Endpoint:
        """Address of a city's aggregator."""
        return addressing.aggregator_ip(city), addressing.STREAM_UDP_PORT

    def control(self, city: int) -> Endpoint:
        """Where a city's aggregator takes requests to send again."""
        return addressing.aggregator_ip(city), addressing.CONTROL_UDP_PORT

    def group(self, round_index: int, sender: int) -> Endpoint:
        """Multicast address of one sender in one round."""
        return addressing.group_ip(round_index, sender), addressing.STREAM_UDP_PORT

    def path(self, city: int, tag: int) -> Endpoint:
        """Where a city's island sends from what takes the path with a tag."""
        return addressing.island_ip(city), addressing.FIRST_PATH_UDP_PORT + tag


class Expectation(NamedTuple):
    """What one city expects to receive in one round."""

    round: int
    start_ns: int
    """CLOCK_MONOTONIC."""
    clique: int
    senders: tuple[int, ...]
    """City indices."""
    mask: int
    """The senders as bits; where aggregators send sums to others, whoever is in these."""


@dataclass(frozen=True)
class AgentContext:
    """Everything that an island or an aggregator needs.

    Attributes
    ----------
    plan
        The run's plan.
    city
        Index of the agent's own city.
    start_ns
        Start of round 0, CLOCK_MONOTONIC.
    out_dir
        Folder for the agent's records and counters.
    seed, mtu_bytes, burst_datagrams, jitter_us
        Of the streams.
    fifo_datagrams, timeout_ms, ways, collision, hash, memory_model, dtype, ordered, engine
        Of the aggregator's table.
    resend_ms, repair
        Of the recovery from loss.
    slow
        When the island sends slower, or not at all, and how much.
    restart
        How many times this agent was started before in the same run.
    addresses
        Where streams go.
    status_socket
        Whether the aggregator answers on a Unix socket in ``out_dir``; beyond a
        virtual machine's border nobody could ask.
    orders
        The host's end of what the run tells it meanwhile (`agents.orders`), if it does.
    """

    plan: Plan
    city: int
    start_ns: int
    out_dir: Path
    seed: int = 1
    mtu_bytes: int = 9000
    burst_datagrams: int = 4
    fifo_datagrams: int = 12
    timeout_ms: float = 500.0
    collision: Collision = "evict-old"
    hash: Hash = "mod"
    jitter_us: float = 0.0
    ways: int = 1
    memory_model: MemoryModel = "accumulate"
    dtype: ElementType = "i32"
    ordered: bool = False
    engine: EngineName = "native"
    resend_ms: float = 0.0
    repair: bool = False
    restart: int = 0
    slow: tuple[Slow, ...] = ()
    addresses: Addressing = field(default_factory=TestbedAddressing)
    status_socket: bool = False
    orders: socket.socket | None = None

    def __post_init__(self) -> None:
        limit = burst_limit(self.layout.elements, self.layout.element_bytes)
        if not 1 <= self.burst_datagrams <= limit:
            raise InputError(
                f"burst_datagrams is {self.burst_datagrams}: 1 to {limit} datagrams of "
                f"MTU {self.mtu_bytes} fit one burst"
            )
        self._check_recovery()

    def _check_recovery(self) -> None:
        if not (math.isfinite(self.resend_ms) and self.resend_ms >= 0):
            raise InputError(f"resend_ms must be a number, 0 or more, not {self.resend_ms:g}")
        if self.repair and not self.recovers:
            raise InputError("repair needs recovery: set resend_ms, and aggregation on")
        if self.resend_bytes > self.memory_bytes:
            raise InputError(
                f"resend_ms: {self.resend_ms:g} ms × {self.access_gbps:g} Gbit/s of {self.code} = "
                f"{self.resend_bytes:.0f} bytes to keep, more than the aggregator's memory of "
                f"{self.memory_bytes:.0f} bytes (both at scale {self.plan.scale:g}); "
                "lower resend_ms or raise the memory"
            )

    @property
    def recovers(self) -> bool:
        """Whether lost sums are asked for again."""
        return self.resend_ms > 0 and self.plan.aggregation

    @property
    def access_gbps(self) -> float:
        """Rate of the own island's access link, as packets see it (scaled)."""
        return self.plan.topology.cities[self.city].access_rate_gbps / self.plan.scale

    @property
    def memory_bytes(self) -> float:
        """M as packets see it (scaled)."""
        return self.plan.memory_bytes / self.plan.scale

    @property
    def resend_bytes(self) -> float:
        """The resend ring's share of M (scaled)."""
        return resend_bytes(self.resend_ms, self.access_gbps) if self.recovers else 0.0

    @property
    def code(self) -> str:
        """Code of the agent's own city."""
        return self.plan.topology.codes[self.city]

    @cached_property
    def element_type(self) -> DType:
        """What the elements are."""
        return dtype_named(self.dtype)

    @cached_property
    def layout(self) -> StreamLayout:
        """How each stream is cut into blocks."""
        payload_wire_bytes = self.plan.payload_bytes / self.plan.scale
        return stream_layout(payload_wire_bytes, self.mtu_bytes, self.element_type.element_bytes)

    @cached_property
    def job_id(self) -> int:
        """Marks the datagrams of this run: a checksum of plan and seed."""
        return int(crc32c(f"{self.seed} {self.plan.model_dump_json()}".encode()))

    @property
    def interval_ns(self) -> int:
        """Time between the starts of two rounds."""
        return round(self.plan.round_interval_ms * NS_PER_MS)

    @property
    def timeout_ns(self) -> int:
        """How long an incomplete block is kept."""
        return round(self.timeout_ms * NS_PER_MS)

    @property
    def deadline_ns(self) -> int:
        """When an island gives up, CLOCK_MONOTONIC."""
        last_end = self.start_ns + self.plan.rounds * self.interval_ns
        return last_end + self.timeout_ns + END_MARGIN_NS

    @cached_property
    def expectations(self) -> tuple[Expectation, ...]:
        """What the own city expects in each round of the run."""
        return tuple(self._expectation(k) for k in range(self.plan.rounds))

    @property
    def sums_to(self) -> Endpoint:
        """Where the own city's aggregator sends its sums."""
        hosts = self.plan.collective
        if hosts is None or hosts.hub is None:
            return self.addresses.island(self.city)
        relay = hosts.relay(self.city)
        if relay is None:
            return self.addresses.group(0, hosts.hub)
        return self.addresses.aggregator(relay.dst)

    @property
    def takes_sums(self) -> bool:
        """Whether other aggregators send to that of the own city."""
        hosts = self.plan.collective
        return hosts is not None and any(path.is_relay for path in hosts.feeds(self.city))

    def groups(self, round_index: int) -> list[Endpoint]:
        """Multicast addresses of the streams that the own city expects in a round, if any."""
        if not self.plan.multicast:
            return []
        senders = self.expectations[round_index].senders
        return [self.addresses.group(round_index, sender) for sender in senders]

    def _expectation(self, round_index: int) -> Expectation:
        hosts = self.plan.collective
        if hosts is not None:
            return Expectation(
                round=round_index,
                start_ns=self.start_ns,
                clique=0,
                senders=tuple(sorted(path.src for path in hosts.feeds(self.city))),
                mask=sum(1 << city for city in hosts.contributors(self.city)),
            )
        this_round = self.plan.round(round_index)
        senders = tuple(self.plan.topology.index(c) for c in this_round.senders_to(self.code))
        cliques = [i for i, members in enumerate(this_round.cliques) if self.code in members]
        return Expectation(
            round=round_index,
            start_ns=self.start_ns + round_index * self.interval_ns,
            clique=cliques[0] if cliques else 0,
            senders=senders,
            mask=sum(1 << sender for sender in senders),
        )

    def output_path(self, role: str, suffix: str, restart: int | None = None) -> Path:
        """Where a file of this agent goes: ``<role>-<city>``, a restarted one's with ``.<n>``.

        ``restart`` names another of its lives.
        """
        life = self.restart if restart is None else restart
        incarnation = f".{life}" if life else ""
        return self.out_dir / f"{role}-{self.code}{incarnation}{suffix}"

    def write_counters(self, role: str, counters: Mapping[str, Any]) -> None:
        """Write the agent's JSON file; whoever reads it sees the old one or the new one."""
        path = self.output_path(role, ".json")
        half = path.with_name(f".{path.name}")
        half.write_text(json.dumps({"role": role, "city": self.code, **counters}, indent=1) + "\n")
        half.replace(path)
