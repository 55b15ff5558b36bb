"""The slots of vLLM's V2 model runner."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from logitkit.batching.batch import BatchedRequests
from logitkit.batching.entering import NewRequest
from logitkit.batching.slot_rows import CallRows, SlotRows
from logitkit.protocol.processor import Processor
from logitkit_adapters.admission.configurations import Configurations
from logitkit_adapters.vllm.requests import Requests

__all__ = ["V2Slots"]


class V2Slots:
    """Follows the slots of the model runner; only requests with a configuration have rows here, as `SlotRows` says.

    Args:
        configurations: The engine's configurations.
        req_states: vLLM's `LogitsProcRequestState`, the tokens of all slots.
        drafts: The maximum number of draft tokens of a request in a step.
    """

    def __init__(self, configurations: Configurations, req_states: Any, drafts: int) -> None:
        self._states = req_states
        device, vocabulary = torch.device(req_states.device), configurations.vocabulary
        longest = req_states.all_token_ids.gpu.shape[1]
        self._requests = Requests(configurations, longest, device.type == "cpu", drafts)
        batch = BatchedRequests(device, vocabulary.eos_ids, vocabulary.size)
        self._rows = SlotRows(batch, device, req_states.max_num_reqs, drafts)

    def add(self, slot: int, params: Any) -> bool:
        """Replace the request in a slot; return whether the new one has a configuration."""
        processor = self._requests.processor(params, int(self._states.prompt_len.np[slot]))
        if processor is None:
            self._rows.remove(slot)
            return False
        length = int(self._states.prefill_len.np[slot])
        staged = _staged(self._states.all_token_ids, slot, length)
        self._rows.replace(slot, length, partial(self._request, slot, processor, params, staged))
        return True

    def _request(self, slot: int, processor: Processor[Any], params: Any, tokens: list[int] | None) -> NewRequest:
        if tokens is None:
            tokens = self._states.all_token_ids.gpu[slot, : int(self._states.prefill_len.np[slot])].tolist()
        begin = int(self._states.prompt_len.np[slot])
        return self._requests.enter(processor, params, tokens[:begin], tokens[begin:])

    def begin_step(self) -> None:
        """Let requests enter and leave."""
        self._rows.begin_step()

    def process(self, logits: Tensor, ctx: Any) -> Tensor:
        """Process the logits, in place if that is faster.

        Args:
            logits: [R, V] float32, one row for each token that is sampled or verified.
            ctx: vLLM's `LogitsContext`, which says whose rows these are.
        """
        slots, drafted = ctx.expanded_idx_mapping, ctx.expanded_local_pos
        call = CallRows(ctx.idx_mapping_np.tolist(), slots, drafted, ctx.pos, ctx.input_ids)
        return self._rows.process_logits(logits, call, self._states.all_token_ids.gpu)


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
