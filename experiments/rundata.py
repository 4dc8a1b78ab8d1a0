"""Everything that one finished run left in its folder, read and validated."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from agents.state import SUFFIX, read_history, read_states
from agents.weights import table_shape
from agents.wire import StreamLayout, stream_layout, wire_bytes
from controller.plan import Plan, read_plan
from experiments.events import ROLES, Trace, read_trace
from experiments.incarnations import (
    FaultRecord,
    Incarnation,
    Reaction,
    incarnations,
    merge_counters,
    read_faults,
    read_reactions,
    superseded,
)
from experiments.network_record import NetworkRecord, read_network
from experiments.results import read_json
from experiments.runtime import Runtime, read_runtime
from experiments.trust import Trust, read_trust
from testbed.errors import InputError


@dataclass(frozen=True)
class RunData:
    """The files of a run.

    ``counters`` is by role, then by city code, over all lives of an agent; ``states``
    holds every island's parameter vectors, shape (rounds + 1, elements), by city index.
    ``unrecorded`` are agents that were killed before they could write anything down;
    ``counted_until_ns`` has those that were killed later, whose records are whole, and
    since when their counters lack something, after the start of round 0. ``crashed`` are
    cities whose island was killed for good; its vectors end with the last that it had.
    """

    run_dir: Path
    plan: Plan
    runtime: Runtime
    network: NetworkRecord
    trust: Trust
    trace: Trace
    layout: StreamLayout
    counters: dict[str, dict[str, dict[str, Any]]]
    states: tuple[npt.NDArray[np.int32], ...]
    faults: tuple[FaultRecord, ...] = ()
    reactions: tuple[Reaction, ...] = ()
    crashed: tuple[str, ...] = ()
    unrecorded: tuple[str, ...] = ()
    counted_until_ns: Mapping[str, int] = field(default_factory=dict)

    def block_bytes(self) -> npt.NDArray[np.int64]:
        """Bytes on the wire of each block of a stream, shape (blocks,), scaled."""
        sizes = np.full(self.layout.blocks, wire_bytes(self.layout.elements), dtype=np.int64)
        sizes[-1] = wire_bytes(self.layout.last_elements)
        return sizes


def load_run(run_dir: Path) -> RunData:
    """Read a run's folder.

    Raises
    ------
    InputError
        A file is missing or damaged: the run did not finish.
    """
    plan = read_plan(run_dir / "plan.json")
    runtime = read_runtime(run_dir / "runtime.json")
    raw = run_dir / "raw"
    roles = ROLES if plan.aggregation else ROLES[:1]
    layout = stream_layout(plan.payload_bytes / plan.scale, runtime.mtu_bytes)
    shape = table_shape(layout)
    faults = read_faults(raw)
    codes = plan.topology.codes
    lives = {role: {code: incarnations(role, code, faults) for code in codes} for role in roles}
    killed = [
        life
        for by_city in lives.values()
        for all_lives in by_city.values()
        for life in all_lives
        if life.killed
    ]
    return RunData(
        run_dir=run_dir,
        plan=plan,
        runtime=runtime,
        network=read_network(raw / "network.json"),
        trust=read_trust(run_dir),
        trace=read_trace(raw, plan.topology, aggregation=plan.aggregation, faults=faults),
        layout=layout,
        counters={
            role: {code: _counters(raw, lives[role][code]) for code in codes} for role in roles
        },
        states=tuple(_states(raw, lives[ROLES[0]][code][-1], shape, plan.rounds) for code in codes),
        crashed=tuple(code for code in codes if lives[ROLES[0]][code][-1].killed),
        faults=faults,
        reactions=read_reactions(raw),
        unrecorded=tuple(life.stem for life in killed if not _told(raw, life).exists()),
        counted_until_ns={
            life.stem: int(read_json(_told(raw, life)).get("until_ns", 0))
            for life in killed
            if _told(raw, life).exists()
        },
    )


def _states(
    raw_dir: Path, life: Incarnation, shape: tuple[int, int], rounds: int
) -> npt.NDArray[np.int32]:
    """An island's vectors by round, shape (rounds + 1, elements); a dead one keeps its last."""
    path = raw_dir / f"{life.stem}{SUFFIX}"
    if not life.killed:
        return read_states(path, shape, rounds)
    history = read_history(path, shape)
    if history is None:
        raise InputError(f"{path} holds no state of the island that was killed")
    known = history.reshape(len(history), -1)
    return known[np.minimum(np.arange(rounds + 1), len(known) - 1)]


def _told(raw_dir: Path, life: Incarnation) -> Path:
    return raw_dir / f"{life.stem}.json"


def _counters(raw_dir: Path, lives: Sequence[Incarnation]) -> dict[str, Any]:
    """What an agent counted in all its lives; one that was killed may not have told."""
    paths = [(life, _told(raw_dir, life)) for life in lives]
    told = [read_json(path) for life, path in paths if path.exists() or not life.killed]
    return merge_counters(superseded(told))
