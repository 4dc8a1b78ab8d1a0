"""From a schedule on the testbed's topology to what its islands run."""

from collections.abc import Sequence

import numpy as np

from controller.collectives.generators import first_edge_link
from controller.collectives.network import PS_PER_US, Network
from controller.collectives.program import node_programs
from controller.collectives.routes import collect, path_way
from controller.collectives.schedule import Schedule
from controller.collectives.task import make_task
from controller.hostplan import HostPath, HostPlan, HostStep, Release
from testbed.errors import InputError
from testbed.topology import Topology

ALL_REDUCE = "all-reduce"
PS_PER_MS = PS_PER_US * 1000
BYTES_PER_US_OF_GBPS = 125.0


def host_plan(
    schedule: Schedule,
    topology: Topology,
    *,
    bound_us: float,
    bound: str,
    release: Release,
    former: HostPlan | None = None,
) -> HostPlan:
    """Turn a schedule on `controller.collectives.generators.cities` into steps of hosts.

    Parameters
    ----------
    schedule, topology
        What is to be done, and where.
    bound_us, bound
        Lower bound of its time, and which one it is.
    release
        When sends may begin.
    former
        What the schedule takes over from: its paths come first, under their numbers.

    Raises
    ------
    InputError
        It is no all-reduce, or uses multicast or aggregation in the network.
    """
    task = schedule.task
    if task.collective != ALL_REDUCE:
        raise InputError(f"hosts run an all-reduce, not {task.collective}")
    programs = node_programs(schedule)
    paths, path_of = _paths(schedule, topology, former)
    flown = len(schedule.transfers) - schedule.sends
    begins = [t.arrival_ps for t in schedule.transfers[:flown]] + schedule.start_ps.tolist()
    times_ms = {
        t.transfer: (begin / PS_PER_MS, t.arrival_ps / PS_PER_MS)
        for begin, t in zip(begins, schedule.transfers, strict=True)
    }
    return HostPlan(
        algorithm=schedule.algorithm,
        model=schedule.model,
        release=release,
        payload_bytes=task.payload_bytes,
        chunks=task.chunks,
        time_ms=schedule.time_us / 1e3,
        bound_ms=bound_us / 1e3,
        bound=bound,
        paths=paths,
        steps=tuple(
            tuple(
                HostStep(
                    step.kind,
                    step.transfer,
                    step.chunk,
                    path_of[step.transfer],
                    *times_ms[step.transfer],
                    step.after,
                )
                for step in programs[city]
            )
            for city in range(len(topology.codes))
        ),
        origins=schedule.start.origin[: len(topology.codes)] if schedule.start else (),
    )


def schedule_of(hosts: HostPlan, topology: Topology, network: Network) -> Schedule:
    """The schedule that `host_plan` was given, which takes over from none.

    Parameters
    ----------
    hosts, topology
        What hosts run, and where.
    network
        The one that the schedule was made for.
    """
    access = first_edge_link(topology)
    cities = len(topology.codes)
    ways = [
        path_way(network, [2 * p.src, *(access + edge for edge in p.edges), 2 * p.dst + 1])
        for p in hosts.paths
    ]
    adds = {s.transfer for steps in hosts.steps for s in steps if s.kind == "reduce"}
    sends = {s.transfer: s for steps in hosts.steps for s in steps if s.kind == "send"}
    listed = [sends[number] for number in range(len(sends))]
    task = make_task(network, ALL_REDUCE, hosts.payload_bytes, chunks=hosts.chunks)
    if len(task.workers) != cities:
        raise InputError(f"{network.name} has {len(task.workers)} workers, not {cities}")
    return Schedule(
        network,
        task,
        hosts.model,
        hosts.algorithm,
        collect(network, ways),
        route=np.array([step.path for step in listed], dtype=np.int64),
        chunk=np.array([step.chunk for step in listed], dtype=np.int64),
        start_ps=np.array([round(step.start_ms * PS_PER_MS) for step in listed], dtype=np.int64),
        adds=np.array([number in adds for number in range(len(listed))], dtype=np.bool_),
    )


def _paths(
    schedule: Schedule, topology: Topology, former: HostPlan | None
) -> tuple[tuple[HostPath, ...], dict[int, int]]:
    """The paths in use, each once, and which one each transfer takes."""
    network, routes = schedule.network, schedule.routes
    paths = list(former.paths) if former else []
    steps = (step for listed in former.steps for step in listed) if former else ()
    path_of = {step.transfer: step.path for step in steps}
    known: dict[tuple[int, int, tuple[int, ...], float], int] = {}
    tags: dict[tuple[int, int], int] = {}
    for number, path in enumerate(paths):
        known[path.src, path.dst, path.edges, path.rate_gbps] = number
        tags[path.src, path.dst] = max(tags.get((path.src, path.dst), -1), path.tag)
    number_of: dict[int, int] = {}
    for route in sorted(set(schedule.route.tolist())):
        ends = int(routes.source[route]), int(routes.target[route])
        # The first link and the last one are access links.
        edges = edges_between(network, topology, ends, routes.hops.row(route).tolist()[1:-1])
        rate_gbps = PS_PER_US / float(routes.byte_ps[route]) / BYTES_PER_US_OF_GBPS
        way = (*ends, edges, rate_gbps)
        if way not in known:
            known[way] = len(paths)
            tag = tags[ends] = tags.get(ends, -1) + 1
            paths.append(
                HostPath(src=ends[0], dst=ends[1], tag=tag, edges=edges, rate_gbps=rate_gbps)
            )
        number_of[route] = known[way]
    first = schedule.start.first_transfer if schedule.start else 0
    path_of |= {first + i: number_of[route] for i, route in enumerate(schedule.route.tolist())}
    return tuple(paths), path_of


def edges_between(
    network: Network, topology: Topology, ends: tuple[int, int], links: Sequence[int]
) -> tuple[int, ...]:
    """Edges of a way from city to city: links of `controller.collectives.generators.cities`.

    Parameters
    ----------
    network, topology
        Where the links, and the edges, lie.
    ends
        City indices.
    links
        Between the switches, in order.

    Raises
    ------
    InputError
        They do not lead from one city to the other.
    """
    access = first_edge_link(topology)
    edges = tuple(link - access for link in links)
    known = all(0 <= edge < len(topology.edges) for edge in edges)
    way = [topology.edges[edge] for edge in edges] if known else []
    source, target = (topology.codes[city] for city in ends)
    froms = [source, *(edge.dst for edge in way)]
    tos = [*(edge.src for edge in way), target]
    if not known or froms != tos:
        raise InputError(
            f"{network.name}: the way from {source} to {target} is not one of the testbed"
        )
    return edges
