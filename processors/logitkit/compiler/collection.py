"""Pause Python's cyclic garbage collection while automata are built: it would look through many objects, all alive, in vain."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["gc_paused"]

_lock = threading.Lock()
_blocks = 0
_paused = False


@contextmanager
def gc_paused() -> Iterator[None]:
    """Collect no cycles in this block; what nothing refers to is freed as always."""
    global _blocks, _paused  # noqa: PLW0603
    with _lock:
        if _blocks == 0 and gc.isenabled():
            gc.disable()
            _paused = True
        _blocks += 1
    try:
        yield
    finally:
        with _lock:
            _blocks -= 1
            if _blocks == 0 and _paused:
                gc.enable()
                _paused = False
