"""Where and when something was measured: what a published result says beside its numbers."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from pathlib import Path

CPU = Path("/proc/cpuinfo")


def commit() -> str:
    """Return the commit that is checked out, marked if there are changes; empty where there is no repository."""
    git = shutil.which("git")
    found = git and subprocess.run(
        [git, "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    return found.stdout.strip() if found else ""


def processor() -> str:
    """Return the name of the processor."""
    found = re.search(r"model name\s*: (.*)", CPU.read_text()) if CPU.exists() else None
    return found[1] if found else platform.machine()
