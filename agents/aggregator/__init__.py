"""The edge aggregator: the software stand-in for the in-line FPGA, and its table's rules.

What follows is complete: an implementation that keeps to it sends the same bytes as
`agents.aggregator.table`, the reference.

**Memory.** M bytes hold M // block bytes slots of four-byte elements; W ways make
slots // W sets, and a remainder is not used. There are as many tags as rows. Set of
a block: its number modulo the sets (``mod``), or a hash of round and block
(``mix``, `mixed_slots`) modulo the sets.

**A contribution** carries a round, a block, a set of contributors, elements, flags
and (``i32-exponent``) an exponent. It is refused, and counted, in this order:
``round`` not open; ``contributor`` none, or not expected; ``block`` outside the
stream or of another length; ``overlap`` if some, ``duplicate`` if all of its
contributors were seen. Otherwise it is taken, and ``late`` if a sum of its block
had left before.

1. If all expected contributors are seen now, the block leaves (COMPLETE): the held
   contributions and this one, or this one alone, which needs no memory for it.
2. Else, if its block is not held, it takes the lowest free way of its set. If there
   is none, the collision policy decides. ``evict-old``: the block of that set with
   the oldest first arrival (of several at one time, the lowest way) leaves
   (COLLISION), its way is taken. ``forward-new``: this contribution leaves as it is
   (BYPASS). ``priority``: the less urgent one has to go, that is the block with the
   greatest (round, block) of the set (COLLISION) or this contribution (BYPASS) if
   it is greater still; rounds are compared as serial numbers (RFC 1982).
3. ``accumulate`` adds it to its block's one row. ``hold`` gives it a row of its own.
   If no row is free, the policy decides about the whole memory: ``evict-old``: the
   block that has been held longest (first in, first out; stored at one time, in
   order of storing) leaves (COLLISION). ``forward-new``: this contribution leaves
   (BYPASS). ``priority``: the held block with the greatest (round, block) leaves if
   it is greater than this one, else this contribution. If what leaves is the own
   block, this contribution is its first one again, in the lowest free way. A way
   found in step 2 is kept, even if a lower one has become free.

**What leaves** is a sum with its contributors, cause, flags and exponent; for one
block, no two share a contributor. Contributions are added in order of arrival, see
`arithmetic`; flags are joined (or). Sums are formed when they leave (``hold``) or
as contributions come (``accumulate``), with the same result. ``ordered`` (with
``hold``) adds by ascending contributor (lowest bit of each contribution), and where
not all expected contributors are in the sum, its contributions leave one by one in
that order, so that the receiver can do the same.

**Timeout.** What was stored first leaves first, once ``timeout_ns`` has passed since
the block was stored (TIMEOUT). **Closing** a round lets its blocks leave by
ascending number (FLUSH); whatever comes for it later is refused.
"""
