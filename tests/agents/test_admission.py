"""Valid datagrams that are not meant for this agent."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agent_plans import make_plan

from agents.admission import misfit
from agents.bursts import Run
from agents.context import AgentContext
from agents.wire import PacketType

NYC, LON = 0, 1


@pytest.mark.parametrize(
    ("kind", "changes", "reason"),
    [
        (PacketType.DATA, {}, ""),
        (PacketType.DATA, {"round": 1}, ""),
        (PacketType.DATA, {"round": 2}, "round"),
        (PacketType.DATA, {"block": 8}, ""),
        (PacketType.DATA, {"block": 9}, "block"),
        (PacketType.DATA, {"block": 2**64 - 1}, "block"),
        (PacketType.DATA, {"clique": 1}, "clique"),
        (PacketType.DATA, {"bitmap": 0b110}, "contributor"),
        (PacketType.DATA, {"src": 255}, "contributor"),
        (PacketType.AGG, {"src": NYC, "bitmap": 0b110}, ""),
        (PacketType.AGG, {"bitmap": 0b110}, "source"),
    ],
)
def test_reasons(kind: PacketType, changes: dict[str, Any], reason: str) -> None:
    ctx = AgentContext(plan=make_plan(blocks=10, rounds=2), city=NYC, start_ns=0, out_dir=Path())
    values = np.zeros((2, 2048), np.int32)
    run = Run(
        round=0, clique=0, src=LON, cause=0, bitmap=0b010, block=0, epoch=0, seq=0, values=values
    )
    assert misfit(run._replace(**changes), kind, ctx) == reason
