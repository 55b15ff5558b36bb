"""The slots of vLLM's V2 model runner."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from logitkit.batching.batch import BatchedRequests
from logitkit.batching.entering import NewRequest
from logitkit.batching.step_states import StepStates
from logitkit.protocol.processor import Processor
from logitkit_adapters.vllm.configurations import Configurations
from logitkit_adapters.vllm.requests import Requests

__all__ = ["V2Slots"]


class V2Slots:
    """Follows the slots of the model runner; only requests that ask for something have rows here.

    A row of logits is told by its slot and its place in the text, and under speculation a request has several: each has the state
    of its own text, drafts before it included. To call `process` twice changes nothing.

    The host knows which requests a step has, and none of the tokens that were sampled: `process` leaves these on the device, and
    waits for nothing there.

    Args:
        configurations: What requests may ask for.
        req_states: vLLM's `LogitsProcRequestState`, the tokens of all slots.
        drafts: Most tokens that a step verifies of a request.
    """

    def __init__(self, configurations: Configurations, req_states: Any, drafts: int) -> None:
        self._states = req_states
        self._device = torch.device(req_states.device)
        longest = req_states.all_token_ids.gpu.shape[1]
        self._requests = Requests(configurations, longest, self._device.type == "cpu", drafts)
        self._batch = BatchedRequests(self._device, configurations.vocabulary.eos_ids, configurations.vocabulary.size)
        self._row_of: dict[int, int] = {}
        # Slots whose requests change before the next step: what the new one asks for, or None.
        self._changes: dict[int, tuple[Processor[Any], Any, list[int] | None] | None] = {}
        # Slots whose newest tokens are in the states.
        self._done: set[int] = set()
        # Of each slot on the device: tokens that it begins with, tokens that its state has seen, and its row.
        self._begin = torch.zeros(req_states.max_num_reqs, dtype=torch.int64, device=self._device)
        self._seen, self._row = self._begin.clone(), self._begin.clone()
        # Of each row on the device: its slot.
        self._slot = self._begin[:1].clone()
        # Tokens that a step may add, counted from 0.
        self._ahead = torch.arange(drafts + 1, device=self._device)[None]

    def add(self, slot: int, params: Any) -> bool:
        """Take a request into a slot, in place of the one before; return whether it asks for anything."""
        processor = self._requests.processor(params)
        if processor is not None:
            length = int(self._states.prefill_len.np[slot])
            self._changes[slot] = processor, params, _staged(self._states.all_token_ids, slot, length)
        elif slot in self._row_of:
            self._changes[slot] = None
        else:
            self._changes.pop(slot, None)
        return processor is not None

    def begin_step(self) -> None:
        """Let requests enter and leave."""
        self._done.clear()
        if self._changes:
            kept = {slot: row for slot, row in self._row_of.items() if slot not in self._changes}
            new = {slot: self._request(slot, *given) for slot, given in self._changes.items() if given is not None}
            self._changes.clear()
            # The last row is that of all slots that ask for nothing.
            self._batch.arrange([*kept.values(), *new.values(), None])
            self._row_of = {slot: row for row, slot in enumerate([*kept, *new])}
            self._place([*new])
        self._batch.prepare()

    def _request(self, slot: int, processor: Processor[Any], params: Any, tokens: list[int] | None) -> NewRequest:
        if tokens is None:
            tokens = self._states.all_token_ids.gpu[slot, : int(self._states.prefill_len.np[slot])].tolist()
        begin = int(self._states.prompt_len.np[slot])
        return self._requests.enter(processor, params, tokens[:begin], tokens[begin:])

    def _place(self, new: list[int]) -> None:
        """Tell the device which slots have which rows, and where new requests begin."""
        last = len(self._row_of)
        rows = [self._row_of.get(slot, last) for slot in range(self._states.max_num_reqs)]
        self._row, self._slot, slots, begin = (
            torch.tensor(numbers, dtype=torch.int64, device=self._device)
            for numbers in (rows, [*self._row_of, 0], new, [int(self._states.prefill_len.np[slot]) for slot in new])
        )
        self._begin.index_copy_(0, slots, begin)
        self._seen.index_copy_(0, slots, begin)

    def process(self, logits: Tensor, ctx: Any) -> Tensor:
        """Process the logits, in place where that is quicker.

        Args:
            logits: [R, V] float32, one row for each token that is to be sampled or verified.
            ctx: vLLM's `LogitsContext`: whose rows these are.
        """
        here = [slot for slot in ctx.idx_mapping_np.tolist() if slot in self._row_of]
        if not here:
            return logits
        slots, drafted = ctx.expanded_idx_mapping.to(torch.int64), ctx.expanded_local_pos.to(torch.int64)
        committed = ctx.pos.to(torch.int64) + 1 - drafted
        # A row amid a prompt is of no use to vLLM either.
        begun = committed >= self._begin.index_select(0, slots)
        if not self._done.issuperset(here):
            self._commit(slots, torch.where(begun, committed, 0))
            self._done.update(here)
        rows = torch.where(begun, self._row.index_select(0, slots), len(self._row_of))
        kinds = self._batch.kinds(self._row_of[slot] for slot in here)
        places = partial(self._places, {self._row_of[slot]: slot for slot in here}, slots, drafted)
        states = self._batch.states.select(rows, kinds, places)
        if len(slots) > len(ctx.idx_mapping_np):
            states = self._drafted(states, slots, drafted, ctx.input_ids)
        return states.process_logits(logits)

    def _places(
        self, here: dict[int, int], slots: Tensor, drafted: Tensor, rows: Sequence[int]
    ) -> tuple[list[int], Tensor]:
        """Return which of some rows of the batch are in this step, and all rows of logits of each, [K, drafts + 1].

        A request with fewer rows has its first one several times, so that the host need not know how many.
        """
        which = [place for place, row in enumerate(rows) if row in here]
        numbers = torch.arange(len(slots), device=self._device)
        table = numbers.new_full((self._states.max_num_reqs, self._ahead.shape[1]), -1)
        table[slots, drafted.clamp(max=table.shape[1] - 1)] = numbers
        theirs = torch.tensor([here[rows[place]] for place in which], dtype=torch.int64, device=self._device)
        found = table.index_select(0, theirs)
        return which, torch.where(found >= 0, found, found[:, :1])

    def _commit(self, slots: Tensor, committed: Tensor) -> None:
        """Take note of tokens that are certain."""
        known = self._seen.scatter_reduce(0, slots, committed, "amax")
        seen = self._seen.index_select(0, self._slot)[:, None]
        places = seen + self._ahead
        there = places < known.index_select(0, self._slot)[:, None]
        tokens = self._states.all_token_ids.gpu
        new = tokens[self._slot[:, None], places.clamp(max=tokens.shape[1] - 1)].to(torch.int64)
        new = torch.where(there, new, -1)
        self._batch.advance(new[:, 0] if new.shape[1] == 1 else new)
        self._seen = torch.minimum(known, self._seen + new.shape[1])

    def _drafted(self, states: StepStates, slots: Tensor, drafted: Tensor, tokens: Tensor) -> StepStates:
        """Return the states after the drafts before each row."""
        width = self._ahead.shape[1]
        said = torch.full((len(self._row), width), -1, dtype=torch.int64, device=self._device)
        said[slots, drafted.clamp(max=width - 1)] = tokens.to(torch.int64)
        before = torch.where(self._ahead <= drafted[:, None], said.index_select(0, slots), -1)
        # What is at place 0 is no draft.
        return states.advance(before[:, 1:])


def _staged(tokens: Any, slot: int, length: int) -> list[int] | None:
    """Return the tokens that are on their way into a slot, where vLLM shows them; they are read on the device otherwise.

    That would make the host wait in each step in which a request enters.
    """
    slots, ends = (getattr(tokens, f"_staged_write_{name}", None) for name in ("indices", "cu_lens"))
    contents: Sequence[int] | None = getattr(tokens, "_staged_write_contents", None)
    if not slots or not ends or contents is None or slots[-1] != slot:
        return None
    found = list(contents[ends[-2] if len(ends) > 1 else 0 : ends[-1]])
    return found if len(found) == length else None
