"""The states of requests, which an engine schedules one by one and knows by an id."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, Generic, TypeVar

import torch

from logitkit.protocol.calls import advance_checked, init_checked
from logitkit.protocol.context import Context, concatenate_context, select_context
from logitkit.protocol.processor import Processor
from logitkit.protocol.state import concatenate, select

__all__ = ["Request", "RequestRows"]

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Request:
    """One sequence as its engine knows it.

    Args:
        key: The engine's id of the request. A key may be used again: the tokens decide, not the key. Only random numbers are the
            key's own, so that requests of one prompt differ, and one that is replayed does not.
        prompt: Token ids of the prompt.
        output: Token ids that the request has generated so far.
        max_length: Most tokens that it will have, prompt included; None: not known.
    """

    key: Hashable
    prompt: Sequence[int]
    output: Sequence[int]
    max_length: int | None = None


class RequestRows(Generic[S]):
    """The states of the requests of a step, of which prompt and output are known; see `Tracker.resolve_requests`.

    The states of the last step are kept by key, to be advanced by the new tokens. A request that is new, was paused or was
    rewound is replayed from its prompt.

    Args:
        processor: The processor whose states are kept.

    Example:
        >>> import logitkit as lk
        >>> rows = RequestRows(lk.RepetitionPenalty(1.5, window=2))
        >>> for output in ([7], [7, 8, 9]):
        ...     state, context = rows.resolve([Request("a", [1, 2], output)], vocabulary_size=10, device="cpu")
        >>> sorted(state.history.tokens[0].tolist()), context.lengths.tolist()
        ([8, 9], [5])
    """

    def __init__(self, processor: Processor[S]) -> None:
        self._processor = processor
        self._requests: list[Request] = []
        self._state: Any = None
        self._context: Context | None = None

    def resolve(
        self, requests: Sequence[Request], vocabulary_size: int, device: torch.device | str
    ) -> tuple[S, Context]:
        """Return the states of some requests, and their context; see `Tracker.resolve_requests`."""
        where = torch.device(device)
        state, context, done = self._begin(requests, vocabulary_size, where)
        pending = [r.output[n:] for r, n in zip(requests, done, strict=True)]
        width = max(map(len, pending))
        if width:
            tokens = torch.tensor([[*p, *[-1] * (width - len(p))] for p in pending], dtype=torch.int64).to(where)
            state = advance_checked(self._processor, state, tokens[:, 0] if width == 1 else tokens)
        lengths = torch.tensor([len(r.prompt) + len(r.output) for r in requests], dtype=torch.int64).to(where)
        context = context.at(lengths)
        # The engine goes on to write in its own lists: what was read is kept apart. Nothing is kept of a step
        # that failed.
        self._requests = [Request(r.key, tuple(r.prompt), tuple(r.output)) for r in requests]
        self._state, self._context = state, context
        return state, context

    def _begin(
        self, requests: Sequence[Request], vocabulary_size: int, device: torch.device
    ) -> tuple[S, Context, list[int]]:
        """Return a state and context of `requests`, and how many output tokens of each the state has had."""
        kept = self._kept(vocabulary_size, device)
        rows: list[int] = []  # of the last step's states, in front of those that begin now
        fresh: list[Request] = []
        place: list[tuple[bool, int]] = []
        done = []
        for request in requests:
            row = kept.get(request.key)
            before = None if row is None else self._requests[row]
            if row is not None and before is not None and _continues(request, before):
                place.append((False, len(rows)))
                rows.append(row)
                done.append(len(before.output))
            else:
                place.append((True, len(fresh)))
                fresh.append(request)
                done.append(0)
        if not fresh and self._context is not None and rows == list(range(len(self._requests))):
            return self._state, self._context, done
        parts = []
        if rows and self._context is not None:
            index = torch.tensor(rows, dtype=torch.int64, device=device)
            parts.append((select(self._state, index), select_context(self._context, index)))
        if fresh:
            new = _context_of(fresh, vocabulary_size, device)
            parts.append((init_checked(self._processor, new), new))
        if len(parts) == 1:  # then the rows are in the order given already
            return *parts[0], done
        order = torch.tensor([i + len(rows) * new for new, i in place], dtype=torch.int64, device=device)
        state = select(concatenate([p[0] for p in parts]), order)
        return state, select_context(concatenate_context([p[1] for p in parts]), order), done

    def _kept(self, vocabulary_size: int, device: torch.device) -> dict[Hashable, int]:
        """Return the rows of the last step by key; none if that had other logits or another device."""
        context = self._context
        if context is None or (context.vocabulary_size, context.device) != (vocabulary_size, device):
            return {}
        return {r.key: row for row, r in enumerate(self._requests)}


def _context_of(requests: Sequence[Request], vocabulary_size: int, device: torch.device) -> Context:
    """Return the context of requests that begin."""
    limits = [r.max_length for r in requests if r.max_length is not None]
    known = len(limits) == len(requests)
    context = Context.of([r.prompt for r in requests], vocabulary_size, device, max(limits) if known else None)
    return replace(
        context,
        stream_ids=torch.tensor([_stream(r.key) for r in requests], dtype=torch.int64, device=device),
        max_lengths=torch.tensor(limits, dtype=torch.int64, device=device) if known and len(set(limits)) > 1 else None,
    )


def _stream(key: Hashable) -> int:
    """Return the stream of random numbers of a key; Python's own hash of text is another in every process."""
    return int.from_bytes(blake2b(repr(key).encode(), digest_size=7).digest())


def _continues(now: Request, before: Request) -> bool:
    """Whether a request's tokens begin with those that it had before."""
    count = len(before.output)
    return (
        len(now.output) >= count
        and tuple(now.output[:count]) == before.output
        and len(now.prompt) == len(before.prompt)
        and tuple(now.prompt) == before.prompt
    )
