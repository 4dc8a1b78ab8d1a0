"""From a schedule on the testbed's topology to what its islands run."""

from collections.abc import Sequence

from controller.collectives.network import PS_PER_US, Network
from controller.collectives.program import node_programs
from controller.collectives.schedule import Schedule
from controller.hostplan import HostPath, HostPlan, HostStep, Release
from testbed.errors import InputError
from testbed.topology import Topology

ALL_REDUCE = "all-reduce"
BYTES_PER_US_OF_GBPS = 125.0


def host_plan(
    schedule: Schedule, topology: Topology, *, bound_us: float, bound: str, release: Release
) -> HostPlan:
    """Turn a schedule on `controller.collectives.generators.cities` into steps of hosts.

    Raises
    ------
    InputError
        It is no all-reduce, or uses multicast or aggregation in the network.
    """
    task = schedule.task
    if task.collective != ALL_REDUCE:
        raise InputError(f"hosts run an all-reduce, not {task.collective}")
    programs = node_programs(schedule)
    paths, path_of = _paths(schedule, topology)
    start_ms = (schedule.start_ps / PS_PER_US / 1e3).tolist()
    end_ms = (schedule.arrival_ps / PS_PER_US / 1e3).tolist()
    route = schedule.route.tolist()
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
                    path_of[route[step.transfer]],
                    start_ms[step.transfer],
                    end_ms[step.transfer],
                    step.after,
                )
                for step in programs[city]
            )
            for city in range(len(topology.codes))
        ),
    )


def _paths(schedule: Schedule, topology: Topology) -> tuple[tuple[HostPath, ...], dict[int, int]]:
    """The paths in use, each once, and which one each route in use is."""
    network, routes = schedule.network, schedule.routes
    known: dict[tuple[int, int, tuple[int, ...]], int] = {}
    tags: dict[tuple[int, int], int] = {}
    paths: list[HostPath] = []
    path_of: dict[int, int] = {}
    for route in sorted(set(schedule.route.tolist())):
        ends = int(routes.source[route]), int(routes.target[route])
        # The first link and the last one are access links.
        edges = edges_between(network, topology, ends, routes.hops.row(route).tolist()[1:-1])
        way = (*ends, edges)
        if way not in known:
            known[way] = len(paths)
            tag = tags[ends] = tags.get(ends, -1) + 1
            rate_gbps = PS_PER_US / float(routes.byte_ps[route]) / BYTES_PER_US_OF_GBPS
            paths.append(
                HostPath(src=ends[0], dst=ends[1], tag=tag, edges=edges, rate_gbps=rate_gbps)
            )
        path_of[route] = known[way]
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
    access = 2 * len(topology.cities)
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
