"""A setting of the C library: memory freed after one block of rows is reused for the next block."""

import ctypes
from contextlib import suppress
from functools import cache

LARGEST = 32_000_000  # bytes: arrays up to this size are put into memory that is kept; glibc accepts at most 2^25
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # parameter numbers of mallopt(3)


@cache  # called once, since the setting holds for the whole process
def keep_what_is_freed() -> None:
    """Let the C library keep freed memory, up to 64 MB, for the next arrays; nothing is given back to the system.

    The system clears new memory page by page, which takes longer than the computation in this memory. glibc has two
    thresholds: the size of an array from which memory is requested from the system directly, and the amount of unused
    memory from which it is given back to the system. By default, glibc raises both thresholds when a larger array is
    freed, but not if an environment variable sets one of them, as in Dask's workers. Other C libraries have other
    rules.
    """
    with suppress(Exception):
        libc = ctypes.CDLL(None)
        libc.mallopt(MMAP_THRESHOLD, LARGEST)
        libc.mallopt(TRIM_THRESHOLD, 2 * LARGEST)
