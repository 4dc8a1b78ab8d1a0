"""How an agent begins and ends, whatever it is."""

import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from agents.context import AgentContext
from testbed.errors import CliquenetError


def run_agent(role: str, ctx: AgentContext, body: Callable[[AgentContext], None]) -> int:
    """Run an agent to its end and turn any exception into one line and status 1."""
    try:
        body(ctx)
    except (CliquenetError, OSError) as error:
        message = str(error)
    except Exception as error:  # an agent must say what ended it, whatever it was
        frame = traceback.extract_tb(error.__traceback__)[-1]
        message = f"{type(error).__name__}: {error} ({Path(frame.filename).name}:{frame.lineno})"
    else:
        return 0
    print(f"{role} {ctx.code}: {message}", file=sys.stderr, flush=True)
    return 1
