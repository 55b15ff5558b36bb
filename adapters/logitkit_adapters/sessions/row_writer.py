"""Generation of one row: forced tokens all at once, other tokens one per forward pass."""

from __future__ import annotations

from collections.abc import Iterator
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
from logitkit_adapters.sessions.end_of_row import end_of_row, is_constrained
from logitkit_adapters.sessions.sequence import CachedSequence, SequenceEngine

__all__ = ["RowOptions", "RowWriter"]


@dataclass(frozen=True, slots=True)
class RowOptions:
    """The options of one row.

    Args:
        engine: The model.
        processor: The processor to apply to the logits, if any; it sees the whole prompt, cached or not.
        ends: The ids that end the row.
        prompt: The tokens of the prompt.
        max_new_tokens: The maximum number of new tokens, at least 1.
        seed: The seed of sampling; None: greedy.
        stream: The random stream of the row.
        log_probs: Whether to compute the log-probabilities of the new tokens.
    """

    engine: SequenceEngine
    processor: Processor[Any] | None
    ends: frozenset[int]
    prompt: list[int]
    max_new_tokens: int
    seed: int | None
    stream: int
    log_probs: bool


class RowWriter:
    """The generation of one row.

    Args:
        options: The options of the row.
        tokens: The new tokens so far.
        forced_tokens: The number of forced tokens among them.
        log_probs: Their log-probabilities, if asked for.
        finished: Why the row ended; see `GeneratedRow`.
    """

    def __init__(self, options: RowOptions) -> None:
        self._options = options
        self.tokens: list[int] = []
        self.forced_tokens = 0
        self.log_probs: list[float] = []
        self.finished = "length"
        self._processor: Any = options.processor
        self._process = None if options.processor is None else EngineLogits(options.processor)
        # The tokens that the state includes.
        self._committed: list[int] = []
        # The context of the prompt; `_now` adds the tokens after it.
        self._context: Any = None
        self._state: Any = None
        engine = options.engine
        self._may_force = self._processor is not None and engine.vocabulary_size > 0 and may_force(self._processor)
        if self._may_force:
            self._begin(engine.vocabulary_size, engine.device)

    def steps(self, sequence: CachedSequence) -> Iterator[None]:
        """Generate the row; stops after every step that added tokens.

        Args:
            sequence: A sequence of the beginning of the prompt, shorter than the prompt.
        """
        options, new = self._options, self.tokens
        pending = options.prompt[sequence.length :]
        while True:
            known = self._forced(options.max_new_tokens - len(new))
            end = next((at for at, token in enumerate(known, 1) if token in options.ends), None)
            known = known[:end]
            new += known
            self.forced_tokens += len(known)
            if options.log_probs:
                self.log_probs += [0.0] * len(known)
            if end is not None or len(new) == options.max_new_tokens:
                break
            logits = sequence.feed([*pending, *known])
            self._commit(known)
            new.append(self._choose(logits))
            if new[-1] in options.ends or len(new) == options.max_new_tokens:
                break
            pending = new[-1:]
            self._commit(pending)
            yield
        self._finish()
        yield

    def _finish(self) -> None:
        """Set the reason of the end."""
        ended = self.tokens[-1] in self._options.ends
        self.finished = "eos" if ended else "length"
        if self._context is not None and is_constrained(self._processor):
            self._commit(self.tokens[len(self._committed) : len(self.tokens) - ended])
            self.finished = end_of_row(self._processor, self._state, self._now(), ended, self._options.ends)

    def _forced(self, limit: int) -> list[int]:
        """Return the next tokens as long as there is no alternative."""
        if not self._may_force:
            return []
        return forced_run(self._processor, self._state, context=self._now(), limit=limit)

    def _choose(self, logits: Tensor) -> int:
        """Return the next token, from logits [V]."""
        options, context = self._options, self._context
        if self._process is not None:
            if context is None or (context.vocabulary_size, context.device) != (len(logits), logits.device):
                self._begin(len(logits), logits.device)
            ends = sorted(options.engine.eos_ids)
            logits = self._process(self._state, logits[None], self._now(), ends)
        if not options.log_probs:
            return self._chosen(logits)
        # Before the choice, which may overwrite the logits.
        scores = logits.reshape(-1).to(torch.float64).log_softmax(0)
        token = self._chosen(logits)
        self.log_probs.append(float(scores[token]))
        return token

    def _chosen(self, logits: Tensor) -> int:
        options = self._options
        if options.seed is None:
            return options.engine.greedy(logits)
        length = len(options.prompt) + len(self._committed)
        stream, position = (torch.tensor([n], device=logits.device) for n in (options.stream, length))
        return int(drawn_tokens(logits.reshape(1, -1), options.seed, stream, position))

    def _commit(self, tokens: list[int]) -> None:
        """Advance the processor by the chosen tokens."""
        self._committed += tokens
        if self._context is not None:
            self._advance(tokens)

    def _begin(self, columns: int, device: torch.device) -> None:
        """Initialise the state with the prompt and the tokens so far, for logits of the given width and device."""
        options = self._options
        most = len(options.prompt) + options.max_new_tokens
        self._context = Context.of([options.prompt], columns, device, max_length=most)
        if options.stream:  # without stream ids, the first row has the first stream
            self._context = replace(self._context, stream_ids=torch.tensor([options.stream], device=device))
        self._state = init_checked(self._processor, self._context)
        self._advance(self._committed)

    def _advance(self, tokens: list[int]) -> None:
        # A `Stateless` function has no state to advance.
        if tokens and not isinstance(self._processor, Stateless):
            # Through numpy, which converts lists several times as fast as torch.
            ids = torch.from_numpy(np.array([tokens], np.int64)).to(self._context.device)
            self._state = advance_checked(self._processor, self._state, ids)

    def _now(self) -> Context:
        """Return the context at the current length of the row."""
        context: Context = self._context
        return context.at(context.prompt_lengths + len(self._committed)) if self._committed else context
