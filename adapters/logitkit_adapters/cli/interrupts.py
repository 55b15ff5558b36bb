"""Ctrl-C while modules are imported."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["INTERRUPTED", "ctrl_c_exits"]

INTERRUPTED = 130


@contextmanager
def ctrl_c_exits() -> Iterator[None]:
    """End the process immediately on Ctrl-C: some modules turn an interrupt during their import into another error."""
    main_thread = threading.current_thread() is threading.main_thread()
    if not main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
