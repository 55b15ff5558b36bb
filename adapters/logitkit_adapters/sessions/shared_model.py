"""Data that all sessions and generators of one model share: a lock, and the sequence that ran last."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition, Lock, RLock, get_ident
from typing import Any

from logitkit.errors import ConfigurationError

__all__ = ["SharedModel", "shared_by"]


class SharedModel:
    """Shared data of a model that keeps part of its cache internally, or that only one thread at a time may run.

    Args:
        lock: Held while the model runs. It is reentrant, for processors that generate text themselves.
        fed_last: Identifies the sequence that was fed last.
        eos_ids: The EOS ids, if they have been read from a vocabulary that must be asked for each id.
        stream_thread: The thread that last read the stream that cannot be interrupted, if there is one.
        stream_ended: Notified when that stream ends.
    """

    def __init__(self) -> None:
        self.lock = RLock()
        self.fed_last: object = None
        self.eos_ids: frozenset[int] | None = None
        self.stream_thread: int | None = None
        self.stream_ended = Condition(self.lock)

    @contextmanager
    def without_stream(self) -> Iterator[None]:
        """Hold the lock, while there is no stream that cannot be interrupted; wait for the end of one.

        A stream does not hold the lock between its pieces, since another thread may read the next.

        Raises:
            ConfigurationError: This thread reads the stream itself, so it would wait forever.
        """
        with self.lock:
            while self.stream_thread is not None:
                if self.stream_thread == get_ident():
                    raise ConfigurationError(
                        "a stream of this LLM has not ended, and vLLM runs all requests together; read it to its end, or close it"
                    )
                self.stream_ended.wait()
            yield


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
