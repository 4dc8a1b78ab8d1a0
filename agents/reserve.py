"""Memory that costs nothing until it is used."""

import mmap
from contextlib import suppress
from typing import Final

_MAP_NORESERVE: Final = 0x4000
_LARGE_PAGE_BYTES: Final = 2 << 20


def reserve(size: int) -> memoryview:
    """Zeroed memory of ``size`` bytes whose pages exist from their first use on.

    They are large ones where the kernel has these and half of one is needed: whoever walks
    through megabytes otherwise waits for the addresses of its pages. Only whole ones are large,
    so that the mapping behind it may be longer.
    """
    whole = -(-size // _LARGE_PAGE_BYTES) * _LARGE_PAGE_BYTES
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
    memory = mmap.mmap(-1, whole if 2 * size >= _LARGE_PAGE_BYTES else size, flags=flags)
    with suppress(OSError):  # a kernel without large pages
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memoryview(memory)[:size]
