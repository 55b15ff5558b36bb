"""Writing one row: what is forced at once, and else a token a pass."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from logitkit.context import Context
from logitkit.processor import Processor, Stateless, process_checked
from logitkit.sessions.forced_run import forced_run, may_force
from logitkit.sessions.token_choice import drawn_tokens
from logitkit_adapters.sessions.sequences import CachedSequence, SequenceEngine

__all__ = ["RowWriter"]


@dataclass(frozen=True)
class RowWriter:
    """How one row goes on.

    Args:
        engine: The model.
        processor: What to apply to the logits, if anything; it sees the whole prompt, cached or not.
        prompt: The tokens of the prompt.
        max_new_tokens: Most new tokens, at least 1.
        seed: Of what is drawn; None: the likeliest token.
        stream: Which stream of random numbers the row draws from.
    """

    engine: SequenceEngine
    processor: Processor[Any] | None
    prompt: list[int]
    max_new_tokens: int
    seed: int | None
    stream: int

    def write(self, sequence: CachedSequence) -> tuple[list[int], int]:
        """Return the new tokens, and how many of them were forced.

        Args:
            sequence: It holds a beginning of the prompt that is shorter than the prompt.
        """
        pending = self.prompt[sequence.length :]
        new: list[int] = []
        forced = 0
        run = _Processing(self)
        while True:
            known = run.forced(self.max_new_tokens - len(new))
            end = next((at for at, token in enumerate(known, 1) if token in self.engine.eos_ids), None)
            known = known[:end]
            new += known
            forced += len(known)
            if end is not None or len(new) == self.max_new_tokens:
                return new, forced
            logits = sequence.feed([*pending, *known])
            new.append(run.choose(logits, known))
            if new[-1] in self.engine.eos_ids or len(new) == self.max_new_tokens:
                return new, forced
            pending = new[-1:]
            run.commit(pending)


class _Processing:
    """A processor's state along one row, and the choice of its tokens."""

    def __init__(self, writer: RowWriter) -> None:
        self._writer = writer
        self._processor = writer.processor
        self._tokens: list[int] = []
        # That of the prompt; `_now` is for the tokens behind it too.
        self._context: Context | None = None
        self._state: Any = None
        engine = writer.engine
        self._may_force = self._processor is not None and engine.vocabulary_size > 0 and may_force(self._processor)
        if self._may_force:
            self._begin(engine.vocabulary_size, engine.device)

    def forced(self, limit: int) -> list[int]:
        """Return what comes next without an alternative."""
        if not self._may_force:
            return []
        assert self._processor is not None
        assert self._context is not None
        return forced_run(self._processor, self._state, context=self._now(self._context), limit=limit)

    def choose(self, logits: Tensor, known: list[int]) -> int:
        """Return the next token behind some that are known, of logits [V]."""
        self.commit(known)
        writer = self._writer
        if self._processor is not None:
            context, columns, device = self._context, logits.shape[0], logits.device
            if context is None or context.vocabulary_size != columns or context.device != device:
                context = self._begin(columns, device)
            self._state, processed = process_checked(self._processor, self._state, logits[None], self._now(context))
            logits = processed
        if writer.seed is None:
            return writer.engine.greedy(logits)
        length = len(writer.prompt) + len(self._tokens)
        stream, position = (torch.tensor([n], device=logits.device) for n in (writer.stream, length))
        return int(drawn_tokens(logits.reshape(1, -1), writer.seed, stream, position))

    def commit(self, tokens: list[int]) -> None:
        """Tell the processor of tokens that were chosen."""
        self._tokens += tokens
        if self._context is not None and tokens:
            self._advance(self._context, tokens)

    def _begin(self, columns: int, device: torch.device) -> Context:
        """Make the state of the prompt and the tokens so far, for logits of some columns and device."""
        writer = self._writer
        assert self._processor is not None
        most = len(writer.prompt) + writer.max_new_tokens
        context = Context.of([writer.prompt], columns, device, max_length=most)
        # The first row has the first stream anyway.
        self._context = (
            replace(context, stream_ids=torch.tensor([writer.stream], device=device)) if writer.stream else context
        )
        self._state = self._processor.init_state(self._context)
        self._advance(self._context, self._tokens)
        return self._context

    def _advance(self, context: Context, tokens: list[int]) -> None:
        assert self._processor is not None
        # A function remembers nothing.
        if tokens and not isinstance(self._processor, Stateless):
            # By way of numpy, which makes arrays of lists several times as fast as torch does.
            ids = torch.from_numpy(np.array([tokens], np.int64)).to(context.device)
            self._state = self._processor.advance(self._state, ids)

    def _now(self, context: Context) -> Context:
        """Return the context with the length of the row as it is now."""
        return context.at(context.prompt_lengths + len(self._tokens)) if self._tokens else context
