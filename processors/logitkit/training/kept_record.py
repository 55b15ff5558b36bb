"""The sets of tokens that a hook kept, for training: recorded at each call, and looked up by the tokens before each step.

An engine may call a hook in any order of rows, for drafts that it rejects, and more often than it commits tokens. So a set is not
numbered by its call. Its key is a SHA-256 of the tokens before it, prompt and output apart, and the last call for them counts.
Rows of one call may have the same tokens, as all samples of one prompt have at their first step, and `Xtc` draws other numbers in
each. So among them, a set is found by the random stream of its row, which is its index in the batch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from logitkit.composition.conflicts import eos_ids_of
from logitkit.errors import ConfigurationError
from logitkit.protocol.context import Context
from logitkit.protocol.processor import Processor
from logitkit.runtime.token_bits import legal_tokens, packed, width
from logitkit.training.rollouts import stream_numbers
from logitkit.training.token_lines import output_lines, prompt_lines

__all__ = ["KeptRecord"]


class KeptRecord:
    """The kept sets of the rows of one hook.

    Args:
        processor: The processor of the hook.
    """

    def __init__(self, processor: Processor[Any]) -> None:
        self._eos_ids = eos_ids_of(processor)
        # For each key, the number of the last call, and its sets by stream.
        self._found: dict[bytes, tuple[int, dict[int, Tensor]]] = {}
        self._columns = self._calls = 0

    def add(self, ids: Tensor, context: Context, processed: Tensor) -> None:
        """Record the sets of one call.

        Args:
            ids: [R, L] the visible tokens of each row, which end with its output.
            context: The context of the rows.
            processed: [R, V] the logits after the processor.
        """
        sets = packed(legal_tokens(processed.detach()))
        self._columns = processed.shape[1]
        self._calls += 1
        streams = context.streams.tolist()
        outputs = (context.lengths - context.prompt_lengths).tolist()
        prompts = zip(context.prompt.tolist(), context.prompt_lengths.tolist(), strict=True)
        for row, ((prompt, length), new) in enumerate(zip(prompts, outputs, strict=True)):
            shown = ids[row].tolist()
            key = _after_prompt(prompt[:length])
            key.update(_bytes_of(shown[len(shown) - new :]))
            call, by_stream = self._found.get(key.digest(), (0, {}))
            if call != self._calls:
                by_stream = {}
                self._found[key.digest()] = self._calls, by_stream
            by_stream[streams[row]] = sets[row]

    def of(self, prompts: Any, outputs: Any, pad_id: int | None, stream_ids: Any = None) -> Tensor:
        """Return the sets of sampled rows, [B, T, ceil(V / 32)] int32, zero at padding; see `EngineHook.kept_sets`."""
        rows = len(outputs)
        steps = (
            outputs.shape[1]
            if isinstance(outputs, Tensor) and outputs.dim() == 2
            else max(map(len, outputs), default=0)
        )
        starts = prompt_lines(prompts, rows, pad_id)
        lines = output_lines(outputs, (rows, steps, self._columns or 2**31 - 1), pad_id, [self._eos_ids] * rows)
        given = stream_numbers(stream_ids, rows)
        streams = range(rows) if given is None else given.tolist()
        sets = torch.zeros(rows, steps, width(self._columns), dtype=torch.int32)
        for row, (prompt, line) in enumerate(zip(starts, lines, strict=True)):
            key = _after_prompt(prompt)
            for step, token in enumerate(line):
                found = self._set_of(key.copy().digest(), streams[row], row, step)
                sets[row, step] = found.to(sets.device)
                key.update(_bytes_of([token]))
        return sets

    def _set_of(self, key: bytes, stream: int, row: int, step: int) -> Tensor:
        _, by_stream = self._found.get(key, (0, {}))
        if stream in by_stream:
            return by_stream[stream]
        if not by_stream:
            raise ConfigurationError(
                f"the hook has no kept set for row {row} at step {step}: it was not called with these tokens. Give the "
                "prompts and outputs of its own generation, and to the hook and here the same padding; make the hook before the "
                "generation, with record_kept=True, and with prompt=... for an engine that shows hooks only the end of a prompt, "
                "as mlx-vlm does"
            )
        first, *others = by_stream.values()
        if not all(torch.equal(first, other) for other in others):
            raise ConfigurationError(
                f"the hook kept different sets for row {row} at step {step} in the rows {sorted(by_stream)} of its batch, but "
                f"not in row {stream}; give the index of each row in the batch that was sampled: stream_ids=[...]"
            )
        return first

    def clear(self) -> None:
        """Forget all sets."""
        self._found.clear()


def _after_prompt(prompt: Sequence[int]) -> Any:
    """Return the hash of a prompt, to which the output is added; the length tells the two apart."""
    return hashlib.sha256(_bytes_of([len(prompt), *prompt]))


def _bytes_of(ids: Sequence[int]) -> bytes:
    return np.array(ids, np.int64).tobytes()
