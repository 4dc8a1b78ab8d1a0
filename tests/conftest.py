"""Settings of all tests."""

import signal

import pytest
from hypothesis import settings

# A busy machine must not fail a test, and a failure must come back.
settings.register_profile("cliquenet", deadline=None, derandomize=True)
settings.load_profile("cliquenet")


@pytest.fixture(scope="session", autouse=True)
def _interrupts_arrive() -> None:
    """A shell starts background jobs with Ctrl-C ignored, and their children inherit it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
