"""Data that all sessions and generators of one model share: a lock, and the sequence that ran last."""

from __future__ import annotations

import weakref
from threading import Lock, RLock
from typing import Any

__all__ = ["SharedModel", "shared_by"]


class SharedModel:
    """Shared data of a model that keeps part of its cache internally, or that only one thread at a time may run.

    Args:
        lock: Held while the model runs. It is reentrant, for processors that generate text themselves.
        fed_last: Identifies the sequence that was fed last.
    """

    def __init__(self) -> None:
        self.lock = RLock()
        self.fed_last: object = None


# Keyed by identity, because mlx-lm models are not hashable; an attribute of the model would be copied and pickled with it.
_KNOWN: dict[int, SharedModel] = {}
_KNOWN_LOCK = Lock()


def shared_by(model: Any) -> SharedModel:
    """Return the shared data of a model, which lives as long as the model."""
    with _KNOWN_LOCK:
        if id(model) not in _KNOWN:
            _KNOWN[id(model)] = SharedModel()
            weakref.finalize(model, _KNOWN.pop, id(model), None).atexit = False
        return _KNOWN[id(model)]
