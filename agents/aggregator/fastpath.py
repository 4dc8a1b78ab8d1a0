"""A burst whose blocks are all in the same state, taken in a few vector operations.

The result is that of taking its blocks one by one.
"""

from agents.aggregator.arithmetic import Part
from agents.aggregator.ledger import Outlet, RoundLedger
from agents.aggregator.memory import Slots
from agents.aggregator.sets import Sets
from agents.aggregator.stores import Accumulators
from agents.wire import Cause


class FastPath:
    """Adds bursts to the accumulators of a table.

    Parameters
    ----------
    sets, store, outlet
        Those of the table.
    """

    def __init__(self, sets: Sets, store: Accumulators, outlet: Outlet) -> None:
        self._sets = sets
        self._store = store
        self._outlet = outlet

    def take(self, ledger: RoundLedger, block: int, part: Part, now_ns: int) -> bool:
        """Take consecutive blocks at once.

        Parameters
        ----------
        ledger, block, part
            The round, the first block, and one contribution to each block.
        now_ns
            Time of arrival.

        Returns
        -------
        bool
            False if they have to be taken one by one; then nothing has changed.
        """
        store = self._store
        count, width = part.values.shape
        blocks = slice(block, block + count)
        index: slice | Slots | None = None
        all_seen, all_emitted = ledger.seen[blocks].tolist(), ledger.emitted[blocks].tolist()
        seen, emitted = all_seen[0], all_emitted[0]
        alike = all_seen.count(seen) == count == all_emitted.count(emitted)
        if not alike or seen & part.bitmap:
            return False
        now_seen = seen | part.bitmap
        held, done = seen != emitted, now_seen == ledger.mask
        if held:
            index = self._sets.held_slots(ledger, block, count)
            if index is None or not store.add_run(index, part):
                return False
        elif not done:
            index = self._sets.free_slots(ledger, block, count)
            if index is None or not store.put_run(index, part):
                return False
            self._sets.occupy(ledger, index, block, count, now_ns)
        ledger.note(blocks, now_seen, count)
        self._outlet.counters.late += count if emitted else 0
        if done:
            if held and index is not None:
                self._sets.release(index)
                part = Part(store.take_run(index)[:, :width], now_seen ^ emitted)
            self._outlet.emit(ledger, block, part, Cause.COMPLETE)
        return True
