"""A generator of ONNX Runtime GenAI, and the tokens that it has run: what sequences and snapshots share."""

from __future__ import annotations

import weakref
from array import array
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit_adapters.loaded_class import needed_for
from logitkit_adapters.onnxruntime_genai.model_limits import ModelLimits

with needed_for("onnxruntime_genai", "onnxruntime-genai", "onnx"):
    import onnxruntime_genai as og

__all__ = ["GeneratorUser", "SharedGenerator"]


class GeneratorUser:
    """Marks the sequence that a generator serves, as long as the sequence exists."""


class SharedGenerator:
    """A generator, and the tokens that it has run.

    Its cache cannot be copied or read, only cut. So sequences with the same beginning share it as long as none of them cuts what
    another needs; who finds other tokens in it than its own runs them again in a new one.

    Args:
        model: The model.
        limits: What the model supports.
        room: The maximum number of tokens. The engine reserves the memory for their keys and values at once.
    """

    def __init__(self, model: og.Model, limits: ModelLimits, room: int) -> None:
        self.room = room
        # The tokens that have been run; None after an error, when that is unknown.
        self.tokens: array[int] | None = array("i")
        # The sequence that last used it, if the tokens are exactly its own.
        self._owner: weakref.ref[GeneratorUser] | None = None
        self._limits = limits
        parameters: Any = og.GeneratorParams(model)
        parameters.set_search_options(max_length=room, batch_size=1, num_beams=1, num_return_sequences=1)
        parameters.set_speculative_options(ngram_size=0)
        self._generator: Any = og.Generator(model, parameters)

    def belong_to(self, owner: GeneratorUser) -> None:
        """Declare the tokens to be exactly those of a sequence."""
        self._owner = weakref.ref(owner)

    def is_owned_by(self, owner: GeneratorUser) -> bool:
        """Whether the tokens are exactly those of a sequence, which nobody else has used since."""
        return self._owner is not None and self._owner() is owner

    def is_free(self, length: int) -> bool:
        """Whether no sequence needs the tokens after a length."""
        assert self.tokens is not None
        return len(self.tokens) == length or self._owner is None or self._owner() is None

    def begins_with(self, tokens: Sequence[int]) -> bool:
        """Whether the first tokens are these."""
        return self.tokens is not None and self.tokens[: len(tokens)] == array("i", tokens)

    def cut(self, length: int) -> bool:
        """Keep the first tokens only; return False if that is impossible."""
        if self.tokens is None:
            return False
        if length < len(self.tokens):
            if not self._limits.can_rewind:
                return False
            if length and self._has_switched(len(self.tokens)) and not self._has_switched(length):
                # The positions were computed with the embeddings of longer texts.
                return False
            kept, self.tokens, self._owner = self.tokens[:length], None, None
            try:
                self._generator.rewind_to(length)
            except RuntimeError:
                # The window of a layer has moved on. The generator may have forgotten only half of it.
                return False
            self.tokens = kept
        return True

    def run(self, tokens: Sequence[int], all_positions: bool) -> Tensor:
        """Run tokens after those before, and return float32 logits, of the last one [V] or of all [T, V].

        Only the engine copies them: from its own memory to an array, which the tensor shares.
        """
        assert self.tokens is not None
        before, self.tokens, self._owner = self.tokens, None, None
        given = list(tokens)
        if before and self._has_switched(len(before) + len(given)) and not self._has_switched(len(before)):
            self._generator.rewind_to(0)
            given = [*before, *given]
        rows: list[NDArray[np.float32]] = []
        for part in self._parts(given, all_positions):
            self._generator.append_tokens(part)
            if all_positions:
                rows += self._logits_of_all(len(part))
        self.tokens = before + array("i", tokens)
        if all_positions:
            return torch.from_numpy(np.stack(rows[-len(tokens) :]))
        return torch.from_numpy(self._generator.get_logits()[0, 0])

    def _has_switched(self, length: int) -> bool:
        return self._limits.switches_at is not None and length >= self._limits.switches_at

    def _parts(self, tokens: list[int], all_positions: bool) -> Iterator[NDArray[np.int32]]:
        """Split tokens so that none but the first of a part is padding at its end: the engine takes that for no token.

        It would return the logits of an earlier token, or memory before the logits if all are padding.
        """
        ids, end = np.array(tokens, np.int32), len(tokens)
        while end and tokens[end - 1] == self._limits.pad_id:
            end -= 1
        at_once = end if self._limits.shows_all_logits or not all_positions else 1
        if end:
            yield from np.split(ids[:end], range(at_once, end, at_once))
        yield from ids[end:, None]

    def _logits_of_all(self, count: int) -> list[NDArray[np.float32]]:
        if count == 1:
            return [self._generator.get_logits()[0, 0]]
        return [*self._generator.get_output("logits")[0].astype(np.float32, copy=False)]
