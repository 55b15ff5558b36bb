"""The slots of vLLM's V2 model runner."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import torch
from torch import Tensor

from logitkit.pipeline.batch import BatchedRequests, NewRequest
from logitkit.processor import Processor
from logitkit_adapters.vllm_parameters import Configurations
from logitkit_adapters.vllm_requests import processor_of, stream_of

__all__ = ["V2Slots"]


class V2Slots:
    """Follows the slots of the model runner; only requests that ask for something have rows here.

    A row of logits is told by its slot and its place in the text, and under speculation a request has several: each has the state
    of its own text, drafts before it included. To call `process` twice changes nothing.

    Args:
        configurations: What requests may ask for.
        req_states: vLLM's `LogitsProcRequestState`, the tokens of all slots.
    """

    def __init__(self, configurations: Configurations, req_states: Any) -> None:
        self._configurations = configurations
        self._states = req_states
        self._batch = BatchedRequests(req_states.device)
        self._asked: dict[int, tuple[Processor[Any], Any]] = {}
        # Of each row here its slot, and how many tokens it has seen.
        self._slots: list[int] = []
        self._seen: list[int] = []
        self._drafts: defaultdict[int, dict[int, int]] = defaultdict(dict)

    def add(self, slot: int, params: Any) -> bool:
        """Take a request into a slot, in place of the one before; return whether it asks for anything."""
        self._forget(slot)
        self._asked.pop(slot, None)
        processor = processor_of(self._configurations, params)
        if processor is None:
            return False
        self._asked[slot] = processor, params
        return True

    def begin_step(self) -> None:
        """Forget the drafts of the last step."""
        self._drafts.clear()

    def process(self, logits: Tensor, ctx: Any) -> Tensor:
        """Process the logits, in place.

        Args:
            logits: [R, V] float32, one row for each token that is to be sampled or verified.
            ctx: vLLM's `LogitsContext`: whose rows these are.
        """
        slots = ctx.expanded_idx_mapping.tolist()
        if not any(slot in self._asked for slot in slots):
            return logits
        places = (ctx.expanded_local_pos, ctx.pos, ctx.input_ids)
        rows = list(zip(slots, *(column.tolist() for column in places), strict=True))
        committed = {}
        for slot, drafted, position, token in rows:
            # A row amid a prompt is of no use to vLLM either.
            if slot in self._asked and position + 1 >= int(self._states.prefill_len.np[slot]):
                committed[slot] = position + 1 - drafted
                if drafted:
                    self._drafts[slot][position] = token
        self._commit(committed)
        number = {slot: row for row, slot in enumerate(self._slots)}
        texts = self._batch.fork([number.get(slot) if slot in committed else None for slot in slots])
        drafts = [
            [self._drafts[slot][place] for place in range(committed[slot], position + 1)] if slot in committed else []
            for slot, _, position, _ in rows
        ]
        if any(drafts):
            texts.advance(self._padded(drafts))
        return texts.process_logits(logits)

    def _commit(self, committed: dict[int, int]) -> None:
        """Bring rows to the tokens that are certain."""
        for slot in [s for s, seen in zip(self._slots, self._seen, strict=True) if committed.get(s, seen) < seen]:
            self._forget(slot)
        fresh = [slot for slot in committed if slot not in self._slots]
        if fresh:
            new = [self._request(slot, committed[slot]) for slot in fresh]
            self._batch.arrange([*range(len(self._slots)), *new])
            self._slots += fresh
            self._seen += [committed[slot] for slot in fresh]
        said = [
            self._tokens(slot, seen, committed.get(slot, seen))
            for slot, seen in zip(self._slots, self._seen, strict=True)
        ]
        if any(said):
            self._batch.advance(self._padded(said))
            self._seen = [seen + len(new) for seen, new in zip(self._seen, said, strict=True)]

    def _request(self, slot: int, length: int) -> NewRequest:
        processor, params = self._asked[slot]
        begin, size = int(self._states.prompt_len.np[slot]), self._configurations.vocabulary.size
        prompt = [token for token in self._tokens(slot, 0, begin) if 0 <= token < size]
        return NewRequest(processor, prompt, self._tokens(slot, begin, length), stream_of(prompt, params))

    def _tokens(self, slot: int, begin: int, end: int) -> list[int]:
        if begin >= end:
            return []
        found: list[int] = self._states.all_token_ids.gpu[slot, begin:end].tolist()
        return found

    def _padded(self, tokens: list[list[int]]) -> Tensor:
        width = max(map(len, tokens))
        rows = [[*new, *[-1] * (width - len(new))] for new in tokens]
        return torch.tensor(rows, dtype=torch.int64, device=self._states.device)

    def _forget(self, slot: int) -> None:
        if slot in self._slots:
            row = self._slots.index(slot)
            self._batch.arrange([r for r in range(len(self._slots)) if r != row])
            del self._slots[row], self._seen[row]
