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
    """Follows the slots of the model runner; only requests with a configuration have rows here.

    A row of logits is identified by its slot and its position in the text. With speculation, a request has several rows: each has
    the state after its own text, including the drafts before it. A second call of `process` changes nothing.

    The host knows which requests a step has, but not the sampled tokens: `process` leaves these on the device and never waits for
    it.

    Args:
        configurations: The engine's configurations.
        req_states: vLLM's `LogitsProcRequestState`, the tokens of all slots.
        drafts: The maximum number of draft tokens of a request in a step.
    """

    def __init__(self, configurations: Configurations, req_states: Any, drafts: int) -> None:
        self._states = req_states
        self._device = torch.device(req_states.device)
        longest = req_states.all_token_ids.gpu.shape[1]
        self._requests = Requests(configurations, longest, self._device.type == "cpu", drafts)
        self._batch = BatchedRequests(self._device, configurations.vocabulary.eos_ids, configurations.vocabulary.size)
        self._row_of: dict[int, int] = {}
        # The slots whose requests change before the next step: processor, parameters and tokens of the new one, or None.
        self._changes: dict[int, tuple[Processor[Any], Any, list[int] | None] | None] = {}
        # The slots whose newest tokens are in the states.
        self._done: set[int] = set()
        # On the device, for each slot: the number of tokens that it begins with, the number of those in its state, and its row.
        self._begin = torch.zeros(req_states.max_num_reqs, dtype=torch.int64, device=self._device)
        self._seen, self._row = self._begin.clone(), self._begin.clone()
        # On the device, for each row: its slot.
        self._slot = self._begin[:1].clone()
        # The indices of the tokens that a step may add.
        self._ahead = torch.arange(drafts + 1, device=self._device)[None]

    def add(self, slot: int, params: Any) -> bool:
        """Replace the request in a slot; return whether the new one has a configuration."""
        processor = self._requests.processor(params, int(self._states.prompt_len.np[slot]))
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
            # All slots without a configuration share the last row.
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
        """Copy the rows of slots, and the lengths with which new requests begin, to the device."""
        last = len(self._row_of)
        rows = [self._row_of.get(slot, last) for slot in range(self._states.max_num_reqs)]
        self._row, self._slot, slots, begin = (
            torch.tensor(numbers, dtype=torch.int64, device=self._device)
            for numbers in (rows, [*self._row_of, 0], new, [int(self._states.prefill_len.np[slot]) for slot in new])
        )
        self._begin.index_copy_(0, slots, begin)
        self._seen.index_copy_(0, slots, begin)

    def process(self, logits: Tensor, ctx: Any) -> Tensor:
        """Process the logits, in place if that is faster.

        Args:
            logits: [R, V] float32, one row for each token that is sampled or verified.
            ctx: vLLM's `LogitsContext`, which says whose rows these are.
        """
        here = [slot for slot in ctx.idx_mapping_np.tolist() if slot in self._row_of]
        if not here:
            return logits
        slots, drafted = ctx.expanded_idx_mapping.to(torch.int64), ctx.expanded_local_pos.to(torch.int64)
        committed = ctx.pos.to(torch.int64) + 1 - drafted
        # vLLM does not use a row in the middle of a prompt either.
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
        """Return which of some rows of the batch are in this step, and the rows of logits of each, [K, drafts + 1].

        A request with fewer rows of logits repeats its first one, because the host does not know their number.
        """
        which = [place for place, row in enumerate(rows) if row in here]
        numbers = torch.arange(len(slots), device=self._device)
        table = numbers.new_full((self._states.max_num_reqs, self._ahead.shape[1]), -1)
        table[slots, drafted.clamp(max=table.shape[1] - 1)] = numbers
        theirs = torch.tensor([here[rows[place]] for place in which], dtype=torch.int64, device=self._device)
        found = table.index_select(0, theirs)
        return which, torch.where(found >= 0, found, found[:, :1])

    def _commit(self, slots: Tensor, committed: Tensor) -> None:
        """Advance the states by the committed tokens."""
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
        drafts = torch.full((len(self._row), width), -1, dtype=torch.int64, device=self._device)
        drafts[slots, drafted.clamp(max=width - 1)] = tokens.to(torch.int64)
        before = torch.where(self._ahead <= drafted[:, None], drafts.index_select(0, slots), -1)
        # The token at position 0 is not a draft.
        return states.advance(before[:, 1:])


def _staged(tokens: Any, slot: int, length: int) -> list[int] | None:
    """Return the tokens that vLLM is about to copy into a slot, or None if this release does not show them.

    Then they are read from the device, and the host waits for it in each step in which a request enters.
    """
    slots, ends = (getattr(tokens, f"_staged_write_{name}", None) for name in ("indices", "cu_lens"))
    contents: Sequence[int] | None = getattr(tokens, "_staged_write_contents", None)
    if not slots or not ends or contents is None or slots[-1] != slot:
        return None
    found = list(contents[ends[-2] if len(ends) > 1 else 0 : ends[-1]])
    return found if len(found) == length else None
