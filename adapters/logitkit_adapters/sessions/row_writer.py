"""Generation of one row: forced tokens all at once, other tokens one per forward pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from logitkit.composition.chain import Chain
from logitkit.composition.engine_logits import EngineLogits
from logitkit.errors import BrokenLogits
from logitkit.protocol.calls import advance_checked, init_checked
from logitkit.protocol.context import Context
from logitkit.protocol.processor import Processor
from logitkit.protocol.stateless import Stateless
from logitkit.sessions.forced_run import forced_run, may_force
from logitkit.sessions.token_choice import drawn_tokens
from logitkit_adapters.sessions.end_of_row import end_of_row
from logitkit_adapters.sessions.media_prompt import cached_ids
from logitkit_adapters.sessions.sequence import CachedSequence, SequenceEngine
from logitkit_adapters.sessions.session_call import SessionCall

__all__ = ["RowWriter"]


@dataclass
class RowWriter:
    """The generation of one row.

    Args:
        engine: The model.
        call: The call. Its processor sees the whole prompt, cached or not.
        ends: The ids that end the row.
        prompt: The tokens of the prompt.
        max_new_tokens: The maximum number of new tokens, at least 1.
        stream: The random stream of the row.
        tokens: The new tokens so far.
        log_probs: Their log-probabilities, if the call asks for them.
        kept: The tokens that were kept at each step, [ceil(V / 32)] int32 each, if the call asks for them.
        forced_tokens: The number of forced tokens among the new ones.
    """

    engine: SequenceEngine
    call: SessionCall
    ends: frozenset[int]
    prompt: list[int]
    max_new_tokens: int
    stream: int
    tokens: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    kept: list[Tensor] = field(default_factory=list)
    forced_tokens: int = 0

    def __post_init__(self) -> None:
        self._processor: Processor[Any] = Chain(()) if self.call.processor is None else self.call.processor
        self._process = EngineLogits(self._processor)
        # The tokens that the state includes.
        self._committed: list[int] = []
        # The context of the prompt; `_now` adds the tokens after it.
        self._context: Any = None
        self._state: Any = None
        columns = self.engine.vocabulary_size
        self._may_force = columns > 0 and may_force(self._processor)
        if self._may_force:
            self._begin(columns, self.engine.device)

    def steps(self, sequence: CachedSequence) -> Iterator[None]:
        """Generate the row; stops after every step that added tokens.

        Args:
            sequence: A sequence of the beginning of the prompt, shorter than the prompt.
        """
        new = self.tokens
        pending = cached_ids(self.prompt)[sequence.length :]
        while True:
            known = self._forced(self.max_new_tokens - len(new))
            end = next((at for at, token in enumerate(known, 1) if token in self.ends), None)
            known = known[:end]
            new += known
            self.forced_tokens += len(known)
            if self.call.log_probs:
                self.log_probs += [0.0] * len(known)
            self._keep_only(known)
            if end is not None or len(new) == self.max_new_tokens:
                break
            logits = sequence.feed([*pending, *known])
            self._commit(known)
            new.append(self._choose(logits))
            if new[-1] in self.ends or len(new) == self.max_new_tokens:
                break
            pending = new[-1:]
            self._commit(pending)
            yield
        yield

    @property
    def finished(self) -> str:
        """Why the row ended; see `GeneratedRow`."""
        columns = 0 if self._context is None else self._context.vocabulary_size
        emptied = self._process.emptied is not None and bool(self._process.emptied)
        return end_of_row(
            self._processor, self.prompt, self.tokens, self.max_new_tokens, self.ends, columns, emptied=emptied
        )

    def _forced(self, limit: int) -> list[int]:
        """Return the next tokens as long as there is no alternative."""
        if not self._may_force:
            return []
        return forced_run(self._processor, self._state, context=self._now(), limit=limit)

    def _choose(self, logits: Tensor) -> int:
        """Return the next token, from logits [V].

        Raises:
            BrokenLogits: The logits are broken.
        """
        context = self._context
        if context is None or (context.vocabulary_size, context.device) != (len(logits), logits.device):
            self._begin(len(logits), logits.device)
        try:
            return self._chosen(self._process(self._state, logits[None], self._now(), sorted(self.engine.eos_ids)))
        except BrokenLogits as error:
            raise BrokenLogits(error.reason, self.stream, len(self._committed)) from None

    def _chosen(self, logits: Tensor) -> int:
        # Before the choice, which may overwrite the logits.
        scores = logits[0].to(torch.float64).log_softmax(0) if self.call.log_probs else None
        self._keep_legal(logits)
        if self.call.seed is None:
            token = self.engine.greedy(logits)
        else:
            length = len(self.prompt) + len(self._committed)
            stream, position = (torch.tensor([n], device=logits.device) for n in (self.stream, length))
            token = int(drawn_tokens(logits, self.call.seed, stream, position))
        # On a device, the flag is known with the token.
        self._process.raise_broken()
        if scores is not None:
            self.log_probs.append(float(scores[token]))
        return token

    def _keep_only(self, tokens: list[int]) -> None:
        """Record forced tokens, if the call asks for it."""
        if self.call.record_kept:
            from logitkit.runtime.token_bits import only

            self.kept += [only(token, self._context.vocabulary_size) for token in tokens]

    def _keep_legal(self, logits: Tensor) -> None:
        """Record the tokens that are left in processed logits, [1, V], if the call asks for it."""
        if self.call.record_kept:
            from logitkit.runtime.token_bits import legal_tokens, packed

            self.kept.append(packed(legal_tokens(logits.detach()))[0].cpu())

    def _commit(self, tokens: list[int]) -> None:
        """Advance the processor by the chosen tokens."""
        self._committed += tokens
        if self._context is not None:
            self._advance(tokens)

    def _begin(self, columns: int, device: torch.device) -> None:
        """Initialise the state with the prompt and the tokens so far, for logits of the given width and device."""
        most = len(self.prompt) + self.max_new_tokens
        self._context = Context.of([self.prompt], columns, device, max_length=most)
        if self.stream:  # without stream ids, the first row has the first stream
            self._context = replace(self._context, stream_ids=torch.tensor([self.stream], device=device))
        self._state = init_checked(self._processor, self._context)
        self._advance(self._committed)

    def _advance(self, tokens: list[int]) -> None:
        # A `Stateless` function has no state to advance, and neither has no processor.
        if tokens and self.call.processor is not None and not isinstance(self._processor, Stateless):
            # Through numpy, which converts lists several times as fast as torch.
            ids = torch.from_numpy(np.array([tokens], np.int64)).to(self._context.device)
            self._state = advance_checked(self._processor, self._state, ids)

    def _now(self) -> Context:
        """Return the context at the current length of the row, if a processor may read it."""
        context: Context = self._context
        if self.call.processor is None or not self._committed:
            return context
        return context.at(context.prompt_lengths + len(self._committed))
