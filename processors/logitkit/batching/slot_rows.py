"""The rows of an engine that keeps requests in numbered slots, and the tokens of all slots on the device.

The host knows which requests a step has, but not the sampled tokens. So everything that depends on tokens stays on the device:
how many tokens of a slot are in its state, and the drafts before a row of logits. Nothing here waits for the device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from logitkit.batching.batch import BatchedRequests
from logitkit.batching.entering import NewRequest
from logitkit.batching.ragged import drafts_before, rows_by_slot, tokens_between

__all__ = ["CallRows", "SlotRows"]


class CallRows(NamedTuple):
    """Whose rows the logits of a call are. Numbers of tensors are of any integer dtype.

    Args:
        requests: The slots of the call, on the host.
        slots: [R], the slot of each row.
        drafted: [R], how many drafts come before it: 0 for the first row of a request.
        positions: [R], the position in its text of the token that the row follows.
        tokens: [R], that token.
    """

    requests: Sequence[int]
    slots: Tensor
    drafted: Tensor
    positions: Tensor
    tokens: Tensor


class SlotRows:
    """Follows an engine's slots; only requests with a processor have rows in the batch.

    A row of logits is identified by its slot and its position in the text. With speculation, a request has several rows: each has
    the state after its own text, including the drafts before it. A second call of `process_logits` changes nothing.

    Args:
        batch: The batch, empty.
        device: The device of the logits.
        slots: The number of slots.
        drafts: The maximum number of draft tokens of a request in a step.

    Example:
        >>> import logitkit as lk
        >>> rows = SlotRows(BatchedRequests("cpu"), torch.device("cpu"), slots=4, drafts=0)
        >>> rows.replace(3, 1, lambda: NewRequest(lk.FrequencyPenalty(0.5), prompt=[0]))
        >>> rows.begin_step()
        >>> history = torch.tensor([[0, 0]] * 3 + [[0, 2]])
        >>> slots, positions = torch.tensor([3]), torch.tensor([1])
        >>> call = CallRows([3], slots, torch.tensor([0]), positions, tokens=torch.tensor([2]))
        >>> rows.process_logits(torch.ones(1, 3), call, history).tolist()
        [[1.0, 1.0, 0.5]]
    """

    def __init__(self, batch: BatchedRequests, device: torch.device, slots: int, drafts: int) -> None:
        self._batch = batch
        self._device = device
        self._slots = slots
        self._row_of: dict[int, int] = {}
        # The slots whose requests change before the next step: length and request of the new one, or None.
        self._changes: dict[int, tuple[int, Callable[[], NewRequest]] | None] = {}
        # The slots whose newest tokens are in the states.
        self._done: set[int] = set()
        # On the device, for each slot: the number of tokens that it begins with, the number of those in its state, and its row.
        self._begin = torch.zeros(slots, dtype=torch.int64, device=device)
        self._seen, self._row = self._begin.clone(), self._begin.clone()
        # On the device, for each row: its slot.
        self._slot = self._begin[:1].clone()
        # On the device: the numbers of the tokens that a step may add, and of the rows of logits of a request.
        self._columns = torch.arange(drafts + 1, device=device)

    def replace(self, slot: int, length: int, request: Callable[[], NewRequest]) -> None:
        """Replace the request in a slot at the beginning of the next step.

        Args:
            slot: The slot.
            length: The number of tokens that the new request begins with, prompt and output.
            request: Returns the new request, when the step begins.
        """
        self._changes[slot] = length, request

    def remove(self, slot: int) -> None:
        """Remove the request in a slot at the beginning of the next step; another without a processor may take its place."""
        if slot in self._row_of:
            self._changes[slot] = None
        else:
            self._changes.pop(slot, None)

    def begin_step(self) -> None:
        """Let requests enter and leave."""
        self._done.clear()
        if self._changes:
            kept = {slot: row for slot, row in self._row_of.items() if slot not in self._changes}
            new = {slot: given for slot, given in self._changes.items() if given is not None}
            entering = [request() for _, request in new.values()]
            self._changes.clear()
            # All slots without a processor share the last row.
            self._batch.arrange([*kept.values(), *entering, None])
            self._row_of = {slot: row for row, slot in enumerate([*kept, *new])}
            self._place({slot: length for slot, (length, _) in new.items()})
        self._batch.prepare()

    def _place(self, new: dict[int, int]) -> None:
        """Copy the rows of slots, and the lengths with which new requests begin, to the device."""
        last = len(self._row_of)
        rows = [self._row_of.get(slot, last) for slot in range(self._slots)]
        self._row, self._slot, slots, begin = (
            torch.tensor(numbers, dtype=torch.int64, device=self._device)
            for numbers in (rows, [*self._row_of, 0], [*new], [*new.values()])
        )
        self._begin.index_copy_(0, slots, begin)
        self._seen.index_copy_(0, slots, begin)

    def process_logits(self, logits: Tensor, call: CallRows, history: Tensor) -> Tensor:
        """Process the logits, in place if that is faster.

        Args:
            logits: [R, V] floating point, one row for each token that is sampled or verified.
            call: Whose rows these are.
            history: [slots, L] of any integer dtype, on the device: the committed tokens of all slots.
        """
        here = [slot for slot in call.requests if slot in self._row_of]
        if not here:
            return logits
        slots, drafted = call.slots.to(torch.int64), call.drafted.to(torch.int64)
        committed = call.positions.to(torch.int64) + 1 - drafted
        # Engines do not use a row in the middle of a prompt either.
        begun = committed >= self._begin.index_select(0, slots)
        if not self._done.issuperset(here):
            self._commit(slots, committed, history)
            self._done.update(here)
        rows = torch.where(begun, self._row.index_select(0, slots), len(self._row_of))
        kinds = self._batch.kinds(self._row_of[slot] for slot in here)
        places = partial(self._places, {self._row_of[slot]: slot for slot in here}, slots, drafted)
        states = self._batch.states.select(rows, kinds, places)
        if len(slots) > len(call.requests):
            states = states.advance(drafts_before(call.tokens, slots, drafted, self._slots, self._columns))
        return states.process_logits(logits)

    def _places(
        self, here: dict[int, int], slots: Tensor, drafted: Tensor, rows: Sequence[int]
    ) -> tuple[list[int], Tensor]:
        """Return which of some rows of the batch are in this step, and the rows of logits of each, [K, drafts + 1].

        A request with fewer rows of logits repeats its first one, because the host does not know their number.
        """
        which = [place for place, row in enumerate(rows) if row in here]
        theirs = torch.tensor([here[rows[place]] for place in which], dtype=torch.int64, device=self._device)
        found = rows_by_slot(slots, drafted, self._slots, len(self._columns)).index_select(0, theirs)
        return which, torch.where(found >= 0, found, found[:, :1])

    def _commit(self, slots: Tensor, committed: Tensor, history: Tensor) -> None:
        """Advance the states by the committed tokens."""
        # In the middle of a prompt, fewer tokens than those in the state are committed.
        known = self._seen.scatter_reduce(0, slots, committed, "amax")
        seen, end = self._seen.index_select(0, self._slot), known.index_select(0, self._slot)
        new = tokens_between(history, self._slot, seen, end, self._columns)
        self._batch.advance(new[:, 0] if new.shape[1] == 1 else new)
        self._seen = torch.minimum(known, self._seen + new.shape[1])
