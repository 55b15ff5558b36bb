"""The rows of vLLM's V1 model runner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from logitkit.batching.batch import BatchedRequests
from logitkit.batching.entering import NewRequest
from logitkit.errors import ProcessorError
from logitkit_adapters.vllm.configurations import Configurations
from logitkit_adapters.vllm.requests import Requests

__all__ = ["V1Rows"]


@dataclass(slots=True, eq=False)
class _Row:
    """A request with a configuration.

    Args:
        request: The request as it entered.
        output: vLLM's own list of its output, which grows.
        begun: The tokens of its prompt that count as output.
        seen: The number of tokens of `output` that are in the state.
        place: Its row in the batch, or None if it is new there.
    """

    request: NewRequest
    output: list[int]
    begun: Sequence[int]
    seen: int
    place: int | None = None


class V1Rows:
    """Follows the batch of the model runner; only requests with a configuration have rows here.

    A state is a function of prompt and output. Chunked prefill, preemption and steps in which a request waits do not change it.

    Args:
        configurations: The engine's configurations.
        device: The device of the logits.
        longest: The maximum length of a sequence of the engine.
    """

    def __init__(self, configurations: Configurations, device: torch.device, longest: int) -> None:
        self._requests = Requests(configurations, longest, device.type == "cpu")
        self._batch = BatchedRequests(device, configurations.vocabulary.eos_ids, configurations.vocabulary.size)
        self._device = device
        self._rows: dict[int, _Row] = {}

    def update(self, update: Any) -> None:
        """Apply the changes of the batch.

        Args:
            update: vLLM's `BatchUpdate`: removed requests, then added ones, then moved ones; the latter two may replace others.
        """
        rows = dict(self._rows)
        for index in update.removed:
            rows.pop(index, None)
        for index, params, prompt, output in update.added:
            rows.pop(index, None)
            row = self._new(params, prompt, output)
            if row is not None:
                rows[index] = row
        for source, target, direction in update.moved:
            moving, other = rows.pop(source, None), rows.pop(target, None)
            if moving is not None:
                rows[target] = moving
            if other is not None and direction.name == "SWAP":
                rows[source] = other
        self._arrange(rows, update.batch_size)

    def _arrange(self, rows: dict[int, _Row], size: int) -> None:
        order: list[int | NewRequest | None] = [None] * size if rows else []
        for index, row in rows.items():
            order[index] = row.request if row.place is None else row.place
        self._batch.arrange(order)
        for index, row in rows.items():
            row.place = index
        self._rows = rows

    def _new(self, params: Any, prompt: Sequence[int] | None, output: list[int]) -> _Row | None:
        processor = self._requests.processor(params, None if prompt is None else len(prompt))
        if processor is None:
            return None
        known = _known(output)
        request = self._requests.enter(processor, params, prompt, known)
        return _Row(request, output, request.output[: len(request.output) - len(known)], len(known))

    def process(self, logits: Tensor) -> Tensor:
        """Process the logits of all rows, in place.

        Raises:
            ProcessorError: vLLM hides a token.
        """
        if not self._rows:
            return logits
        if any(len(row.output) < row.seen for row in self._rows.values()):
            self._replay()
        pending = {index: row.output[row.seen :] for index, row in self._rows.items() if len(row.output) > row.seen}
        if pending:
            self._advance(pending)
        return self._batch.process_logits(logits)

    def _replay(self) -> None:
        """Start requests again if vLLM has removed tokens from their outputs."""
        for row in self._rows.values():
            if len(row.output) < row.seen:
                known = _known(row.output)
                row.request = replace(row.request, output=[*row.begun, *known])
                row.seen, row.place = len(known), None
        self._arrange(dict(self._rows), len(self._batch))

    def _advance(self, pending: dict[int, list[int]]) -> None:
        width = max(map(len, pending.values()))
        tokens = np.full((len(self._batch), width), -1, np.int64)
        for index, new in pending.items():
            if min(new) < 0:
                raise ProcessorError(
                    "vLLM hides the newest token of a request from logitkit; turn asynchronous scheduling off "
                    "(--no-async-scheduling, or async_scheduling=False)"
                )
            tokens[index, : len(new)] = new
            self._rows[index].seen += len(new)
        committed = torch.from_numpy(tokens).to(self._device)
        self._batch.advance(committed[:, 0] if width == 1 else committed)


def _known(output: Sequence[int]) -> list[int]:
    """Return the output without the placeholders at its end for tokens that are being sampled."""
    count = len(output)
    while count and output[count - 1] < 0:
        count -= 1
    return list(output[:count])
