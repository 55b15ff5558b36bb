"""The states of requests, which an engine schedules one by one and identifies by a key."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, Generic, TypeVar

import torch

from logitkit.protocol.calls import advance_checked, init_checked
from logitkit.protocol.context import Context, concatenate_context, largest, padded, select_context
from logitkit.protocol.processor import Processor
from logitkit.protocol.state import concatenate, select

__all__ = ["Request", "RequestTracker", "stream_of"]

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Request:
    """One sequence, as its engine knows it.

    Args:
        key: The engine's id of the request. An id may be reused: the tokens decide which state a request continues. Its random
            numbers depend on the key, so two requests with one prompt get different numbers, and a replay gets the same.
        prompt: The token ids of the prompt.
        output: The token ids generated so far.
        max_length: The maximum number of tokens, prompt included; None if unknown.
    """

    key: Hashable
    prompt: Sequence[int]
    output: Sequence[int]
    max_length: int | None = None


class RequestTracker(Generic[S]):
    """Find the states of requests, which an engine schedules one by one and identifies by a key.

    The states of the last step are kept, and advanced by the new tokens. A request that is new, was paused or was rewound is
    replayed from its prompt.

    Args:
        processor: The processor whose states are wanted.

    Example:
        >>> import logitkit as lk
        >>> tracker = RequestTracker(lk.RepetitionPenalty(1.5, window=2))
        >>> for output in ([7], [7, 8, 9]):
        ...     state, context = tracker.resolve([Request("a", [1, 2], output)], vocabulary_size=10, device="cpu")
        >>> sorted(state.history.tokens[0].tolist()), context.lengths.tolist()
        ([8, 9], [5])
    """

    def __init__(self, processor: Processor[S]) -> None:
        self._processor = processor
        # The requests of the last step by key, with their rows in its state and context.
        self._rows: dict[Hashable, tuple[int, Request]] = {}
        self._state: Any = None
        self._context: Context | None = None

    def resolve(
        self, requests: Sequence[Request], vocabulary_size: int, device: torch.device | str
    ) -> tuple[S, Context]:
        """Return the states and the context of the requests of a step, one row each, in the order given.

        Args:
            requests: At least one request; each key at most once.
            vocabulary_size: The number of columns of the logits.
            device: The device of the logits.
        """
        where = torch.device(device)
        state, context, seen = self._begin(requests, vocabulary_size, where)
        tokens = padded([r.output[n:] for r, n in zip(requests, seen, strict=True)]).to(where)
        width = tokens.shape[1]
        if width:
            state = advance_checked(self._processor, state, tokens[:, 0] if width == 1 else tokens)
        lengths = torch.tensor([len(r.prompt) + len(r.output) for r in requests], dtype=torch.int64).to(where)
        # Only now, so that a step that failed changes nothing. The tokens are copied, because the engine appends to its lists.
        self._rows = {r.key: (i, Request(r.key, tuple(r.prompt), tuple(r.output))) for i, r in enumerate(requests)}
        self._state, self._context = state, context.at(lengths)
        return state, self._context

    def _begin(
        self, requests: Sequence[Request], vocabulary_size: int, device: torch.device
    ) -> tuple[S, Context, list[int]]:
        """Return a state and a context of the requests, and how many output tokens of each the state has seen."""
        last = self._context
        if last is not None and (last.vocabulary_size, last.device) != (vocabulary_size, device):
            last = None
        known = {} if last is None else self._rows
        found = [known.get(r.key) for r in requests]
        found = [f if f and _continues(r, f[1]) else None for r, f in zip(requests, found, strict=True)]
        seen = [len(f[1].output) if f else 0 for f in found]
        rows = [f[0] for f in found if f]
        fresh = [r for r, f in zip(requests, found, strict=True) if not f]
        if last is not None and not fresh and rows == list(range(len(known))):
            return self._state, last, seen
        parts = []
        if last is not None and rows:
            index = torch.tensor(rows, dtype=torch.int64, device=device)
            parts.append((select(self._state, index), select_context(last, index)))
        if fresh:
            new = _context_of(fresh, vocabulary_size, device)
            parts.append((init_checked(self._processor, new), new))
        if len(parts) == 1:
            return *parts[0], seen
        # The continued rows come first in `parts`, then the new ones.
        order = torch.tensor([f is None for f in found], device=device).argsort(stable=True).argsort()
        state = select(concatenate([state for state, _ in parts]), order)
        return state, select_context(concatenate_context([context for _, context in parts]), order), seen


def _context_of(requests: Sequence[Request], vocabulary_size: int, device: torch.device) -> Context:
    """Return the context of new requests."""
    limits = [r.max_length for r in requests]
    context = Context.of([r.prompt for r in requests], vocabulary_size, device, largest(limits))
    return replace(
        context,
        stream_ids=torch.tensor([stream_of(r.key) for r in requests], dtype=torch.int64, device=device),
        max_lengths=torch.tensor(limits, dtype=torch.int64, device=device) if None not in limits else None,
    )


def stream_of(key: Hashable) -> int:
    """Return the random stream of a key. Python's own hash of a text differs between processes."""
    return int.from_bytes(blake2b(repr(key).encode(), digest_size=7).digest())


def _continues(now: Request, before: Request) -> bool:
    """Return whether a request has the same prompt as before, and its output begins with that from before."""
    count = len(before.output)
    return tuple(now.output[:count]) == before.output and tuple(now.prompt) == before.prompt
