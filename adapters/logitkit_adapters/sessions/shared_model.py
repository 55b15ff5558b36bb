"""Data that all sessions and generators of one model share: a lock, the sequence that ran last, and a checksum of the weights."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from threading import Condition, Lock, RLock, get_ident
from typing import Any

import torch
from torch import Tensor

from logitkit.errors import ConfigurationError

__all__ = ["SharedModel", "checksum", "shared_by"]

# The number of 64-bit words in one sum.
CHUNK = 2**20


def checksum(values: Tensor) -> list[int]:
    """Return sums over all bytes of a tensor, each word multiplied by a number that depends on its position.

    Integer sums do not depend on the order of addition, so all threads and devices agree. Everything is computed on the
    tensor's device, in the time of reading it a few times.

    Args:
        values: A tensor of any shape, dtype and device.

    Example:
        >>> checksum(torch.tensor([1.0, 2.0])) == checksum(torch.tensor([2.0, 1.0]))
        False
    """
    data = values.detach().reshape(-1).contiguous().view(torch.uint8)
    whole = len(data) // 8 * 8
    words = data[:whole]
    # 64-bit words start at multiples of 8 bytes.
    words = (words if words.storage_offset() % 8 == 0 else words.clone()).view(torch.int64)
    factors = _factors(str(words.device))
    sums = [_mixed(part).mul_(factors[: len(part)]).sum() for part in torch.split(words, CHUNK) if len(part)]
    return [*(torch.stack(sums).tolist() if sums else ()), *data[whole:].tolist()]


def _mixed(words: Tensor) -> Tensor:
    # The high bits of a word affect only the highest bits of a product, where two positions may agree; so copy them to the low
    # bits.
    return (words >> 32).bitwise_xor_(words)


@lru_cache(maxsize=4)
def _factors(device: str) -> Tensor:
    """Return a factor for each position in a chunk, [CHUNK] int64: the SplitMix64 finaliser on multiples of an odd number."""
    number = torch.arange(1, CHUNK + 1, device=device) * -0x61C8864680B583EB
    number = (number ^ (number >> 30)) * -0x40A7B892E31B1A47
    number = (number ^ (number >> 27)) * -0x6B2FB644ECCEEE15
    return number ^ (number >> 31)


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
