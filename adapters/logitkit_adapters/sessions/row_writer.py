"""Generation of one row: forced tokens all at once, other tokens one per forward pass."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from logitkit.composition.engine_logits import EngineLogits
from logitkit.protocol.calls import advance_checked, init_checked
from logitkit.protocol.context import Context
from logitkit.protocol.processor import Processor
from logitkit.protocol.stateless import Stateless
from logitkit.sessions.forced_run import forced_run, may_force
from logitkit.sessions.token_choice import drawn_tokens
from logitkit_adapters.sessions.sequence import CachedSequence, SequenceEngine

__all__ = ["RowWriter"]


@dataclass(frozen=True)
class RowWriter:
    """The options of one row.

    Args:
        engine: The model.
        processor: The processor to apply to the logits, if any; it sees the whole prompt, cached or not.
        ends: The ids that end the row.
        prompt: The tokens of the prompt.
        max_new_tokens: The maximum number of new tokens, at least 1.
        seed: The seed of sampling; None: greedy.
        stream: The random stream of the row.
    """

    engine: SequenceEngine
    processor: Processor[Any] | None
    ends: frozenset[int]
    prompt: list[int]
    max_new_tokens: int
    seed: int | None
    stream: int

    def write(self, sequence: CachedSequence) -> tuple[list[int], int]:
        """Return the new tokens, and the number of forced tokens among them.

        Args:
            sequence: A sequence of the beginning of the prompt, shorter than the prompt.
        """
        pending = self.prompt[sequence.length :]
        new: list[int] = []
        forced = 0
        run = _Processing(self)
        while True:
            known = run.forced(self.max_new_tokens - len(new))
            end = next((at for at, token in enumerate(known, 1) if token in self.ends), None)
            known = known[:end]
            new += known
            forced += len(known)
            if end is not None or len(new) == self.max_new_tokens:
                return new, forced
            logits = sequence.feed([*pending, *known])
            new.append(run.choose(logits, known))
            if new[-1] in self.ends or len(new) == self.max_new_tokens:
                return new, forced
            pending = new[-1:]
            run.commit(pending)


class _Processing:
    """The processor's state along one row, and the choice of tokens."""

    def __init__(self, writer: RowWriter) -> None:
        self._writer = writer
        self._processor: Any = writer.processor
        self._process = None if writer.processor is None else EngineLogits(writer.processor)
        self._tokens: list[int] = []
        # The context of the prompt; `_now` adds the tokens after it.
        self._context: Any = None
        self._state: Any = None
        engine = writer.engine
        self._may_force = self._processor is not None and engine.vocabulary_size > 0 and may_force(self._processor)
        if self._may_force:
            self._begin(engine.vocabulary_size, engine.device)

    def forced(self, limit: int) -> list[int]:
        """Return the next tokens as long as there is no alternative."""
        if not self._may_force:
            return []
        return forced_run(self._processor, self._state, context=self._now(), limit=limit)

    def choose(self, logits: Tensor, known: list[int]) -> int:
        """Return the token after the known ones, from logits [V]."""
        self.commit(known)
        writer, context = self._writer, self._context
        if self._process is not None:
            if context is None or (context.vocabulary_size, context.device) != (len(logits), logits.device):
                self._begin(len(logits), logits.device)
            ends = sorted(writer.engine.eos_ids)
            logits = self._process(self._state, logits[None], self._now(), ends)
        if writer.seed is None:
            return writer.engine.greedy(logits)
        length = len(writer.prompt) + len(self._tokens)
        stream, position = (torch.tensor([n], device=logits.device) for n in (writer.stream, length))
        return int(drawn_tokens(logits.reshape(1, -1), writer.seed, stream, position))

    def commit(self, tokens: list[int]) -> None:
        """Advance the processor by the chosen tokens."""
        self._tokens += tokens
        if self._context is not None:
            self._advance(tokens)

    def _begin(self, columns: int, device: torch.device) -> None:
        """Initialise the state with the prompt and the tokens so far, for logits of the given width and device."""
        writer = self._writer
        most = len(writer.prompt) + writer.max_new_tokens
        self._context = Context.of([writer.prompt], columns, device, max_length=most)
        if writer.stream:  # without stream ids, the first row has the first stream
            self._context = replace(self._context, stream_ids=torch.tensor([writer.stream], device=device))
        self._state = init_checked(self._processor, self._context)
        self._advance(self._tokens)

    def _advance(self, tokens: list[int]) -> None:
        # A `Stateless` function has no state to advance.
        if tokens and not isinstance(self._processor, Stateless):
            # Through numpy, which converts lists several times as fast as torch.
            ids = torch.from_numpy(np.array([tokens], np.int64)).to(self._context.device)
            self._state = advance_checked(self._processor, self._state, ids)

    def _now(self) -> Context:
        """Return the context at the current length of the row."""
        context: Context = self._context
        return context.at(context.prompt_lengths + len(self._tokens)) if self._tokens else context
