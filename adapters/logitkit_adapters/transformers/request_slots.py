"""The requests of one manager of continuous batching: which of them a step has, and at which rows of the bank of states.

transformers offers a processor one number per request, int32, which it copies to the device with the inputs of a step. It
carries the row of the request in the bank, times two, plus one if the newest token must be added. That token is the one that the
model has just read: a second processor, called right after, gets it from transformers, on the device. So no step waits for a
token, and a graph that has captured both calls needs no Python when it is replayed.

By hand: request A has the row 3. After its prompt, its number is 6: row 3, nothing to add. In the next step, it is 7: the model
has read the token that was sampled, and row 3 advances by it. The number 0, of unused places, changes row 0, which nobody has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from logitkit.batching import NewRequest, StateBank
from logitkit.errors import ConfigurationError
from logitkit.protocol.processor import Processor
from logitkit.tokens.allow import AllowTokens
from logitkit.tracking.requests import stream_of
from logitkit_adapters.transformers.known_processors import KnownProcessors

__all__ = ["RequestSlots"]

# A step may still run while the one after the next is prepared, so a row is given away only after this number of steps.
AHEAD = 2

# The number of rows of a new bank, which doubles.
ROWS = 8


class _Slot(NamedTuple):
    """The request in a row of the bank.

    Args:
        request: transformers' record of the request.
        length: The number of its tokens in the state.
        step: The last step that had it.
    """

    request: Any
    length: int
    step: int


class RequestSlots:
    """Assign the requests of a manager to rows of a bank, and run its steps. Used in the manager's thread.

    Args:
        processor_of: Returns the processor of a request by its id, or None.
        device: The device of the model.
        columns: The number of columns of its logits.
        eos_ids: Its EOS ids.
    """

    def __init__(
        self,
        processor_of: Callable[[str], Processor[Any] | None],
        device: torch.device,
        columns: int,
        eos_ids: Sequence[int],
    ) -> None:
        self._processors = KnownProcessors(processor_of, eos_ids)
        self._device, self._columns, self._eos_ids = device, columns, tuple(eos_ids)
        # Set when the manager has decided how it works.
        self.graphs = self.ahead = False
        self.drop_graphs: Callable[[], None] = lambda: None
        self._error: Exception | None = None
        self._bank: StateBank | None = None
        self._slots: dict[int, _Slot] = {}
        self._rows: dict[str, int] = {}
        self._step = self._widest = self._version = 0
        self._numbers: Tensor | None = None

    @property
    def error(self) -> Exception | None:
        """The first error; None if there is none."""
        return self._processors.error or self._error

    def prepare(self, futures: Sequence[Any]) -> Tensor:
        """Return the numbers of the requests of the next step, [N] int32 on the CPU.

        Args:
            futures: transformers' records of the requests whose logits the step processes, in their order.
        """
        with self._errors_kept():
            self._step += 1
            requests = [future.state for future in futures]
            numbers = dict.fromkeys((request.request_id for request in requests), 0)
            new = []
            for request in requests:
                row = self._rows.get(request.request_id, 0)
                slot = self._slots.get(row)
                length = request.position_offset
                if slot is None or slot.request is not request or not slot.length <= length <= slot.length + 1:
                    new.append(request)
                    continue
                numbers[request.request_id] = 2 * row + length - slot.length
                self._slots[row] = _Slot(request, length, self._step)
            if new:
                self._enter(new, numbers)
            # Later places may have numbers of an earlier step, because only unused tokens follow.
            self._widest = max(self._widest, len(requests))
            filled = [*numbers.values(), *[0] * (self._widest - len(requests))]
            return torch.tensor(filled, dtype=torch.int32)

    def _enter(self, requests: Sequence[Any], numbers: dict[str, int]) -> None:
        """Put requests into rows that nothing uses: new ones, and those that were evicted or rewound."""
        entering = []
        for request in requests:
            processor = self._processors.of(request, self._step)
            if processor is not None:
                entering.append((request, self._request(request, processor), request.position_offset))
        if not entering:
            return
        bank = self._bank = self._bank or self._new_bank()
        rows = self._free_rows(bank, len(entering))
        late = dict(zip(rows, entering, strict=True))
        try:
            bank.put({row: new for row, (_, new, _) in late.items()})
        except Exception as error:
            if len(late) == 1 and not self._eos_ids:
                raise
            for row, (_, new, _) in late.items():
                self._put_alone(bank, row, new, error)
        if self._device.type == "cuda":
            # The steps run in a stream of their own.
            torch.cuda.current_stream(self._device).synchronize()
        for row, (request, new, length) in late.items():
            self._rows[request.request_id] = row
            self._slots[row] = _Slot(request, length, self._step)
            numbers[request.request_id] = 2 * row + length - len(new.prompt) - len(new.output)
        if bank.version != self._version:
            self._version = bank.version
            self.drop_graphs()

    def _put_alone(self, bank: StateBank, row: int, new: NewRequest, error: Exception) -> None:
        """Put one request into a row, or end it if that fails."""
        try:
            bank.put({row: new})
        except Exception as own:
            self._error = self._error or own
            if not self._eos_ids:
                raise error from own
            bank.put({row: NewRequest(AllowTokens(self._eos_ids), new.prompt, limit=new.limit)})

    def _request(self, request: Any, processor: Processor[Any]) -> NewRequest:
        """Return what is known of a request: all of its tokens, except one that is in flight."""
        tokens = [*request.initial_tokens, *request.generated_tokens]
        missing = request.position_offset - len(tokens)
        if not 0 <= missing <= self.ahead:
            raise ConfigurationError(
                f"request {request.request_id} has {request.position_offset} tokens in its cache, but {len(tokens)} are known; "
                "this version of transformers does not fit this one of logitkit: please report it"
            )
        # An evicted request comes back with its output so far appended to its prompt.
        prompt = request._true_initial_tokens or len(request.initial_tokens)  # noqa: SLF001 - there is no public attribute
        # The remaining number of new tokens counts from that point.
        most = None if request.max_new_tokens is None else len(request.initial_tokens) + request.max_new_tokens
        return NewRequest(
            processor, tokens[:prompt], tokens[prompt:], stream_of(request.request_id), max_length=most, limit=most
        )

    def _new_bank(self) -> StateBank:
        bank = StateBank(
            self._device,
            self._columns,
            self._eos_ids,
            captured=self.graphs,
            reports=not (self.ahead or self.graphs),
            wait=self._wait,
        )
        bank.grow(ROWS)
        return bank

    def _wait(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)

    def _free_rows(self, bank: StateBank, count: int) -> list[int]:
        """Return rows that no step uses any more."""
        while True:
            free = [
                row
                for row in range(1, len(bank))
                if row not in self._slots or self._slots[row].step <= self._step - AHEAD
            ]
            if len(free) >= count:
                break
            bank.grow(2 * len(bank))
        # Empty ones first, then those whose request has been away for the longest time.
        free.sort(key=lambda row: self._slots[row].step if row in self._slots else 0)
        for row in free[:count]:
            slot = self._slots.pop(row, None)
            if slot is not None:
                self._rows.pop(slot.request.request_id, None)
        return free[:count]

    def take(self, numbers: Tensor) -> None:
        """Keep the numbers of a step, [N] int32 on the device, until its tokens come."""
        self._numbers = numbers

    def process(self, tokens: Tensor, scores: Tensor) -> Tensor:
        """Return the processed scores, [N, V], of a step; `tokens`, [N], are the last ones that the model has read."""
        bank, numbers = self._bank, self._numbers
        if bank is None or numbers is None:
            return scores
        with self._errors_kept():
            numbers = numbers[: len(scores)].to(torch.int64)
            newest = torch.where(numbers % 2 == 1, tokens.to(torch.int64), -1)
            # The scores were created for this call; nothing else reads them.
            return bank.step(numbers // 2, newest, scores)

    def raise_broken(self) -> None:
        """Raise an error if the logits of the last step were broken, and this is reported."""
        if self._bank is not None:
            self._bank.raise_broken()

    @contextmanager
    def _errors_kept(self) -> Any:
        try:
            yield
        except Exception as error:
            self._error = self._error or error
            raise
