"""The rows of vLLM's V1 model runner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from logitkit.batching.batch import BatchedRequests
from logitkit.batching.live_outputs import LiveOutputs, LiveRequest, RowMove
from logitkit.batching.ragged import known_tokens
from logitkit_adapters.admission.configurations import Configurations
from logitkit_adapters.vllm.requests import Requests

__all__ = ["V1Rows"]

SHOW_TOKENS = "turn asynchronous scheduling off (--no-async-scheduling, or async_scheduling=False)"


class V1Rows:
    """Follows the batch of the model runner; only requests with a configuration have rows here.

    Chunked prefill, preemption and steps in which a request waits do not change a state, as `LiveOutputs` says.

    Args:
        configurations: The engine's configurations.
        device: The device of the logits.
        longest: The maximum length of a sequence of the engine.
    """

    def __init__(self, configurations: Configurations, device: torch.device, longest: int) -> None:
        self._requests = Requests(configurations, longest, device.type == "cpu")
        vocabulary = configurations.vocabulary
        self.batch = BatchedRequests(device, vocabulary.eos_ids, vocabulary.size)
        self.rows = LiveOutputs(self.batch, device, SHOW_TOKENS)

    def update(self, update: Any) -> None:
        """Apply the changes of the batch.

        Args:
            update: vLLM's `BatchUpdate`: removed requests, then added ones, then moved ones; the latter two may replace others.
        """
        added = [(index, self._new(params, prompt, output)) for index, params, prompt, output in update.added]
        moved = [RowMove(source, target, direction.name == "SWAP") for source, target, direction in update.moved]
        self.rows.change(update.batch_size, update.removed, added, moved)

    def _new(self, params: Any, prompt: Sequence[int] | None, output: list[int]) -> LiveRequest | None:
        processor = self._requests.processor(params, None if prompt is None else len(prompt))
        if processor is None:
            return None
        return LiveRequest(self._requests.enter(processor, params, prompt, known_tokens(output)), output)

    def process(self, logits: Tensor) -> Tensor:
        """Process the logits of all rows, in place.

        Raises:
            ProcessorError: vLLM hides a token.
        """
        return self.rows.process_logits(logits)
