"""What tests of the agents share."""

from collections.abc import Iterator

import pytest
from agent_processes import Processes


@pytest.fixture
def processes() -> Iterator[Processes]:
    """Agents as processes; whatever is left at the end is killed."""
    made = Processes()
    yield made
    made.kill_all()
