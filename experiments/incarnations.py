"""Agents that ended and started again within a run: what they are called, what they left.

The emulation writes ``raw/faults.json``, the analysis reads it; the files of an
agent's second life lie beside those of its first.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from testbed.errors import InputError

FAULTS_FILE = "faults.json"


class FaultRecord(BaseModel):
    """One fault that was asked for, and what came of it; times since the start of round 0."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    event: str
    city: str
    role: str = ""
    at_ns: int
    happened_ns: int | None = None
    """``None``: the run was over by then."""
    restarted_ns: int | None = None
    lives: int = 0
    """How many times the agent had been started before it ended."""
    signal: str = ""


@dataclass(frozen=True)
class Incarnation:
    """One life of an agent."""

    role: str
    city: str
    restart: int
    killed: bool
    """It had no time to write anything down."""

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
    path = raw_dir / FAULTS_FILE
    if not path.exists():
        return ()
    try:
        return TypeAdapter(tuple[FaultRecord, ...]).validate_python(json.loads(path.read_text()))
    except (ValueError, ValidationError) as error:
        raise InputError(f"{path} is damaged: {str(error).splitlines()[0]}") from error


def incarnations(role: str, city: str, faults: tuple[FaultRecord, ...]) -> list[Incarnation]:
    """All lives of one agent, in order."""
    mine = [f for f in faults if (f.role, f.city) == (role, city) and f.happened_ns is not None]
    killed = {f.lives - 1: f.signal == "kill" for f in mine}
    restarted = sum(f.restarted_ns is not None for f in mine)
    return [Incarnation(role, city, n, killed.get(n, False)) for n in range(restarted + 1)]
