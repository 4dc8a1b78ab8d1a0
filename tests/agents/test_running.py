"""An agent ends with a status, and one line if it failed."""

from pathlib import Path

import pytest
from agent_plans import make_plan

from agents.context import AgentContext
from agents.running import run_agent
from testbed.errors import InputError


def test_an_agent_ends_with_one_line_whatever_happens(capsys: pytest.CaptureFixture[str]) -> None:
    def known(_: AgentContext) -> None:
        raise InputError("no such thing")

    def unknown(_: AgentContext) -> None:
        raise ZeroDivisionError("oops")

    ctx = AgentContext(plan=make_plan(), city=0, start_ns=10**9, out_dir=Path())
    assert run_agent("island", ctx, known) == 1
    assert run_agent("island", ctx, unknown) == 1
    assert run_agent("island", ctx, lambda _: None) == 0
    first, second = capsys.readouterr().err.splitlines()
    assert first == "island nyc: no such thing"
    assert second.startswith("island nyc: ZeroDivisionError: oops (test_running.py:")
