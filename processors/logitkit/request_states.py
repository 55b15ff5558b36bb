"""States of requests that an engine schedules one by one and knows by an id."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import torch

from logitkit.context import Context, concatenate_context, select_context
from logitkit.processor import Processor, check_same_structure
from logitkit.state import concatenate, select

__all__ = ["Request", "RequestStates"]


@dataclass(frozen=True, slots=True)
class Request:
    """One sequence as its engine knows it.

    Args:
        key: The engine's id of the request. A key may be used again: the tokens decide, not the key. Only random numbers are the
            key's own, so that requests of one prompt differ, and one that is replayed does not.
        prompt: Token ids of the prompt.
        output: Token ids that the request has generated so far.
    """

    key: Hashable
    prompt: Sequence[int]
    output: Sequence[int]


class RequestStates:
    """The states of the requests of a step, where prompt and output of each are known.

    A state is a function of the tokens alone. The last step's states are kept by key, to be advanced by what
    is new; a request that is new, was paused or was rewound is replayed from its prompt.

    Args:
        processor: Whose states are kept.

    Example:
        >>> import logitkit as lk
        >>> states = RequestStates(lk.RepetitionPenalty(1.5, window=2))
        >>> for output in ([7], [7, 8, 9]):
        ...     state, context = states.resolve([Request("a", [1, 2], output)], vocabulary_size=10, device="cpu")
        >>> sorted(state.history.tokens[0].tolist()), context.lengths.tolist()
        ([8, 9], [5])
    """

    def __init__(self, processor: Processor[Any]) -> None:
        self._processor = processor
        self._requests: list[Request] = []
        self._state: Any = None
        self._context: Context | None = None

    def resolve(
        self, requests: Sequence[Request], vocabulary_size: int, device: torch.device | str
    ) -> tuple[Any, Context]:
        """Return the states of some requests, and their context; the rows are in the order given.

        Args:
            requests: The R requests of this step, at least one, each key at most once.
            vocabulary_size: Columns of the logits.
            device: Where the logits are.

        Returns:
            The state and the context of R rows.
        """
        where = torch.device(device)
        state, context, done = self._begin(requests, vocabulary_size, where)
        pending = [r.output[n:] for r, n in zip(requests, done, strict=True)]
        width = max(map(len, pending))
        if width:
            tokens = torch.tensor([[*p, *[-1] * (width - len(p))] for p in pending], dtype=torch.int64).to(where)
            after = self._processor.advance(state, tokens[:, 0] if width == 1 else tokens)
            check_same_structure(self._processor, "advance", state, after)
            state = after
        lengths = torch.tensor([len(r.prompt) + len(r.output) for r in requests], dtype=torch.int64).to(where)
        context = context.at(lengths)
        # The engine goes on to write in its own lists: what was read is kept apart. Nothing is kept of a step
        # that failed.
        self._requests = [Request(r.key, tuple(r.prompt), tuple(r.output)) for r in requests]
        self._state, self._context = state, context
        return state, context

    def _begin(
        self, requests: Sequence[Request], vocabulary_size: int, device: torch.device
    ) -> tuple[Any, Context, list[int]]:
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
            new = Context.of([r.prompt for r in fresh], vocabulary_size, device)
            streams = torch.tensor([_stream(r.key) for r in fresh], dtype=torch.int64, device=device)
            new = replace(new, stream_ids=streams)
            parts.append((self._processor.init_state(new), new))
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
