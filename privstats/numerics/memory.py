"""A setting of the C library by which memory freed after one block of rows is reused for the next block."""

import ctypes
from contextlib import suppress
from functools import cache

LARGEST = 32_000_000  # largest size, in bytes, of arrays whose memory is kept after use; glibc accepts at most 2^25
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # parameter numbers of mallopt(3)


@cache  # the function runs only once, since the setting holds for the whole process
def keep_what_is_freed() -> None:
    """Let the C library keep up to 64 MB of freed memory for the next arrays instead of returning it to the system.

    The system clears new memory page by page, and this takes longer than the computations for which the memory is used.
    glibc has two thresholds, in bytes. Memory for arrays larger than the first threshold is requested from the system
    directly. Unused memory in excess of the second threshold is returned to the system. By default, glibc raises both
    thresholds when a larger array is freed, but not if an environment variable sets one of the thresholds, as in Dask's
    workers. With a C library that has no such thresholds, this function has no effect.
    """
    with suppress(Exception):
        libc = ctypes.CDLL(None)
        libc.mallopt(MMAP_THRESHOLD, LARGEST)
        libc.mallopt(TRIM_THRESHOLD, 2 * LARGEST)
