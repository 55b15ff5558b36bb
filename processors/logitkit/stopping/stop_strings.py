"""The text ends at the first stop."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from logitkit.automata.automaton_state import AutomatonState, check_width
from logitkit.automata.bank import NEUTRAL
from logitkit.automata.byte_dfa import FINISHED
from logitkit.automata.leased import Leased
from logitkit.automata.limits import DEFAULT_LIMITS, Limits, check_limits
from logitkit.constraints.constraint import check_has_eos
from logitkit.context import Context
from logitkit.errors import ConfigurationError
from logitkit.marker import Marker
from logitkit.processor import Role, check_tokens, own_rows
from logitkit.stopping.stop_automaton import StopAutomaton
from logitkit.stopping.stop_bank import StopBank, stop_bank
from logitkit.stopping.stop_list import checked_stops
from logitkit.stopping.stop_mask import stop_rows, stop_tensors
from logitkit.stopping.stop_state import NO_TOKEN, StopState
from logitkit.tensor_path import by_tensors
from logitkit.vocabulary import Vocabulary

__all__ = ["StopPlace", "StopStrings"]


class StopPlace(NamedTuple):
    """Where stops were found; -1 in rows without one.

    All count from the beginning of the output: what lies in the prompt, where that counts, is below 0.

    Args:
        begin: [B] int64, bytes of text before the stop.
        end: [B] int64, bytes of text up to its end.
        token: [B] int64, index of the output token that completed it.
    """

    begin: Tensor
    end: Tensor
    token: Tensor


@dataclass(frozen=True)
class StopStrings(Leased):
    """Allow nothing but EOS once a stop is complete, whatever the tokens that spell it.

    The first stop that is complete wins; of several that end at one byte, the longest. A token without text leaves the text as it
    is. After EOS, only EOS and pad may follow. Where a stop contradicts another constraint, it ends the row all the same: EOS has
    logit 0 then.

    Args:
        stops: At least one text, as str (written in UTF-8) or bytes, or token id.
        vocabulary: The tokens.
        include_prompt: Whether a stop may begin in the prompt, or lie in it.
        limits: Bound on the states of the automaton: about one for each byte of the stops.

    Raises:
        ConfigurationError: There are no stops, one is empty, of another type or no id of the vocabulary, or another argument
            is of the wrong type.
        PatternTooLarge: The stops are too long together.
        VocabularyError: The vocabulary has no EOS id.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> vocabulary = lk.Vocabulary([b"a", b"b", b"ab", None], eos_ids=[3])
        >>> stops = lk.StopStrings(["ba", "aab"], vocabulary)
        >>> context = lk.Context.of([[]], vocabulary_size=4)
        >>> state = stops.advance(stops.init_state(context), torch.tensor([[0, 0, 2]]))
        >>> stops.process_logits(state, torch.zeros(1, 4), context)[1]
        tensor([[-inf, -inf, -inf, 0.]])
        >>> stops.which(state).tolist(), stops.place(state).begin.tolist()
        ([1], [1])

    Source: Aho and Corasick, Efficient string matching (1975).
    """

    stops: Iterable[Marker]
    vocabulary: Vocabulary
    include_prompt: bool = False
    limits: Limits = field(default=DEFAULT_LIMITS, kw_only=True)

    role = Role.CONSTRAINT

    def __post_init__(self) -> None:
        check_has_eos(self.vocabulary)
        check_limits(self.limits)
        if not isinstance(self.include_prompt, bool):
            raise ConfigurationError(f"include_prompt is {self.include_prompt!r}; allowed are True and False")
        stops = checked_stops(self.stops, self.vocabulary)
        if not stops:
            raise ConfigurationError("stops is empty; give at least one text or token id")
        object.__setattr__(self, "stops", stops)
        self.__dict__["_automaton"] = self.bank.made(stops, self.vocabulary, self.limits)

    @property
    def reads_prompt(self) -> bool:
        """Whether tokens of the prompt count."""
        return self.include_prompt

    @property
    def bank(self) -> StopBank:
        """The bank that states refer to, whatever device they are on."""
        return stop_bank(self.vocabulary)

    @property
    def automaton(self) -> StopAutomaton:
        """The automaton over the stops."""
        found: StopAutomaton | None = self.__dict__.get("_automaton")
        if found is None:
            stops = checked_stops(self.stops, self.vocabulary)
            found = self.__dict__.setdefault("_automaton", self.bank.made(stops, self.vocabulary, self.limits))
        return found

    def init_state(self, context: Context) -> StopState:
        """Return the state of rows that have their prompt."""
        lease = self.lease()

        def full(value: int) -> Tensor:
            return torch.full((context.batch_size,), value, dtype=torch.int64, device=context.device)

        start = self.automaton.start
        state = StopState(
            AutomatonState(full(lease.slot), full(lease.generation), full(start)),
            *(full(start), full(NO_TOKEN), full(0), full(0)),
        )
        if not self.include_prompt or context.prompt.shape[1] == 0:
            return state
        # What is before the output counts backwards from it.
        tokens, text = (context.prompt >= 0).sum(1), self.bank.text_length(context.prompt)
        return self._advance(state._replace(tokens=-tokens, text=-text), context.prompt, prompt=True)

    def advance(self, state: StopState, tokens: Tensor) -> StopState:
        """Return the state after `tokens`, [B] or [B, T] int64 with -1 for none.

        Raises:
            StaleAutomaton: The processor that a row's stops belong to is gone (on the CPU; on a device the row ends).
            VocabularyError: A token is none of the vocabulary (on the CPU; on a device it has no text).
        """
        check_tokens("StopStrings", state.token.shape[0], tokens)
        return self._advance(state, tokens)

    def _advance(self, state: StopState, tokens: Tensor, prompt: bool = False) -> StopState:
        if not by_tensors(state.token):
            return state.advance_rows(self.bank, tokens, prompt)
        tables = self.bank.tables_on(state.token.device)
        lengths = self.bank.lengths_on(state.token.device)
        for column in tokens.unbind(1) if tokens.dim() == 2 else (tokens,):
            state = state.advance_tensors(tables, lengths, column, prompt)
        return state

    def process_logits(self, state: StopState, logits: Tensor, context: Context) -> tuple[StopState, Tensor]:
        """Set all but EOS to -inf in rows that have come to a stop, in place; others stay as they are.

        Raises:
            VocabularyError: The logits have fewer columns than the vocabulary has ids.
        """
        logits = own_rows("StopStrings", state.token.shape[0], logits)
        check_width(self.vocabulary.size, logits)
        if by_tensors(logits):
            return state, stop_tensors(state.at, self.bank.tables_on(logits.device), logits)
        return state, stop_rows(state.at, self.vocabulary, logits)

    def fired(self, state: StopState) -> Tensor:
        """Return [B] bool: whether each row has come to a stop."""
        return state.token != NO_TOKEN

    def which(self, state: StopState) -> Tensor:
        """Return [B] int64: the index of the stop that each row came to, in the list of the processor that began the row, or -1.

        Raises:
            StaleAutomaton: The processor that a row's stops belong to is gone.
        """
        return self._asked(state)[0]

    def place(self, state: StopState) -> StopPlace:
        """Return where in the text, and at which token, each row came to a stop.

        Raises:
            StaleAutomaton: The processor that a row's stops belong to is gone.
        """
        return StopPlace(*self._asked(state)[1:])

    def is_finished(self, state: StopState) -> Tensor:
        """Return [B] bool: whether each row has had EOS."""
        return (state.at.state == FINISHED) & (state.at.slot != NEUTRAL)

    def _asked(self, state: StopState) -> list[Tensor]:
        """Return which stop, begin, end and token of every row, -1 where there is none."""
        columns = (state.at.slot, state.at.generation, *state[1:])
        found = []
        for slot, generation, before, token, tokens, text in zip(*(c.tolist() for c in columns), strict=True):
            place = None if token == NO_TOKEN else self.bank.stops(slot, generation).occurrence(before, token)
            found.append(
                (-1, -1, -1, -1) if place is None else (place.which, text + place.begin, text + place.end, tokens)
            )
        answers = torch.tensor(found, dtype=torch.int64, device=state.token.device).reshape(-1, 4)
        return [*answers.unbind(1)]
