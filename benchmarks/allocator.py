"""Keep the pages of freed memory, so that it does not depend on the order of small allocations who pays for them anew."""

from __future__ import annotations

import ctypes

__all__ = ["keep_pages"]

# Of glibc's `mallopt`.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
MOST = 2**30


def keep_pages() -> None:
    """Have malloc give no memory back to the system, for the rest of the process; elsewhere than in glibc do nothing."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, MOST)
        mallopt(M_TRIM_THRESHOLD, MOST)
