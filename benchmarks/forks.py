"""Work that may take minutes or all memory, in a fork of this process that can be stopped."""

from __future__ import annotations

import multiprocessing
import resource
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

MEMORY_CAP = 12 * 2**30

Work = Callable[[Callable[[dict[str, Any]], None]], None]


def in_fork(work: Work, seconds: float, more_seconds: float) -> tuple[dict[str, Any] | None, str]:
    """Run a function that reports dictionaries, the last of which counts.

    Args:
        work: Called with the function that sends a report.
        seconds: How long it may take until the first report.
        more_seconds: How long it may take from one report to the next, or to the end.

    Returns:
        The last report, and why the fork was stopped, if it was.
    """
    here, there = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=_run, args=(there, work))
    child.start()
    there.close()
    last: dict[str, Any] | None = None
    patience, stopped = seconds, ""
    try:
        while here.poll(patience):
            last = here.recv()
            patience = more_seconds
        stopped = f"> {patience:g} s"
    except EOFError:
        child.join()
        if child.exitcode:
            stopped = f"> {MEMORY_CAP // 2**30} GiB" if child.exitcode < 0 else "failed"
    child.kill()
    child.join()
    return last, stopped


def _run(to_parent: Connection, work: Work) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_CAP, MEMORY_CAP))
    work(to_parent.send)
