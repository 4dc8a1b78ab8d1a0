"""The island's own stream as datagrams: what a burst of its blocks looks like."""

import numpy as np

from agents.bursts import Packer
from agents.context import AgentContext
from agents.state import State
from agents.weights import Weights
from agents.wire import Flag, PacketType

NS_PER_US = 1000


class OwnStream:
    """Builds bursts of the own blocks, of any round that the state still holds.

    Parameters
    ----------
    ctx, weights, state, epoch
        The run, what the island sends, and this process.
    """

    def __init__(self, ctx: AgentContext, weights: Weights, state: State, epoch: int) -> None:
        self._ctx = ctx
        self._weights = weights
        self._state = state
        self._packer = Packer(
            ctx.burst_datagrams,
            ctx.layout.elements,
            kind=PacketType.DATA,
            job_id=ctx.job_id,
            epoch=epoch,
            src=ctx.city,
            dtype=ctx.element_type,
        )
        self._round = -1
        self._seq = 0

    def pack(self, round_index: int, block: int, count: int, since_start_ns: int) -> memoryview:
        """Build a burst of ``count`` blocks; valid until the next call.

        What the island sends in a round is fixed when its first burst is built.
        """
        ctx, packer, weights = self._ctx, self._packer, self._weights
        own_bit = 1 << ctx.city
        table = self._state.table(round_index)
        if round_index != self._round:
            clique = ctx.expectations[round_index].clique
            packer.address(round_index=round_index, clique=clique, bitmap=own_bit)
            self._round = round_index
        weights.fill(round_index, own_bit, table, block, packer.payload[:count])
        behind = self._state.behind(round_index)
        if weights.scaled or behind.any():
            flags = np.where(behind[weights.rows(round_index, block, count)], Flag.STALE, 0)
            packer.mark(flags, weights.exponents(block, count))
        last_elements = ctx.layout.elements_of(block + count - 1)
        burst = packer.seal(count, block, self._seq, since_start_ns // NS_PER_US, last_elements)
        self._seq += count
        return burst
