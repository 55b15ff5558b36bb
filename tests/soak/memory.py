"""How much memory processes take while they are under load, and whether that grows."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

# The share of warm-up in the whole time: five minutes of thirty.
WARM_UP = 1 / 6
# The values compared: the medians of the first and the last tenth of the time after the warm-up.
WINDOW = 1 / 10
# Allocators keep what they once had, and threads come across it at different times.
GROWTH, GROWTH_MB = 0.05, 30.0


@dataclass(frozen=True)
class Growth:
    """The memory of one process.

    Args:
        name: Its name in `ps`.
        early: MB of resident memory after the warm-up.
        late: MB at the end.
        own: MB by which it grows in this time without logitkit.
    """

    name: str
    early: float
    late: float
    own: float = 0.0

    @property
    def is_bounded(self) -> bool:
        """Whether it grew by no more than is tolerated."""
        return self.late - self.early <= max(GROWTH * self.early, GROWTH_MB) + self.own


@dataclass
class Watch:
    """Samples of the resident memory of a process and of all that it started.

    Args:
        minutes: How long is watched.
    """

    minutes: float
    begin: float = field(default_factory=time.monotonic)
    samples: dict[int, list[tuple[float, float]]] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        return time.monotonic() - self.begin >= 60 * self.minutes

    def sample(self) -> None:
        """Take note of the memory of each process now."""
        now = (time.monotonic() - self.begin) / (60 * self.minutes)
        for pid, (name, megabytes) in processes(os.getpid()).items():
            self.samples.setdefault(pid, []).append((now, megabytes))
            self.names[pid] = name

    def growth(self, jobs: int = 0, own: Mapping[str, float] | None = None) -> list[Growth]:
        """Return what each process took that was there from the warm-up to the end.

        Args:
            jobs: How many were done in the whole time.
            own: MB by which a process of a name grows in 1,000 jobs without logitkit.
        """
        found, counted = [], jobs * (1 - WARM_UP) / 1000
        for pid, samples in self.samples.items():
            early = [mb for at, mb in samples if WARM_UP <= at < WARM_UP + WINDOW * (1 - WARM_UP)]
            late = [mb for at, mb in samples if at >= 1 - WINDOW * (1 - WARM_UP)]
            if early and late:
                grows = counted * (own or {}).get(self.names[pid], 0.0)
                found.append(Growth(self.names[pid], statistics.median(early), statistics.median(late), grows))
        return found


def processes(root: int) -> dict[int, tuple[str, float]]:
    """Return the name and the resident memory, in MB, of a process and of its descendants."""
    listed = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid=,rss=,args="], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    rows = {
        int(pid): (int(parent), int(size), args) for pid, parent, size, args in (line.split(None, 3) for line in listed)
    }
    found, todo = dict[int, tuple[str, float]](), [root]
    while todo:
        pid = todo.pop()
        _, size, args = rows[pid]
        if not args.startswith("ps "):
            found[pid] = (short(args), size / 1024)
        todo += [child for child, (parent, *_) in rows.items() if parent == pid]
    return found


def short(args: str) -> str:
    """Return what a command is called: its module, or the title that it gave itself."""
    words = args.split()
    return words[words.index("-m") + 1] if "-m" in words[:-1] else words[0].rpartition("/")[2]
