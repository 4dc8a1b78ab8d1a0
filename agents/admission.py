"""Which of the valid datagrams are meant for this agent."""

from agents.bursts import Run
from agents.context import AgentContext
from agents.wire import PacketType


def misfit(run: Run, kind: PacketType, ctx: AgentContext) -> str:
    """Why a run of blocks does not belong here, or an empty text if it does.

    Parameters
    ----------
    run
        Consecutive blocks of one source.
    kind
        ``DATA`` comes from the other islands, ``AGG`` from the own aggregator.
    ctx
        The receiver.

    Returns
    -------
    str
        The reason to count it under: round, block, clique, contributor, source.
    """
    if run.round >= len(ctx.expectations):
        return "round"
    if run.block + len(run.values) > ctx.layout.blocks:
        return "block"
    if run.clique != ctx.expectations[run.round].clique:
        return "clique"
    if kind is PacketType.DATA and run.bitmap != 1 << run.src:
        return "contributor"
    if kind is PacketType.AGG and run.src != ctx.city:
        return "source"
    return ""
