"""Memory: what one block of rows leaves is used by the next."""

from functools import cache

import numpy as np

LARGEST = 32_000_000  # bytes: of more than 2^25, with what surrounds an array, glibc learns nothing


@cache  # what has been learnt lasts as long as the process
def keep_what_is_freed() -> None:
    """Let the C library keep freed memory, up to 64 MB, for the next arrays, in place of giving it back to the system.

    Memory that comes from the system is cleared page by page, which takes longer than what is computed in it. glibc
    gives back what is larger than twice the largest array that it has seen freed, up to 32 MB (mallopt(3), of
    M_MMAP_THRESHOLD): one is freed here, in which nothing was written. Other C libraries have other rules.
    """
    np.empty(LARGEST, dtype=np.uint8)
