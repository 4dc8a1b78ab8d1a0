"""Makes run folders as an ideal network would leave them, with faults on request."""

import json
from dataclasses import dataclass, field
from pathlib import Path

from made_fidelity import made_fidelity, write_fidelity

from agents.averaging import Replay, start_tables
from agents.records import Kind, Recorder
from agents.weights import table_shape
from agents.wire import Cause, stream_layout, wire_bytes
from controller.plan import Plan
from controller.planner import make_plan
from controller.schedule import Schedule, load_schedule
from experiments.config import ExperimentConfig
from experiments.results import create_run, set_state, write_manifest
from experiments.runtime import Runtime
from testbed.shaping import shape_for
from testbed.topology import City, Link, Topology, load_topology

BURST = 4
MTU_BYTES = 9000


@dataclass
class Faults:
    """What goes wrong. Bursts are named by (round, sender, receiver, first block)."""

    lost: set[tuple[int, str, str, int]] = field(default_factory=set)
    lost_sums: set[tuple[int, str, int]] = field(default_factory=set)
    twice: set[tuple[int, str, str, int]] = field(default_factory=set)
    wrong_sums: set[tuple[int, str, int]] = field(default_factory=set)
    late_ms: float = 0.0
    """Of all arrivals."""
    sent_late_ms: dict[tuple[int, str], float] = field(default_factory=dict)
    """(Round, city) to how late its bursts are recorded to have left."""
    clock: str = "virtual"
    switch_drops: dict[str, int] = field(default_factory=dict)
    qdisc: dict[str, dict[str, object]] = field(default_factory=dict)
    """Interface to the entries of its record that differ."""
    rtt_error_us: float = 0.0
    states: dict[tuple[int, str], int] = field(default_factory=dict)
    """(Rounds done, city) to what is added to each element of its vector at that time."""
    stale: dict[tuple[int, str], int] = field(default_factory=dict)
    """(Round, city) to rows that were not averaged."""
    stale_blocks: dict[tuple[int, str], int] = field(default_factory=dict)
    """(Round, city) to sums that have such a row in them."""
    runtime: dict[str, object] = field(default_factory=dict)
    """Settings that differ."""
    last_hops: dict[str, dict[str, object]] = field(default_factory=dict)
    """City to the entries of its last hop's record that differ; others have no record."""
    aggregator_frames: dict[str, int] = field(default_factory=dict)
    island_udp: dict[str, dict[str, int]] = field(default_factory=dict)


def triangle_topology() -> Topology:
    """Three cities in a triangle with one-way delays of 3, 4 and 5 ms."""
    names = {"aaa": (50.0, 0.0), "bbb": (40.0, -74.0), "ccc": (35.0, 139.0)}
    cities = tuple(
        City(code=code, name=code.upper(), region="test", lat=lat, lon=lon)
        for code, (lat, lon) in names.items()
    )
    links = tuple(
        Link(a=a, b=b, delay_ms=ms, delay_back_ms=ms)
        for a, b, ms in (("aaa", "bbb", 3.0), ("aaa", "ccc", 4.0), ("bbb", "ccc", 5.0))
    )
    return Topology(name="triangle", cities=cities, links=links)


def triangle_plan(*, rounds: int = 2, **options) -> Plan:
    """All three cities in one clique; 20 ms of stream at 100 Gbit/s, scale 100."""
    settings = {"payload_bytes": 250e6, "memory_bytes": 1e9, "scale": 100.0, **options}
    schedule = Schedule("one-clique", ((("aaa", "bbb", "ccc"),),))
    return make_plan(triangle_topology(), schedule, rounds=rounds, **settings)


def nine_city_plan(schedule: str, *, rounds: int, **options) -> Plan:
    """A named schedule on the nine cities; a tenth of the paper's payload by default."""
    topology = load_topology("nine-cities")
    settings = {"payload_bytes": 179e6, "memory_bytes": 32e9, "scale": 100.0, **options}
    return make_plan(topology, load_schedule(schedule, topology), rounds=rounds, **settings)


def make_run(results_dir: Path, plan: Plan, faults: Faults | None = None, *, seed: int = 1) -> Path:
    """Write the folder of a finished run of ``plan``."""
    faults = faults or Faults()
    run_dir = create_run(results_dir, ExperimentConfig(seed=seed))
    plan.write(run_dir / "plan.json")
    Runtime(
        clock=faults.clock,
        seed=seed,
        mtu_bytes=MTU_BYTES,
        burst_datagrams=BURST,
        fifo_datagrams=32,
        timeout_ms=500,
        collision="evict-old",
        hash="mod",
        jitter_us=0,
        controller="ryu",
        **faults.runtime,
    ).write(run_dir / "runtime.json")
    _Network(plan, faults).write(run_dir / "raw")
    write_fidelity(run_dir / "raw", made_fidelity(plan, rtt_error_us=faults.rtt_error_us))
    write_manifest(run_dir, ExperimentConfig(seed=seed), kernel="6.1.0-test", extra={})
    set_state(run_dir, "complete")
    return run_dir


class _Events:
    """Events in any order; written in the order of their times."""

    def __init__(self) -> None:
        self._calls = []

    def add(self, t_ns, *fields, **options) -> None:
        self._calls.append((t_ns, fields, options))

    def write(self, path: Path) -> None:
        recorder = Recorder(path)
        for t_ns, fields, options in sorted(self._calls, key=lambda call: call[0]):
            recorder.add(t_ns, *fields, **options)
        recorder.close()


class _Network:
    """An ideal network: every burst arrives after its path's delay and its serialisation."""

    def __init__(self, plan: Plan, faults: Faults) -> None:
        self.plan, self.faults = plan, faults
        self.layout = stream_layout(plan.payload_bytes / plan.scale, MTU_BYTES)
        self.codes = plan.topology.codes
        self.events = {
            (role, code): _Events() for role in ("island", "aggregator") for code in self.codes
        }
        self.high_water = dict.fromkeys(self.codes, 0)
        self.link_bytes = [0] * len(plan.topology.edges)

    def write(self, raw: Path) -> None:
        for k in range(self.plan.rounds):
            for code in self.codes:
                self._round_at(k, code)
        for (role, code), events in self.events.items():
            if role == "island" or self.plan.aggregation:
                events.write(raw / f"{role}-{code}.bin")
                (raw / f"{role}-{code}.json").write_text(json.dumps(self._counters(role, code)))
        (raw / "network.json").write_text(json.dumps(self._network_json()))
        self._write_states(raw)

    def _write_states(self, raw: Path) -> None:
        starts = start_tables(1, len(self.codes), table_shape(self.layout))
        replay = Replay(self.plan, 0, starts)
        files = {code: (raw / f"island-{code}.state").open("wb") for code in self.codes}
        for k in range(self.plan.rounds + 1):
            for code, table in zip(self.codes, replay.tables, strict=True):
                files[code].write((table + self.faults.states.get((k, code), 0)).tobytes())
            if k < self.plan.rounds:
                replay.step()
        for file in files.values():
            file.close()

    def _bursts(self, sender: str, k: int) -> list[tuple[int, int, float]]:
        """(first block, count, time at which its last byte has left, ms into the round)."""
        stream = self.plan.round(k).stream_of(sender)
        bytes_per_ms = stream.rate_gbps / self.plan.scale * 125_000
        bursts, sent = [], 0
        for block in range(0, self.layout.blocks, BURST):
            count = min(BURST, self.layout.blocks - block)
            sent += self.layout.burst_bytes(block, count)
            bursts.append((block, count, stream.offset_ms + sent / bytes_per_ms))
        return bursts

    def _round_at(self, k: int, code: str) -> None:
        """Emission of one city's stream in one round, and all arrivals there."""
        this_round, start_ms = self.plan.round(k), k * self.plan.round_interval_ms
        city = self.codes.index(code)
        island = self.events["island", code]
        own = this_round.stream_of(code)
        if own is not None:
            copies = 1 if self.plan.multicast else len(own.receivers)
            for block, count, left_ms in self._bursts(code, k):
                at_ms = left_ms + self.faults.sent_late_ms.get((k, code), 0.0)
                for _ in range(copies):
                    size = self.layout.burst_bytes(block, count)
                    island.add(_ns(start_ms + at_ms), k, Kind.EMIT, city, block, count, size)
            per_edge = list(own.edges)
            if not self.plan.multicast:
                per_edge = [edge for path in own.paths.values() for edge in path]
            for edge in per_edge:
                self.link_bytes[edge] += self.layout.wire_bytes
        arrivals = []
        for sender in this_round.senders_to(code):
            delay_ms = this_round.stream_of(sender).delays_ms[code]
            for block, count, left_ms in self._bursts(sender, k):
                at_ms = start_ms + left_ms + delay_ms + self.faults.late_ms
                if (k, sender, code, block) not in self.faults.lost:
                    arrivals.append((at_ms, sender, block, count))
                if (k, sender, code, block) in self.faults.twice:
                    arrivals.append((at_ms + 0.01, sender, block, count))
        arrivals.sort()
        if self.plan.aggregation:
            self._aggregate(k, code, arrivals)
        else:
            for at_ms, sender, block, count in arrivals:
                src = self.codes.index(sender)
                island.add(_ns(at_ms), k, Kind.DATA_IN, src, block, count, 1 << src, exact=1)

    def _aggregate(self, k, code, arrivals) -> None:
        aggregator = self.events["aggregator", code]
        senders = self.plan.round(k).senders_to(code)
        mask = sum(1 << self.codes.index(s) for s in senders)
        open_bursts: dict[int, int] = {}
        last_ms = 0.0
        for at_ms, sender, block, count in arrivals:
            src = self.codes.index(sender)
            open_bursts[block] = open_bursts.get(block, 0) | 1 << src
            held = sum(BURST for _ in open_bursts)
            self.high_water[code] = max(self.high_water[code], held)
            if open_bursts[block] == mask:
                del open_bursts[block]
                self._sum_out(k, code, at_ms, block, count, mask, Cause.COMPLETE)
            value = BURST * len(open_bursts)
            aggregator.add(_ns(at_ms), k, Kind.HELD, src, block, count, value)
            last_ms = at_ms
        for block, bits in open_bursts.items():
            count = min(BURST, self.layout.blocks - block)
            self._sum_out(k, code, last_ms, block, count, bits, Cause.TIMEOUT)

    def _sum_out(self, k, code, at_ms, block, count, bits, cause) -> None:
        city = self.codes.index(code)
        out = self.events["aggregator", code]
        out.add(_ns(at_ms), k, Kind.AGGREGATE_OUT, city, block, count, bits, cause=cause)
        if (k, code, block) in self.faults.lost_sums:
            return
        exact = 0 if (k, code, block) in self.faults.wrong_sums else 1
        island = self.events["island", code]
        arrived_ns = _ns(at_ms + 0.05)
        island.add(arrived_ns, k, Kind.AGGREGATE_IN, city, block, count, bits, exact=exact)

    def _counters(self, role: str, code: str) -> dict:
        counters = {"role": role, "city": code, "drops": {}, "socket_overflow": 0, "udp": {}}
        if role == "island":
            counters["rounds"] = [self._sums(k, code) for k in range(self.plan.rounds)]
        if role == "aggregator":
            held = self.high_water[code] * self.layout.elements * 4
            counters |= {
                "memory_bytes": self.plan.memory_bytes / self.plan.scale + 64 * 8192,
                "high_water_unscaled_bytes": held * self.plan.scale,
            }
        return counters

    def _sums(self, k: int, code: str) -> dict:
        """What the island says about its block sums of one round."""
        senders = self.plan.round(k).senders_to(code)
        expected = self.layout.blocks if senders else 0
        wrong = incomplete = 0
        stale = self.faults.stale_blocks.get((k, code), 0)
        for first in range(0, expected, BURST):
            count = min(BURST, expected - first)
            lost = (k, code, first) in self.faults.lost_sums or any(
                (k, sender, code, first) in self.faults.lost for sender in senders
            )
            incomplete += count if lost else 0
            wrong += count if (k, code, first) in self.faults.wrong_sums and not lost else 0
        return {
            "round": k,
            "expected_blocks": expected,
            "exact_blocks": expected
            - wrong
            - incomplete
            - self.faults.stale_blocks.get((k, code), 0),
            "wrong_blocks": wrong,
            "stale_blocks": stale,
            "stale_rows": self.faults.stale.get((k, code), 0),
        }

    def _last_hop(self, code: str, changes: dict[str, object]) -> dict:
        city = self.plan.topology.cities[self.codes.index(code)]
        return {
            "link": f"{code}→island",
            "node": f"switch-{code}",
            "interface": f"{code}-1",
            "edge": None,
            "kind": "netem",
            "delay_ns": 0,
            "rate_bps": city.access_rate_gbps * 1e9 / self.plan.scale,
            "limit": shape_for(
                0.0, city.access_rate_gbps, self.plan.scale, MTU_BYTES
            ).limit_packets,
            "sent_bytes": 0,
            "sent_packets": 0,
            "drops": 0,
            "backlog": 0,
            **changes,
        }

    def _network_json(self) -> dict:
        topology, scale = self.plan.topology, self.plan.scale
        qdiscs = []
        for edge in topology.edges:
            interface = f"{edge.src}-{topology.out_port(edge.index)}"
            qdiscs.append(
                {
                    "node": f"switch-{edge.src}",
                    "interface": interface,
                    "edge": edge.index,
                    "kind": "netem",
                    "delay_ns": round(edge.delay_ms * 1e6),
                    "rate_bps": edge.rate_gbps * 1e9 / scale,
                    "limit": shape_for(
                        edge.delay_ms, edge.rate_gbps, scale, MTU_BYTES
                    ).limit_packets,
                    "sent_bytes": self.link_bytes[edge.index] + 128,
                    "sent_packets": self.link_bytes[edge.index] // wire_bytes(2048),
                    "drops": 0,
                    "backlog": 0,
                    **self.faults.qdisc.get(interface, {}),
                }
            )
        qdiscs += [self._last_hop(code, changes) for code, changes in self.faults.last_hops.items()]
        return {
            "aggregator_frames": self.faults.aggregator_frames,
            "island_udp": self.faults.island_udp,
            "network_up": {"boot_wall_s": 1.0, "build_wall_s": 2.5},
            "qdiscs": qdiscs,
            "switch_drops": self.faults.switch_drops,
            "rounds": [
                {"round": k, "confirmed_ns": k * 1000, "removed_ns": None}
                for k in range(self.plan.rounds)
            ],
            "start_ns": 1,
        }


def _ns(time_ms: float) -> int:
    return round(time_ms * 1e6)
