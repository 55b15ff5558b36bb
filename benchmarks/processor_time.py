"""The time of the processor that a process and all that it started have taken: other work on the machine does not count."""

from __future__ import annotations

import os
from pathlib import Path

_TICK = 1 / os.sysconf("SC_CLK_TCK")


def processor_time(process: int) -> float:
    """Return the seconds that a process and its descendants have taken so far, those that ended and were waited for included."""
    times: dict[int, float] = {}
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        number = int(entry.name)
        children.setdefault(int(fields[1]), []).append(number)
        times[number] = sum(map(int, fields[11:15])) * _TICK
    found, todo = 0.0, [process]
    while todo:
        number = todo.pop()
        found += times.get(number, 0.0)
        todo += children.get(number, [])
    return found
