"""The most memory that this process has taken."""

from __future__ import annotations

import resource
import sys
from pathlib import Path


def peak_megabytes() -> float:
    """Return the peak so far, in megabytes.

    On Linux, `ru_maxrss` also counts what the process held before it ran its own program: all of a large process that started it.
    """
    if sys.platform == "darwin":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    status = Path("/proc/self/status").read_text("ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 2**10
