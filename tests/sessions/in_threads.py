"""Calls that run in threads at the same time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

T = TypeVar("T")


def in_threads(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Return what each call returns, in a thread of its own, or raise what one raises.

    They start together, and Python changes threads as often as it can.
    """
    start = Barrier(len(calls))

    def run(call: Callable[[], T]) -> T:
        start.wait()
        return call()

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(len(calls)) as pool:
            return list(pool.map(run, calls))
    finally:
        sys.setswitchinterval(before)
