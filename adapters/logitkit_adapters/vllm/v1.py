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
    """A request that asks for something.

    Args:
        request: As it entered.
        output: vLLM's own list of its output, which grows.
        begun: Tokens of the request that count as output and stand before that list.
        seen: Tokens of it that are in the state.
        place: Where it was in the batch, or None if it is new there.
    """

    request: NewRequest
    output: list[int]
    begun: Sequence[int]
    seen: int
    place: int | None = None


class V1Rows:
    """Follows the batch of the model runner; only requests that ask for something have rows of it.

    A state is a function of prompt and output: what vLLM does with a request in between (chunks of a prompt, preemption, steps in
    which it waits) is seen in these only.

    Args:
        configurations: What requests may ask for.
        device: Where the logits are.
        longest: Most tokens that a sequence of the engine has.
    """

    def __init__(self, configurations: Configurations, device: torch.device, longest: int) -> None:
        self._requests = Requests(configurations, longest, device.type == "cpu")
        self._batch = BatchedRequests(device, configurations.vocabulary.eos_ids, configurations.vocabulary.size)
        self._device = device
        self._rows: dict[int, _Row] = {}

    def update(self, update: Any) -> None:
        """Take the changes of the batch.

        Args:
            update: vLLM's `BatchUpdate`: removed requests, then added, then moved ones; those added or moved may replace others.
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
        processor = self._requests.processor(params)
        if processor is None:
            return None
        said = _known(output)
        request = self._requests.enter(processor, params, prompt, said)
        return _Row(request, output, request.output[: len(request.output) - len(said)], len(said))

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
        """Begin requests again of which vLLM took back output."""
        for row in self._rows.values():
            if len(row.output) < row.seen:
                said = _known(row.output)
                row.request = replace(row.request, output=[*row.begun, *said])
                row.seen, row.place = len(said), None
        self._arrange(dict(self._rows), len(self._batch))

    def _advance(self, pending: dict[int, list[int]]) -> None:
        width = max(map(len, pending.values()))
        tokens = np.full((len(self._batch), width), -1, np.int64)
        for index, new in pending.items():
            if min(new) < 0:
                raise ProcessorError(
                    "vLLM hides the newest token of a request from logitkit; switch asynchronous scheduling off "
                    "(--no-async-scheduling, or async_scheduling=False)"
                )
            tokens[index, : len(new)] = new
            self._rows[index].seen += len(new)
        committed = torch.from_numpy(tokens).to(self._device)
        self._batch.advance(committed[:, 0] if width == 1 else committed)


def _known(output: Sequence[int]) -> list[int]:
    """Return the output without placeholders at its end, for tokens that are still being sampled."""
    count = len(output)
    while count and output[count - 1] < 0:
        count -= 1
    return list(output[:count])
