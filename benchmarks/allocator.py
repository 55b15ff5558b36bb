"""Keep the pages of freed memory, so that no measurement pays for getting pages back from the system."""

from __future__ import annotations

import ctypes

__all__ = ["keep_pages"]

# Parameters of glibc's `mallopt`.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
MOST = 2**30


def keep_pages() -> None:
    """Keep malloc from giving memory back to the system until the process ends. Without glibc, do nothing."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, MOST)
        mallopt(M_TRIM_THRESHOLD, MOST)
