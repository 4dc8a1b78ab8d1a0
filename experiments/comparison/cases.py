"""Which experiments a comparison consists of."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from controller.schedule import load_schedule
from experiments.config import NAMED_SCHEDULES, ExperimentConfig
from experiments.identity import identity
from testbed.topology import load_topology

MEMORIES_BYTES = (0, 300_000_000, 32_000_000_000)
ABLATED = ("triangles", "all-to-all")
DEFAULT_ROUNDS = 2
_QUICK_DIVISOR = 10

Group = Literal["schedule", "ablation", "optimised"]
_SWITCHED_OFF = ((True, False), (False, True), (False, False))
"""Multicast and aggregation of the ablations; with both on it is a schedule's own row."""


@dataclass(frozen=True)
class Case:
    """One row to be filled: an experiment, and why it is in the table."""

    group: Group
    config: ExperimentConfig


def quick_payload_bytes(config: ExperimentConfig) -> int:
    """The payload of a quick comparison: a tenth."""
    return max(1, config.payload_bytes // _QUICK_DIVISOR)


def base_config(config: ExperimentConfig, *, quick: bool) -> ExperimentConfig:
    """Settle what all rows share: virtual time, two rounds if none are given, the payload.

    Multicast and aggregation are on, but for the rows of the ablations.
    """
    changes: dict[str, object] = {"clock": "virtual", "multicast": True, "aggregation": True}
    if "rounds" not in config.model_fields_set:
        changes["rounds"] = DEFAULT_ROUNDS
    if quick:
        changes["payload_bytes"] = quick_payload_bytes(config)
    return config.model_copy(update=changes)


def named_cases(base: ExperimentConfig, schedules: tuple[str, ...] = NAMED_SCHEDULES) -> list[Case]:
    """Rows of the named schedules: each memory, then the ablations with the largest one.

    Each runs for one whole period at least: the slowest of its rounds is its T.
    """
    cases = [
        _case("schedule", base, schedule=schedule, memory_bytes=memory_bytes)
        for memory_bytes in MEMORIES_BYTES
        for schedule in schedules
    ]
    for schedule in (name for name in ABLATED if name in schedules):
        for multicast, aggregation in _SWITCHED_OFF:
            # Copies follow the shortest paths: there are no trees to ask for.
            trees = base.trees if multicast else "best"
            cases.append(
                _case(
                    "ablation",
                    base,
                    schedule=schedule,
                    memory_bytes=MEMORIES_BYTES[-1],
                    multicast=multicast,
                    aggregation=aggregation,
                    trees=trees,
                    # Only aggregators keep anything to resend.
                    resend_ms=base.resend_ms if aggregation else 0.0,
                    repair=base.repair and aggregation,
                )
            )
    return cases


def optimised_case(
    base: ExperimentConfig, schedule: Path, memory_bytes: int, settings: Mapping[str, object]
) -> Case:
    """Row of a schedule that was searched for with this memory."""
    return _case("optimised", base, schedule=str(schedule), memory_bytes=memory_bytes, **settings)


def comparison_id(cases: list[Case], *, budget_s: float) -> str:
    """Eight hexadecimal digits that follow from everything that can change the table."""
    parts = [identity(case.config) for case in cases] + [f"budget {budget_s:g}"]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:8]


def _case(group: Group, base: ExperimentConfig, **changes: object) -> Case:
    config = base.model_copy(update=changes)
    period = len(load_schedule(config.schedule, load_topology(config.topology)).rounds)
    if period > config.rounds:
        config = config.model_copy(update={"rounds": period})
    return Case(group, config)
