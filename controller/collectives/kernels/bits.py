"""Sets of chunks as rows of 64-bit words, for the kernels."""

import numpy as np
import numpy.typing as npt

from controller.collectives.kernels.compiled import helper
from controller.collectives.network import Ints

Words = npt.NDArray[np.uint64]

WORD_BITS = 64
_MANY = 1 << 60


@helper
def ones(word: np.uint64) -> int:
    """Number of ones in a word (Warren, Hacker's Delight, 5-1)."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    low = word & np.uint64(0x3333333333333333)
    word = low + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return int(np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56)))


@helper
def lowest(word: np.uint64) -> int:
    """Position of the lowest one of a word that is not 0."""
    return ones((word & (~word + np.uint64(1))) - np.uint64(1))


@helper
def put(row: Words, item: int) -> None:
    """Add an item to a set."""
    row[item >> 6] |= np.uint64(1) << np.uint64(item & 63)


@helper
def has(row: Words, item: int) -> bool:
    """Whether an item is in a set."""
    return bool(((row[item >> 6] >> np.uint64(item & 63)) & np.uint64(1)) != np.uint64(0))


@helper
def common(have: Words, taken: Words) -> int:
    """How many items are in the first set and not in the second."""
    found = 0
    for k in range(len(have)):
        word = have[k] & ~taken[k]
        if word != np.uint64(0):
            found += ones(word)
    return found


@helper
def rarest(have: Words, taken: Words, copies: Ints, first_word: int, look: int) -> int:
    """The item of ``have`` without ``taken`` with the fewest copies, among ``look`` of them.

    The search starts at a word of the caller's choice; −1 if there is none.
    """
    words = len(have)
    best, fewest = -1, _MANY
    for step in range(words):
        k = first_word + step
        if k >= words:
            k -= words
        word = have[k] & ~taken[k]
        while word != np.uint64(0):
            item = (k << 6) + lowest(word)
            word &= word - np.uint64(1)
            if copies[item] < fewest:
                fewest = copies[item]
                best = item
            look -= 1
            if look == 0:
                return best
    return best


@helper
def copies_of(have: Words) -> Ints:
    """In how many of the sets each item is."""
    copies = np.zeros(have.shape[1] * WORD_BITS, dtype=np.int64)
    for row in range(have.shape[0]):
        for k in range(have.shape[1]):
            word = have[row, k]
            while word != np.uint64(0):
                copies[(k << 6) + lowest(word)] += 1
                word &= word - np.uint64(1)
    return copies


@helper
def random_step(state: Words, below: int) -> int:
    """Next number below a limit of a seeded generator (xorshift64*, Vigna 2016).

    ``state[0]`` is not 0.
    """
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    product = (x * np.uint64(0x2545F4914F6CDD1D)) >> np.uint64(33)
    return int(np.int64(product % np.uint64(below)))


def pack(table: npt.NDArray[np.bool_], *, spare: bool = False) -> Words:
    """Rows of truth values as rows of words, shape (rows, ⌈columns / 64⌉).

    ``spare`` is what the words hold beyond the last column.
    """
    rows, columns = table.shape
    words = -(-columns // WORD_BITS)
    padded = np.full((rows, words * WORD_BITS), spare, dtype=np.bool_)
    padded[:, :columns] = table
    return np.packbits(padded, axis=1, bitorder="little").view("<u8").astype(np.uint64)
