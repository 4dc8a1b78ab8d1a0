"""Which of the valid datagrams are meant for this agent."""

from typing import Protocol

from agents.bursts import Run
from agents.context import Expectation
from agents.wire import PacketType, StreamLayout


class Receiver(Protocol):
    """What an agent knows of the streams that are meant for it."""

    @property
    def city(self) -> int:
        """Index of its own city."""

    @property
    def layout(self) -> StreamLayout:
        """How each stream is cut into blocks."""

    @property
    def expectations(self) -> tuple[Expectation, ...]:
        """Whom it expects, by round."""


def misfit(run: Run, kind: PacketType, receiver: Receiver) -> str:
    """Why a run of blocks does not belong here, or an empty text if it does.

    Parameters
    ----------
    run
        Consecutive blocks of one source.
    kind
        ``DATA`` comes from the other islands, ``AGG`` from the own aggregator.
    receiver
        Who got it.

    Returns
    -------
    str
        The reason to count it under: round, block, clique, contributor, source.
    """
    if run.round >= len(receiver.expectations):
        return "round"
    if run.block + len(run.values) > receiver.layout.blocks:
        return "block"
    if run.clique != receiver.expectations[run.round].clique:
        return "clique"
    if kind is PacketType.DATA and run.bitmap != 1 << run.src:
        return "contributor"
    if kind is PacketType.AGG and run.src != receiver.city:
        return "source"
    return ""
