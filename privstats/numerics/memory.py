"""Memory: the memory freed after one block of rows is used again for the next block."""

import ctypes
from contextlib import suppress
from functools import cache

LARGEST = 32_000_000  # bytes: arrays up to this size come from memory that is kept; glibc takes no more than 2^25
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # parameter numbers of mallopt(3)


@cache  # a setting of the process
def keep_what_is_freed() -> None:
    """Let the C library keep freed memory, up to 64 MB, for the next arrays, in place of giving it back to the system.

    Memory that comes from the system is cleared page by page, which takes longer than what is computed in it. glibc
    learns this by itself from the largest array that it has seen freed, but not where its environment has a threshold,
    as that of Dask's workers has. Other C libraries have other rules.
    """
    with suppress(Exception):
        libc = ctypes.CDLL(None)
        libc.mallopt(MMAP_THRESHOLD, LARGEST)
        libc.mallopt(TRIM_THRESHOLD, 2 * LARGEST)
