"""SIGTERM and SIGHUP end a command as Ctrl-C does."""

import os
import signal

import pytest
import typer

from testbed.commandline import INTERRUPTED, run_command_line
from testbed.interrupts import termination_interrupts

SIGNALS = (signal.SIGTERM, signal.SIGHUP)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_block_is_left_as_by_an_interrupt_and_handlers_come_back(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), termination_interrupts():
        os.kill(os.getpid(), number)
    assert signal.getsignal(number) == before


@pytest.mark.parametrize("number", SIGNALS)
def test_a_command_cleans_up_and_says_that_it_was_interrupted(
    number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    app, cleaned = typer.Typer(), []

    @app.command()
    def command() -> None:
        try:
            os.kill(os.getpid(), number)
        finally:
            cleaned.append(number)

    assert run_command_line(app, []) == INTERRUPTED
    assert capsys.readouterr().err == "error: interrupted\n"
    assert cleaned == [number]
