"""Schedules as JSON: everything that is needed to check, draw or run one again."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from controller.collectives.network import (
    PS_PER_US,
    Ints,
    LinkSpec,
    Network,
    Node,
    make_network,
)
from controller.collectives.routes import Way, collect
from controller.collectives.schedule import Model, Schedule
from controller.collectives.task import make_task
from testbed.errors import InputError
from testbed.jsonmodel import read_model

VERSION = 1


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class _NodeFile(_Strict):
    name: str
    worker: bool
    multicast: bool
    aggregates: bool
    group: str


class _LinkFile(_Strict):
    src: int
    dst: int
    latency_ps: int = Field(ge=0)
    byte_ps: float = Field(gt=0)


class _RouteFile(_Strict):
    sources: tuple[tuple[int, int], ...] = Field(min_length=1)
    targets: tuple[tuple[int, int], ...] = Field(min_length=1)
    hops: tuple[tuple[int, int], ...] = Field(min_length=1)


class _ScheduleFile(_Strict):
    version: int
    algorithm: str
    model: Model
    collective: str
    payload_bytes: int
    pieces: int
    root: int
    network: str
    nodes: tuple[_NodeFile, ...]
    links: tuple[_LinkFile, ...]
    routes: tuple[_RouteFile, ...]
    sends: tuple[tuple[int, int, int, bool], ...]
    time_us: float


def schedule_object(schedule: Schedule) -> dict[str, Any]:
    """A schedule as one JSON object.

    ``pieces`` is the number of chunks that the payload is cut into; a send is route, chunk,
    start in picoseconds, and whether it adds; ends and hops of a route are pairs of a node or
    link and its offset in picoseconds.
    """
    network, task, routes = schedule.network, schedule.task, schedule.routes
    return {
        "version": VERSION,
        "algorithm": schedule.algorithm,
        "model": schedule.model,
        "collective": task.collective,
        "payload_bytes": task.payload_bytes,
        "pieces": task.parts * task.split,
        "root": task.root,
        "network": network.name,
        "nodes": [vars(node) for node in network.nodes],
        "links": [
            {"src": s, "dst": d, "latency_ps": latency_ps, "byte_ps": byte_ps}
            for s, d, latency_ps, byte_ps in zip(
                network.src.tolist(),
                network.dst.tolist(),
                network.latency_ps.tolist(),
                network.byte_ps.tolist(),
                strict=True,
            )
        ],
        "routes": [
            {
                "sources": _pairs(routes.sources.first, routes.sources.values, routes.source_ps, i),
                "targets": _pairs(routes.targets.first, routes.targets.values, routes.target_ps, i),
                "hops": _pairs(routes.hops.first, routes.hops.values, routes.hop_ps, i),
            }
            for i in range(routes.count)
        ],
        "sends": list(
            zip(
                schedule.route.tolist(),
                schedule.chunk.tolist(),
                schedule.start_ps.tolist(),
                schedule.adds.tolist(),
                strict=True,
            )
        ),
        "time_us": schedule.time_us,
    }


def write_schedule_file(path: Path, schedule: Schedule) -> None:
    """Write a schedule as JSON."""
    path.write_text(json.dumps(schedule_object(schedule), allow_nan=False) + "\n")


def read_schedule_file(path: Path) -> Schedule:
    """Read a schedule; whether it is valid is for the checker to say.

    Raises
    ------
    InputError
        The file is missing or damaged, of another version, or names what it does not have.
    """
    return _rebuild(read_model(_ScheduleFile, path, "the schedule"), str(path))


def parse_schedule(text: str, where: str) -> Schedule:
    """Read a schedule from JSON text; see `read_schedule_file`."""
    try:
        return _rebuild(_ScheduleFile.model_validate_json(text), where)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "schedule"
        raise InputError(f"{where}: {place}: {first['msg']}") from error


def _rebuild(file: _ScheduleFile, where: str) -> Schedule:
    if file.version != VERSION:
        raise InputError(f"{where}: version {file.version} is not known; expected {VERSION}")
    nodes = [Node(n.name, n.worker, n.multicast, n.aggregates, n.group) for n in file.nodes]
    links = [
        LinkSpec(
            k.src, k.dst, k.latency_ps / PS_PER_US, PS_PER_US / k.byte_ps, f"{where}: link {i}"
        )
        for i, k in enumerate(file.links)
    ]
    network = make_network(file.network, nodes, links)
    task = make_task(
        network, file.collective, file.payload_bytes, chunks=file.pieces, root=file.root
    )
    _check_numbers(file, network, task.chunks, where)
    ways = [Way(route.sources, route.targets, route.hops) for route in file.routes]
    table = np.array(file.sends, dtype=np.int64).reshape(-1, 4)
    return Schedule(
        network,
        task,
        file.model,
        file.algorithm,
        collect(network, ways),
        table[:, 0],
        table[:, 1],
        table[:, 2],
        table[:, 3].astype(np.bool_),
    )


def _check_numbers(file: _ScheduleFile, network: Network, chunks: int, where: str) -> None:
    """Refuse numbers of nodes, links, routes and chunks that do not exist."""
    for i, route in enumerate(file.routes):
        for node, _ in (*route.sources, *route.targets):
            if not 0 <= node < len(network.nodes):
                raise InputError(f"{where}: routes.{i}: there is no node {node}")
        for link, _ in route.hops:
            if not 0 <= link < network.links:
                raise InputError(f"{where}: routes.{i}: there is no link {link}")
    for i, (used, chunk, _, _) in enumerate(file.sends):
        if not 0 <= used < len(file.routes):
            raise InputError(f"{where}: sends.{i}: there is no route {used}")
        if not 0 <= chunk < chunks:
            raise InputError(f"{where}: sends.{i}: there is no chunk {chunk}")


def _pairs(first: Ints, values: Ints, offsets: Ints, row: int) -> list[list[int]]:
    part = slice(int(first[row]), int(first[row + 1]))
    return [list(pair) for pair in zip(values[part].tolist(), offsets[part].tolist(), strict=True)]
