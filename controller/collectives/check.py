"""Checks a schedule by following its data; knows nothing of how it was made.

Causality: nobody sends what it does not hold yet. Exclusivity: a link carries one chunk at a
time. Completeness: everybody ends with what the collective promises. Sums: every
contribution is in each sum exactly once. Capability: only multicast nodes copy a stream to
several links, only aggregating ones add streams up. A schedule that takes over begins with
what is held then, and shares the links with what is still on its way.
"""

import heapq
from collections.abc import Sequence

import numpy as np

from controller.collectives.network import PS_PER_US, Ints
from controller.collectives.schedule import Schedule
from controller.collectives.start import Start, busy_links, columns
from controller.hostplan import HOLD, NOTHING, OWN, WITH_OWN

_NEVER = np.iinfo(np.int64).max


def check_schedule(schedule: Schedule) -> list[str]:
    """Find what is wrong with a schedule: at most a sentence of each kind.

    Returns
    -------
    list of str
        Empty if it is valid.
    """
    if np.any((schedule.route < 0) | (schedule.route >= schedule.routes.count)):
        return ["a send has a route that does not exist"]
    faults = _check_routes(schedule) + _check_links(schedule)
    if schedule.sends and int(schedule.start_ps.min()) < 0:
        faults.append("a send starts before the collective does")
    if np.any((schedule.chunk < 0) | (schedule.chunk >= schedule.task.chunks)):
        return [*faults, "a send has a chunk that the collective does not have"]
    if schedule.task.reduces:
        return faults + _check_sums(schedule)
    if schedule.start:
        return [*faults, f"a {schedule.task.collective} takes over, which only sums do"]
    return faults + _check_copies(schedule)


def _check_routes(schedule: Schedule) -> list[str]:
    """Follow the hops of each route that is used: connected, timed, and within abilities."""
    network, routes = schedule.network, schedule.routes
    for route in np.unique(schedule.route):
        fault = _route_fault(schedule, int(route))
        if fault:
            return [f"route {network.nodes[routes.source[route]].name} …: {fault}"]
    return []


def _route_fault(schedule: Schedule, route: int) -> str:
    network, routes = schedule.network, schedule.routes
    row = slice(routes.hops.first[route], routes.hops.first[route + 1])
    links, offsets = routes.hops.values[row], routes.hop_ps[row]
    begin = dict(
        zip(
            routes.sources.row(route).tolist(),
            routes.source_ps[routes.sources.first[route] : routes.sources.first[route + 1]],
            strict=True,
        )
    )
    end = dict(
        zip(
            routes.targets.row(route).tolist(),
            routes.target_ps[routes.targets.first[route] : routes.targets.first[route + 1]],
            strict=True,
        )
    )
    into: dict[int, list[int]] = {}
    out: dict[int, list[int]] = {}
    for link, offset in zip(links.tolist(), offsets.tolist(), strict=True):
        out.setdefault(int(network.src[link]), []).append(offset)
        into.setdefault(int(network.dst[link]), []).append(offset + int(network.latency_ps[link]))
    if routes.byte_ps[route] < network.byte_ps[links].max():
        return "faster than its slowest link"
    for node in {*into, *out, *begin, *end}:
        arrive, leave = into.get(node, []), out.get(node, [])
        ability, name = network.nodes[node], network.nodes[node].name
        if ability.worker and (node in begin or node in end):
            if node in begin and leave != [begin[node]]:
                return f"{name} does not send it on one link at its time"
            if node in end and arrive != [end[node]]:
                return f"{name} does not receive it on one link at its time"
            continue
        # What a switch begins with is like a stream that arrives, what it keeps like one that
        # leaves.
        arrive = [*arrive, int(begin[node])] if node in begin else arrive
        leave = [*leave, int(end[node])] if node in end else leave
        if set(arrive) != set(leave):
            return f"{name} does not pass it on at the time that it arrives"
        # A route may pass a switch twice, on the way up and on the way down.
        if len(arrive) > len(set(arrive)) and not ability.aggregates:
            return f"{name} adds streams up and cannot"
        if len(leave) > len(set(leave)) and not ability.multicast:
            return f"{name} copies a stream and cannot"
    return ""


def _check_links(schedule: Schedule) -> list[str]:
    link, begin, end, _ = schedule.occupied
    flown = columns(busy_links(schedule.start))
    link, begin, end = (
        np.concatenate([sent, others])
        for sent, others in zip((link, begin, end), flown, strict=True)
    )
    order = np.lexsort((begin, link))
    link, begin, end = link[order], begin[order], end[order]
    clash = np.flatnonzero((link[1:] == link[:-1]) & (begin[1:] < end[:-1]))
    if not len(clash):
        return []
    first = int(clash[0]) + 1
    name = schedule.network.link_name(int(link[first]))
    at_us = begin[first] / PS_PER_US
    return [f"link {name} carries two chunks at {at_us:.6g} µs ({len(clash)} clashes)"]


def _check_copies(schedule: Schedule) -> list[str]:
    """Compare each send with the first arrival of its chunk at its source."""
    network, task = schedule.network, schedule.task
    if np.any(schedule.adds):
        return [f"a send adds up, which {task.collective} does not"]
    held = np.full((len(network.nodes), task.chunks), _NEVER, dtype=np.int64)
    held[task.begins(len(network.nodes))] = 0
    node, send, offset = _ends(schedule, sources=False)
    when = schedule.start_ps[send] + offset + schedule.duration_ps[send]
    np.minimum.at(held, (node, schedule.chunk[send]), when)
    faults = []
    node, send, offset = _ends(schedule, sources=True)
    early = np.flatnonzero(held[node, schedule.chunk[send]] > schedule.start_ps[send] + offset)
    if len(early):
        at_us = schedule.start_ps[send[early[0]]] / PS_PER_US
        faults.append(
            f"{network.nodes[node[early[0]]].name} sends chunk {schedule.chunk[send[early[0]]]} "
            f"at {at_us:.6g} µs before it holds it ({len(early)} such sends)"
        )
    missing = task.ends(len(network.nodes)) & (held == _NEVER)
    if missing.any():
        who, chunk = np.argwhere(missing)[0]
        faults.append(f"{network.nodes[who].name} never gets chunk {chunk}")
    return faults


def _ends(schedule: Schedule, *, sources: bool) -> tuple[Ints, Ints, Ints]:
    """Every end of every send: node, send, offset of the end in its route."""
    routes = schedule.routes
    table = routes.sources if sources else routes.targets
    offset = routes.source_ps if sources else routes.target_ps
    lengths = table.lengths[schedule.route]
    send = np.repeat(np.arange(schedule.sends, dtype=np.int64), lengths)
    within = np.arange(len(send), dtype=np.int64) - (np.cumsum(lengths) - lengths)[send]
    index = table.first[schedule.route][send] + within
    return table.values[index], send, offset[index]


def _check_sums(schedule: Schedule) -> list[str]:
    """Replay with each value as the set of its contributors, a bit per worker."""
    network, task = schedule.network, schedule.task
    bit = {worker: 1 << i for i, worker in enumerate(task.workers)}
    everyone = (1 << len(task.workers)) - 1
    # Arrivals come before sends of the same moment: what has arrived can be sent.
    events: list[tuple[int, int, int, int]] = []
    pending: dict[int, int] = {}
    for kind, (node, send, offset) in enumerate(
        (_ends(schedule, sources=False), _ends(schedule, sources=True))
    ):
        when = schedule.start_ps[send] + offset + (0 if kind else schedule.duration_ps[send])
        events += zip(when.tolist(), [kind] * len(send), send.tolist(), node.tolist(), strict=True)
    value: dict[tuple[int, int], int] = {}
    chunks, adds = schedule.chunk.tolist(), schedule.adds.tolist()
    if schedule.start:
        for who, row in enumerate(schedule.start.held):
            value.update({(who, chunk): held for chunk, held in enumerate(row)})
    for number, flight in enumerate(schedule.start.flights if schedule.start else ()):
        # Flights follow the sends in number; only their arrival is still to come.
        chunks.append(flight.chunk)
        adds.append(flight.adds)
        pending[schedule.sends + number] = flight.content
        events.append((flight.arrival_ps, 0, schedule.sends + number, flight.target))
    heapq.heapify(events)
    while events:
        _, leaves, number, who = heapq.heappop(events)
        key = (who, chunks[number])
        held = value.get(key, bit.get(who, 0))
        name = network.nodes[who].name
        if leaves:
            if held == 0:
                return [f"{name} sends chunk {key[1]}, of which it has nothing"]
            if pending.get(number, 0) & held:
                return [f"chunk {key[1]}: a contribution is added twice on its way from {name}"]
            pending[number] = pending.get(number, 0) | held
            continue
        arrived = pending.get(number, 0)
        if adds[number] and arrived & held:
            return [f"{name} adds a contribution to chunk {key[1]} twice"]
        if not adds[number] and held & ~arrived:
            return [f"chunk {key[1]} that arrives at {name} lacks what is replaced by it"]
        value[key] = arrived | held if adds[number] else arrived
    for who, chunk in np.argwhere(task.ends(len(network.nodes))).tolist():
        if value.get((who, chunk), bit[who]) != everyone:
            return [f"the sum of chunk {chunk} at {network.nodes[who].name} is not complete"]
    return []


def check_start(start: Start, held: Sequence[Sequence[int]], workers: Sequence[int]) -> list[str]:
    """Whether a start takes no more than workers have.

    Parameters
    ----------
    start
        What a schedule begins with.
    held
        What every node held before, contributions per node and chunk.
    workers
        Their node numbers.
    """
    own = {worker: 1 << i for i, worker in enumerate(workers)}
    for node, origins in enumerate(start.origin):
        for chunk, origin in enumerate(origins):
            had, mine = held[node][chunk], own.get(node, 0)
            can = {HOLD: had, OWN: mine, NOTHING: 0, WITH_OWN: had | mine}
            twice = origin == WITH_OWN and had & mine
            if twice or can.get(origin) != start.held[node][chunk]:
                return [f"node {node} cannot begin chunk {chunk} with what the start says"]
    return []
