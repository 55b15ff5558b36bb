"""The processors of the requests of a manager: each is asked for once, and kept until its request is over.

transformers lets its callers name requests, and servers take names from their clients, so a name alone proves nothing: a request
counts as a warm-up of the engine only if the scheduler has never started it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from logitkit.composition.engine_vocabulary import check_ends
from logitkit.protocol.guidance import refuse_guidance
from logitkit.protocol.processor import Processor, check_is_processor
from logitkit.tokens.allow import AllowTokens

__all__ = ["CONTINUOUS", "KnownProcessors"]

# Its name in errors.
CONTINUOUS = "continuous batching"

# The requests with which transformers warms up, and the samples of a request.
WARM_UP, CHILD = "__warmup_", "__child#"

# The number of steps after which a request that stays away is forgotten: transformers does not tell of cancelled ones.
AWAY = 2**16

# The number of requests that are kept before any is forgotten.
FEW = 16


class _Known(NamedTuple):
    """A request.

    Args:
        request: transformers' record of it.
        processor: Its processor, or None.
        step: The last step in which its processor was needed.
    """

    request: Any
    processor: Processor[Any] | None
    step: int


class KnownProcessors:
    """Find the processors of requests.

    Args:
        processor_of: Returns the processor of a request by its id, or None. It is called once for each request, and not for
            samples, which have the processor of theirs.
        eos_ids: The EOS ids of the model. Without any, the error of a wrong processor is raised.

    Attributes:
        error: The first error.
    """

    def __init__(self, processor_of: Callable[[str], Processor[Any] | None], eos_ids: Sequence[int]) -> None:
        self._processor_of, self._eos_ids = processor_of, tuple(eos_ids)
        self._known: dict[str, _Known] = {}
        self._most = FEW
        self.error: Exception | None = None

    def __len__(self) -> int:
        """Return the number of requests that are kept."""
        return len(self._known)

    def of(self, request: Any, step: int) -> Processor[Any] | None:
        """Return the processor of a request; one that ends it, if it is wrong, so that it disturbs no other.

        Args:
            request: transformers' record of the request.
            step: The number of the step that needs it.
        """
        name = request.request_id
        if name.startswith(WARM_UP) and request.lifespan[0] < 0:
            return None
        found = self._found(name, request)
        processor = self._asked(name) if found is None else found.processor
        self._known[name] = _Known(request, processor, step)
        if len(self._known) > self._most:
            self._known = {n: known for n, known in self._known.items() if not _is_over(known, step)}
            self._most = max(FEW, 2 * len(self._known))
        return processor

    def _found(self, name: str, request: Any) -> _Known | None:
        own = self._known.get(name)
        if own is not None and own.request is request:
            return own
        if CHILD in name:
            return self._known.get(_parent(name)) or own
        # An evicted request comes back in another record, which says so; another new request may have the name of an old one.
        return own if request._true_initial_tokens else None  # noqa: SLF001 - there is no public attribute

    def _asked(self, name: str) -> Processor[Any] | None:
        try:
            processor = self._processor_of(_parent(name))
            if processor is not None:
                check_is_processor(processor, f"the processor of request {name!r}")
                refuse_guidance(processor, CONTINUOUS)
                check_ends(processor, self._eos_ids)
        except Exception as error:
            self.error = self.error or error
            if not self._eos_ids:
                raise
            return AllowTokens(self._eos_ids)
        return processor


def _parent(name: str) -> str:
    """Return the request of a sample, or the request itself."""
    return name.split(CHILD, maxsplit=1)[0]


def _is_over(known: _Known, step: int) -> bool:
    # The record of an evicted request is marked as finished too, but not with a time.
    return known.request.lifespan[1] >= 0 or known.step < step - AWAY
