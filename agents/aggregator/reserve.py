"""Memory that costs nothing until it is used."""

import mmap
from contextlib import suppress

_MAP_NORESERVE = 0x4000


def reserve(size: int) -> mmap.mmap:
    """Zeroed memory of ``size`` bytes whose pages exist from their first use on.

    They are large ones where the kernel has these: whoever walks through megabytes
    otherwise waits for the addresses of its pages.
    """
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
    memory = mmap.mmap(-1, size, flags=flags)
    with suppress(OSError):  # a kernel without large pages
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memory
