"""The rows of an engine that shows the output of each request as a list that grows.

Such an engine says how its batch changes, and before each step the lists have new tokens: one, several, or none while a prompt is
being read. A list may also get shorter, if the engine takes tokens back; then the request is replayed from its prompt. Its last
token may be a placeholder, a negative id, while it is still being sampled.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from logitkit.batching.batch import BatchedRequests
from logitkit.batching.entering import NewRequest
from logitkit.batching.ragged import known_tokens, ragged
from logitkit.errors import ProcessorError

__all__ = ["LiveOutputs", "LiveRequest", "RowMove", "changed"]

T = TypeVar("T")


class RowMove(NamedTuple):
    """A row of a batch that moves.

    Args:
        source: Where it was.
        target: Where it goes, in place of the row there.
        swaps: Whether the row there goes to `source`; otherwise, it leaves.
    """

    source: int
    target: int
    swaps: bool


def changed(
    rows: Mapping[int, T], removed: Iterable[int], added: Iterable[tuple[int, T | None]], moved: Iterable[RowMove]
) -> dict[int, T]:
    """Return the rows of a batch after a change: rows are removed, then added, then moved, one by one.

    Args:
        rows: The rows that are followed, by their numbers in the batch; there may be others.
        removed: The numbers of rows that leave.
        added: Numbers and new rows, which replace those that are there; None: a row that is not followed.
        moved: Moves, whether the rows are followed or not.

    Example:
        >>> changed({0: "a", 1: "b"}, removed=[0], added=[(2, "c")], moved=[RowMove(2, 0, False), RowMove(0, 1, True)])
        {1: 'c', 0: 'b'}
    """
    found = dict(rows)
    for number in removed:
        found.pop(number, None)
    for number, row in added:
        found.pop(number, None)
        if row is not None:
            found[number] = row
    for source, target, swaps in moved:
        moving, other = found.pop(source, None), found.pop(target, None)
        if moving is not None:
            found[target] = moving
        if other is not None and swaps:
            found[source] = other
    return found


class LiveRequest(NamedTuple):
    """A request that enters.

    Args:
        request: The request. Its own output ends with the tokens of `output` that are known when it enters.
        output: The engine's list of its output, which grows.
    """

    request: NewRequest
    output: Sequence[int]


@dataclass(slots=True, eq=False)
class _Row:
    """A request in the batch.

    Args:
        request: The request as it entered.
        output: The engine's list of its output.
        begun: The tokens of its output that come before those of the list.
        seen: The number of tokens of the list that are in the state.
        place: Its row in the batch, or None if it is new there.
    """

    request: NewRequest
    output: Sequence[int]
    begun: Sequence[int]
    seen: int
    place: int | None = None


class LiveOutputs:
    """Follows an engine's batch; only requests with a processor are followed.

    A state is a function of prompt and output. Steps in which a request waits or its prompt is read do not change it.

    Args:
        batch: The batch, empty.
        device: The device of the logits.
        remedy: The advice in the error for an engine that hides a token.

    Example:
        >>> import logitkit as lk
        >>> rows = LiveOutputs(BatchedRequests("cpu"), torch.device("cpu"), remedy="show it")
        >>> output = [1]
        >>> request = LiveRequest(NewRequest(lk.FrequencyPenalty(0.5), prompt=[0], output=[1]), output)
        >>> rows.change(2, removed=[], added=[(1, request)], moved=[])
        >>> output += [1, 2]
        >>> rows.process_logits(torch.ones(2, 3)).tolist()
        [[1.0, 1.0, 1.0], [1.0, 0.0, 0.5]]
    """

    def __init__(self, batch: BatchedRequests, device: torch.device, remedy: str) -> None:
        self._batch = batch
        self._device = device
        self._remedy = remedy
        self._rows: dict[int, _Row] = {}

    def change(
        self,
        size: int,
        removed: Iterable[int],
        added: Iterable[tuple[int, LiveRequest | None]],
        moved: Iterable[RowMove],
    ) -> None:
        """Apply a change of the batch, as in `changed`.

        Args:
            size: The number of rows after it.
            removed: The numbers of rows that leave.
            added: Numbers and requests; None: a request without a processor.
            moved: Moves.
        """
        new = ((number, None if request is None else _entering(request)) for number, request in added)
        self._arrange(changed(self._rows, removed, new, moved), size)

    def outputs(self) -> dict[int, list[int]]:
        """Return the output so far of each row that is followed, by its number in the batch."""
        return {number: [*row.begun, *row.output] for number, row in self._rows.items()}

    def _arrange(self, rows: dict[int, _Row], size: int) -> None:
        order: list[int | NewRequest | None] = [None] * size if rows else []
        for number, row in rows.items():
            order[number] = row.request if row.place is None else row.place
        self._batch.arrange(order)
        for number, row in rows.items():
            row.place = number
        self._rows = rows

    def process_logits(self, logits: Tensor) -> Tensor:
        """Advance the rows by their new tokens, and process the logits of all rows, in place.

        Args:
            logits: [B, V] floating point.

        Raises:
            ProcessorError: The engine hides a token.
        """
        if not self._rows:
            return logits
        if any(len(row.output) < row.seen for row in self._rows.values()):
            self._replay()
        pending = {number: row.output[row.seen :] for number, row in self._rows.items() if len(row.output) > row.seen}
        if pending:
            self._advance(pending)
        return self._batch.process_logits(logits)

    def _replay(self) -> None:
        """Let requests enter again if the engine has taken back tokens of their outputs."""
        for row in self._rows.values():
            if len(row.output) < row.seen:
                known = known_tokens(row.output)
                row.request = replace(row.request, output=[*row.begun, *known])
                row.seen, row.place = len(known), None
        self._arrange(dict(self._rows), len(self._batch))

    def _advance(self, pending: Mapping[int, Sequence[int]]) -> None:
        for new in pending.values():
            if min(new) < 0:
                raise ProcessorError(f"the engine hides the newest token of a request from logitkit; {self._remedy}")
        self._batch.advance(ragged(pending, len(self._batch)).to(self._device))
        for number, new in pending.items():
            self._rows[number].seen += len(new)


def _entering(entering: LiveRequest) -> _Row:
    request, output = entering
    known = len(known_tokens(output))
    return _Row(request, output, request.output[: len(request.output) - known], known)
