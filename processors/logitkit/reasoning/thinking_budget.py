"""A section of thought is ended after so many tokens."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from logitkit.automata.automaton_state import AutomatonState, check_width, mask
from logitkit.automata.bank import NEUTRAL
from logitkit.automata.byte_dfa import FIRST_STATE
from logitkit.automata.leased import Leased
from logitkit.automata.shared import shared_by
from logitkit.automata.token_automaton import TokenAutomaton
from logitkit.constraints.constraint import check_has_eos
from logitkit.context import Context
from logitkit.errors import ConfigurationError
from logitkit.integers import as_integer
from logitkit.marker import Marker, as_marker
from logitkit.processor import Role, check_tokens, own_rows
from logitkit.reasoning.thinking_automaton import inside_states, thinking_automaton
from logitkit.reasoning.thinking_state import ThinkingState
from logitkit.tensor_path import by_tensors
from logitkit.vocabulary import Vocabulary

__all__ = ["ThinkingBudget"]

MOST_TOKENS = 2**31 - 1

# Bytes of a marker; those in use have ten or twenty.
LONGEST_MARKER = 256


@dataclass(frozen=True)
class ThinkingBudget(Leased):
    """Force the end marker of a thinking section after so many tokens.

    In the section and outside of it a row is free, until the budget is spent: then only tokens are legal that spell the marker,
    from where the text has begun to, and not past its end. A marker that comes by itself is recognised, in any tokenisation and
    within tokens too. The token in which a section begins is not counted, nor are those of the prompt.

    Where a start is given, each section has the whole budget, and the prompt is read: a section may be open at its end. Without
    one there is one section, which begins with the output.

    Args:
        max_tokens: Tokens that a section may have before its end is forced, from 0 to 2**31 - 1. What of the end marker the row
            has said by itself is among them.
        end: What ends a section: text, as str (written in UTF-8) or bytes, of at most 256 bytes, or a token id.
        vocabulary: The tokens.
        start: What begins a section, likewise; None: the prompt has begun one.

    Raises:
        ConfigurationError: The budget is no integer of its range, or a marker is empty, too long, of another type, an EOS id, or
            no id of the vocabulary.
        VocabularyError: The vocabulary has no EOS id, or its tokens cannot spell the end marker from some point.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> vocabulary = lk.Vocabulary([b"a", b"<", b"/>", b"</>", None], eos_ids=[4])
        >>> budget = lk.ThinkingBudget(2, "</>", vocabulary)
        >>> context = lk.Context.of([[]], vocabulary_size=5)
        >>> state = budget.advance(budget.init_state(context), torch.tensor([[0, 1]]))
        >>> budget.process_logits(state, torch.zeros(1, 5), context)[1]
        tensor([[-inf, -inf, 0., -inf, -inf]])

    Source: Muennighoff et al., s1: Simple test-time scaling (2025), for budget forcing.
    """

    max_tokens: int
    end: Marker
    vocabulary: Vocabulary
    start: Marker | None = None
    automaton: TokenAutomaton = field(init=False, repr=False, compare=False)

    role = Role.CONSTRAINT

    def __post_init__(self) -> None:
        check_has_eos(self.vocabulary)
        budget = as_integer(self.max_tokens)
        if budget is None or not 0 <= budget <= MOST_TOKENS:
            raise ConfigurationError(f"max_tokens is {self.max_tokens!r}; allowed are integers from 0 to {MOST_TOKENS}")
        object.__setattr__(self, "max_tokens", budget)
        end = self._marker("end", self.end)
        start = None if self.start is None else self._marker("start", self.start)
        object.__setattr__(self, "end", end)
        object.__setattr__(self, "start", start)
        automaton = shared_by(self.vocabulary).automaton(
            (ThinkingBudget, start, end), lambda: thinking_automaton(start, end, self.vocabulary)
        )
        object.__setattr__(self, "automaton", automaton)

    def _marker(self, name: str, given: Marker) -> bytes | int:
        marker = as_marker(name, given, self.vocabulary)
        if isinstance(marker, bytes) and len(marker) > LONGEST_MARKER:
            raise ConfigurationError(f"{name} has {len(marker)} bytes; allowed are up to {LONGEST_MARKER}")
        if marker in self.vocabulary.eos_ids:
            raise ConfigurationError(
                f"{name} is the EOS id {marker}, which ends the text and no section; give another one"
            )
        return marker

    @property
    def reads_prompt(self) -> bool:
        """Whether tokens of the prompt count."""
        return self.start is not None

    def init_state(self, context: Context) -> ThinkingState:
        """Return the state of rows that have their prompt."""
        lease = self.lease()
        assert isinstance(self.end, bytes | int)
        values = (lease.slot, lease.generation, self.automaton.start, 0, self.max_tokens, inside_states(self.end))
        full = [torch.full((context.batch_size,), v, dtype=torch.int64, device=context.device) for v in values]
        state = ThinkingState(AutomatonState(*full[:3]), *full[3:])
        if self.start is None or context.prompt.shape[1] == 0:
            return state
        return self._advance(state, context.prompt, prompt=True)._replace(spent=state.spent)

    def advance(self, state: ThinkingState, tokens: Tensor) -> ThinkingState:
        """Return the state after `tokens`, [B] or [B, T] int64 with -1 for none.

        A token that was not legal, as in an unconstrained draft, counts by its text: the row is in the section still, or not.

        Raises:
            StaleAutomaton: The processor that a row's budget belongs to is gone (on the CPU; on a device the row ends).
            VocabularyError: A token is none of the vocabulary (on the CPU; on a device it has no text).
        """
        check_tokens("ThinkingBudget", state.spent.shape[0], tokens)
        return self._advance(state, tokens)

    def _advance(self, state: ThinkingState, tokens: Tensor, prompt: bool = False) -> ThinkingState:
        size = self.vocabulary.size
        if not by_tensors(state.spent):
            return state.advance_rows(self.bank, size, tokens, prompt)
        tables = self.bank.tables_on(state.spent.device)
        for column in tokens.unbind(1) if tokens.dim() == 2 else (tokens,):
            state = state.advance_tensors(tables, size, column, prompt)
        return state

    def process_logits(self, state: ThinkingState, logits: Tensor, context: Context) -> tuple[ThinkingState, Tensor]:
        """Set all that does not go on with the end marker to -inf in rows whose budget is spent; others stay as they are.

        A finished row keeps EOS and pad. A row of which nothing is left, since another processor has masked it, ends.

        Raises:
            StaleAutomaton: The processor that a row's budget belongs to is gone (on the CPU; on a device the row ends).
            VocabularyError: The logits have fewer columns than the vocabulary has ids.
        """
        logits = own_rows("ThinkingBudget", state.spent.shape[0], logits)
        check_width(self.vocabulary.size, logits)
        slot, generation, now = state.at
        forced = state.is_forced
        bound = forced | (now < FIRST_STATE)
        if by_tensors(logits):
            bound = bound | (generation != self.bank.tables_on(logits.device).generation.index_select(0, slot))
        looked_up = AutomatonState(
            torch.where(bound, slot, NEUTRAL), generation, torch.where(forced, now + state.inside, now)
        )
        return state, mask(self.bank, looked_up, logits)

    def is_thinking(self, state: ThinkingState) -> Tensor:
        """Return [B] bool: whether each row is in a section."""
        return state.is_inside

    def is_forced(self, state: ThinkingState) -> Tensor:
        """Return [B] bool: whether each row has spent its budget and is still in the section, whose end is forced."""
        return state.is_forced
