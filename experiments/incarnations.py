"""Agents that ended and started again within a run: what they are called, what they left.

The emulation writes ``raw/faults.json``, the analysis reads it; the files of an
agent's second life lie beside those of its first.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from testbed.errors import InputError

T = TypeVar("T")
FAULTS_FILE = "faults.json"
REACTIONS_FILE = "reactions.json"
_FINDINGS = (
    "complete_blocks",
    "exact_blocks",
    "stale_blocks",
    "incomplete_blocks",
    "missing_blocks",
    "missing_contributions",
    "stale_rows",
)
"""What an island says of the sums of a round, beside those that are wrong."""


class FaultRecord(BaseModel):
    """One fault that was asked for, and what came of it; times since the start of round 0."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    event: str
    target: str
    """City or link."""
    role: str = ""
    """Of the agent that ended."""
    at_ns: int
    happened_ns: int | None = None
    """``None``: the run was over by then."""
    ended_ns: int | None = None
    """When it was over: the agent started again, the link came up; ``None``: not in the rounds."""
    directions: tuple[str, ...] = ()
    """Of links, such as ``nyc→chi``."""
    lives: int = 0
    """How many times the agent had been started before it ended."""
    signal: str = ""


class Reaction(BaseModel):
    """What the controller did; its time since the start of round 0."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    event: str
    """``link``, ``switch``: it was told of one; ``reroute``, ``round``: it did something;
    ``late``: a round began that it had not installed everywhere."""
    at_ns: int
    state: str = ""
    """Of the link or the switch: up, down."""
    link: str = ""
    rounds: tuple[int, ...] = ()
    """That take other trees now."""
    rules: dict[str, int] = {}
    """How many rules are new, changed and stale, by kind."""
    cut_off: tuple[tuple[int, str, str], ...] = ()
    """Round, sender and receiver between whom no way is left."""
    round: int | None = None
    action: str = ""
    """What became of the rules of ``round``; −1 are those of single packets."""
    dpid: int = 0
    switches: tuple[str, ...] = ()
    """That lacked the rules of ``round``."""


@dataclass(frozen=True)
class Incarnation:
    """One life of an agent."""

    role: str
    city: str
    restart: int
    killed: bool
    """It had no time to finish: its counters end before it did."""

    @property
    def stem(self) -> str:
        """Name of its files without suffix."""
        number = f".{self.restart}" if self.restart else ""
        return f"{self.role}-{self.city}{number}"


def read_faults(raw_dir: Path) -> tuple[FaultRecord, ...]:
    """Read what the run's faults did; a run without the file had none.

    Raises
    ------
    InputError
        The file is damaged.
    """
    return _read(raw_dir / FAULTS_FILE, TypeAdapter(tuple[FaultRecord, ...]))


def read_reactions(raw_dir: Path) -> tuple[Reaction, ...]:
    """Read what the controller did meanwhile; raises as `read_faults`."""
    return _read(raw_dir / REACTIONS_FILE, TypeAdapter(tuple[Reaction, ...]))


def _read(path: Path, kind: TypeAdapter[tuple[T, ...]]) -> tuple[T, ...]:
    if not path.exists():
        return ()
    try:
        return kind.validate_python(json.loads(path.read_text()))
    except (ValueError, ValidationError) as error:
        raise InputError(f"{path} is damaged: {str(error).splitlines()[0]}") from error


def incarnations(role: str, city: str, faults: tuple[FaultRecord, ...]) -> list[Incarnation]:
    """All lives of one agent, in order."""
    mine = [f for f in faults if (f.role, f.target) == (role, city) and f.happened_ns is not None]
    killed = {f.lives - 1: f.signal == "kill" for f in mine}
    restarted = sum(f.ended_ns is not None for f in mine)
    return [Incarnation(role, city, n, killed.get(n, False)) for n in range(restarted + 1)]


def superseded(told: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out what an island found about sums that another life of it answers for.

    A life goes on from the round of which it was fixed what the island sends. What an
    earlier one had received of that round and later ones is gone with it, and so are
    its findings, except that a sum was wrong. A later one does not receive what was before.

    Parameters
    ----------
    told
        Counters of the lives, in order; those without ``first_round`` stay as they are.
    """
    if not all("first_round" in one for one in told):
        return list(told)
    firsts: list[int] = [one["first_round"] for one in told]
    kept = []
    for number, one in enumerate(told):
        end = min(firsts[number + 1 :], default=len(one["rounds"]))
        own = range(firsts[number], end)
        rounds = [
            entry
            if entry["round"] in own
            else {k: 0 if k in _FINDINGS else v for k, v in entry.items()}
            for entry in one["rounds"]
        ]
        kept.append({**one, "rounds": rounds})
    return kept


def merge_counters(told: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Put together what an agent counted in several lives.

    Counts add up; sizes and marks of memory (``…_bytes``, ``…_slots``) and counters
    of the host (``udp``), which outlive the agent, are the largest; of a round, what
    is ``expected`` is the same in all lives.
    """
    if len(told) <= 1:
        return dict(told[0]) if told else {}
    return {key: _merge(key, [t[key] for t in told if key in t]) for key in {**told[0], **told[-1]}}


def _merge(key: str, told: Sequence[Any]) -> Any:
    values = [value for value in told if value is not None]
    if not values:
        return None
    first = values[0]
    if isinstance(first, dict):
        if key == "udp":
            return values[-1]
        return {
            k: _merge(k, [v[k] for v in values if k in v]) for k in dict.fromkeys(chain(*values))
        }
    if isinstance(first, list):
        if not all(isinstance(entry, dict) and "round" in entry for entry in chain(*values)):
            return [entry for value in values for entry in value]
        rounds = {entry["round"] for value in values for entry in value}
        return [
            merge_counters([e for value in values for e in value if e["round"] == k])
            for k in sorted(rounds)
        ]
    if isinstance(first, bool) or not isinstance(first, int | float) or key == "round":
        return values[-1]
    if key.startswith("first_"):
        return min(values)
    largest = key.startswith("expected") or key.endswith(("_bytes", "slots", "_ns"))
    return max(values) if largest else sum(values)
