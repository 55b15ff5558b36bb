"""Rows being generated: the choice of tokens, and the processor's state."""

from __future__ import annotations

import copy
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from logitkit.composition.engine_logits import EngineLogits
from logitkit.errors import BrokenLogits
from logitkit.protocol.calls import advance_checked, by_tensors
from logitkit.protocol.context import Context, select_context
from logitkit.protocol.processor import Processor
from logitkit.protocol.state import concatenate, select
from logitkit.runtime.logit_arrays import why_broken
from logitkit.sessions.seam import state_at_seam
from logitkit.sessions.sequence_state import SequenceState
from logitkit.sessions.token_choice import drawn_tokens

__all__ = ["Decoding", "Steps", "WrittenRows"]

FIELDS = (
    "ids",
    "masks",
    "lengths",
    "prompt_lengths",
    "seams",
    "finished",
    "ended",
    "emptied",
    "weights",
    "open_weights",
    "log_probs",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """The decoding options: how tokens are chosen, and when a row ends.

    Args:
        processor: The processor for the logits, if any.
        beams: Whether the samples of a prompt are its beams.
        length_penalty: When beams are compared, their weight is divided by this power of their length.
        seed: The seed of sampling; None: greedy.
        eos_ids: The ids that end a row.
        pad_id: The id that follows the end of a row; masks distinguish it from a token.
        carry_state: Whether the processor continues from its last state.
        after_processor: Whether the log-probabilities of tokens are those after the processor, as those of beams always are.
        stream_ids: The random stream of each row; None: the rows' indices.
    """

    processor: Processor[Any] | None
    beams: bool
    length_penalty: float
    seed: int | None
    eos_ids: Sequence[int]
    pad_id: int
    carry_state: bool
    after_processor: bool = False
    stream_ids: Sequence[int] | None = None


class WrittenRows:
    """The rows of a state during generation.

    Args:
        how: The decoding options.
        state: The rows.
        columns: The number of logits columns.
        steps: The maximum number of tokens to come.
    """

    def __init__(self, how: Decoding, state: SequenceState, columns: int, steps: int) -> None:
        self.how, self.before = how, state
        self.ids, self.masks = state.token_ids, state.attention_masks
        self.lengths = state.attention_masks.sum(1)
        self.prompt_lengths, self.seams = state.prompt_lengths, state.seams if how.carry_state else self.lengths
        self.finished = state.finished if how.carry_state else torch.zeros_like(state.finished)
        self.ended = self.finished
        # The rows that ended because no token was left.
        self.emptied = torch.zeros_like(self.finished)
        # A continued row starts before its EOS, whose probability then does not count.
        self.open_weights = state.open_weights.reshape(-1)
        self.weights = torch.where(self.finished, state.weights.reshape(-1), self.open_weights)
        self.log_probs = state.token_log_probs
        # Those of the last steps, which are joined when they are needed.
        self._gained = list[Tensor]()
        self._process = EngineLogits(how.processor)
        self.ends = torch.tensor(list(how.eos_ids), dtype=torch.int64, device=self.ids.device)
        limits = self.lengths.to(torch.int64) + steps
        context = Context.of(state.rows, columns, self.ids.device, int(limits.max()))
        streams = None if how.stream_ids is None else torch.tensor(how.stream_ids, device=self.ids.device)
        self.context = replace(context, max_lengths=limits, stream_ids=streams)
        self.processor_state = state.processor_state if how.carry_state else None
        if how.processor is not None and self.processor_state is None:
            self.processor_state = state_at_seam(
                how.processor, state.rows, self.prompt_lengths.tolist(), self.seams.tolist(), self.context
            )

    def choose(self, logits: Tensor, _is_last: bool = False) -> None:
        """Append the next token of every row.

        Raises:
            BrokenLogits: The logits of a row that goes on are broken.
        """
        likelihood = self.likelihood(logits)
        scores, seed = self.processed(logits), self.how.seed
        if self._process.emptied is not None:
            self.emptied = self.emptied | self._process.emptied & ~self.ended
        if self.how.after_processor:
            likelihood = scores.log_softmax(1)
        chosen = scores.argmax(1) if seed is None else drawn_tokens(scores, seed, self.context.streams, self.lengths)
        tokens = torch.where(self.ended, -1, chosen)
        gained = likelihood.gather(1, tokens.clamp(min=0)[:, None])[:, 0].to(self.weights.dtype)
        before, self.weights = self.weights, torch.where(self.ended, self.weights, self.weights + gained)
        self.raise_broken()
        self.append(tokens, before, gained)

    def likelihood(self, logits: Tensor) -> Tensor:
        """Return the log-probabilities of the model, [R, V], for which all of its logits matter, also those of banned tokens.

        Raises:
            BrokenLogits: The logits of a row are broken; on a device, `processed` notices that.
        """
        found = logits.log_softmax(1)
        # Those of a broken row are all NaN.
        if not by_tensors(logits) and bool((broken := found[:, 0].isnan()).any()):
            logits[broken & self.ended] = found[broken & self.ended] = 0
            for row in (broken & ~self.ended).nonzero()[:1, 0].tolist():
                step = int(self.lengths[row] - self.context.prompt_lengths[row])
                raise BrokenLogits(why_broken(logits[row]), row, step)
        return found

    def processed(self, scores: Tensor) -> Tensor:
        """Return the scores of all rows after the processor, which may overwrite them."""
        context = replace(self.context, lengths=self.lengths)
        state = () if self.how.processor is None else self.processor_state
        return self._process(state, scores, context, self.how.eos_ids)

    def raise_broken(self) -> None:
        """Raise the error for broken logits of a device, once the tokens that were chosen from them are read anyway.

        Raises:
            BrokenLogits: The logits of the last step were broken.
        """
        self._process.raise_broken()

    def only(self, row: int) -> WrittenRows:
        """Return a single row, to be generated on its own."""
        one = copy.copy(self)
        one.keep(torch.tensor([row], device=self.ids.device))
        return one

    def join(self, parts: Sequence[WrittenRows]) -> None:
        """Replace all rows with rows that were generated one by one."""
        # Each part is a single row.
        self.ids = pad_sequence([part.ids[0] for part in parts], batch_first=True, padding_value=self.how.pad_id)
        self.masks = pad_sequence([part.masks[0] for part in parts], batch_first=True)
        self.log_probs = pad_sequence([part.known()[0] for part in parts], batch_first=True, padding_value=torch.nan)
        for name in ("weights", "open_weights", "finished", "emptied"):
            setattr(self, name, torch.cat([getattr(part, name) for part in parts]))
        if self.how.processor is not None:
            self.processor_state = concatenate([part.processor_state for part in parts])

    def state(self) -> SequenceState:
        """Return the current rows as a state, without a cache."""
        return replace(
            self.before,
            token_ids=self.ids,
            weights=self.weights.reshape(self.before.weights.shape),
            open_weights=self.open_weights.reshape(self.before.weights.shape),
            token_log_probs=self.known(),
            attention_masks=self.masks,
            processor=self.how.processor,
            processor_state=self.processor_state,
            prompt_lengths=self.prompt_lengths,
            seams=self.seams,
            finished=self.finished,
        )

    def append(self, tokens: Tensor, before: Tensor, gained: Tensor) -> None:
        """Append a token to every row, or none where it is -1.

        Args:
            tokens: [R] int64.
            before: [R], the weights before these tokens.
            gained: [R], the log-probabilities of these tokens.
        """
        if self.how.processor is not None:
            self.processor_state = advance_checked(self.how.processor, self.processor_state, tokens)
        is_end = torch.isin(tokens, self.ends)
        is_text = (tokens >= 0) & ~is_end
        self.ids = torch.cat([self.ids, torch.where(tokens < 0, self.how.pad_id, tokens)[:, None]], 1)
        self.masks = torch.cat([self.masks, is_text.to(self.masks.dtype)[:, None]], 1)
        self._gained.append(gained)
        self.lengths = self.lengths + is_text
        self.finished = self.finished | is_end
        self.ended = self.ended | ~is_text
        self.open_weights = torch.where(is_end, before, torch.where(is_text, self.weights, self.open_weights))

    def known(self) -> Tensor:
        """Return the log-probabilities of all generated tokens, [R, T]."""
        values = torch.cat([self.log_probs, *(gained[:, None] for gained in self._gained)], 1)
        self.log_probs, self._gained = values.masked_fill(self.masks == 0, torch.nan), []
        return self.log_probs

    def keep(self, rows: Tensor) -> None:
        """Continue with the given rows, each with its random stream."""
        self.known()
        for name in FIELDS:
            setattr(self, name, getattr(self, name)[rows])
        self.context = select_context(self.context, rows)
        if self.how.processor is not None:
            self.processor_state = select(self.processor_state, rows)


# A generation: each step yields rows that have grown by a token, with the index of the first among all. It returns the state.
Steps = Generator[tuple[int, WrittenRows], None, SequenceState]
