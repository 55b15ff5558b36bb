"""The base class of all constraints, and that of finite automata with the two operations on their state: advance and mask."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
import torch
from torch import Tensor

from logitkit.compiler.bytes.byte_dfa import DEAD, FINISHED, FIRST_STATE, ByteDfa
from logitkit.compiler.tokens.token_automaton import TokenAutomaton
from logitkit.errors import ConfigurationError, VocabularyError
from logitkit.limits import Limits, check_limits
from logitkit.protocol.calls import by_tensors, check_tokens, own_rows, token_columns
from logitkit.protocol.context import Context
from logitkit.protocol.processor import Role
from logitkit.runtime.automaton_state import AutomatonState
from logitkit.runtime.bank import NEUTRAL, Bank
from logitkit.runtime.bank_tables import advance_tensors, mask_tensors
from logitkit.runtime.bank_user import BankUser
from logitkit.runtime.row_mask import as_array
from logitkit.runtime.shared import shared_by
from logitkit.runtime.width import check_width
from logitkit.vocabulary.marker import check_vocabulary
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["AutomatonConstraint", "Constraint", "advance_rows", "mask", "mask_rows"]


class Constraint(BankUser):
    """A language over tokens: the output, without the prompt, must be one of its texts.

    Subclasses are frozen dataclasses that set `automaton` when they are created. Rows with different constraints on one
    vocabulary can share a batch, because everything that differs is in the state.
    """

    role = Role.CONSTRAINT
    automaton: TokenAutomaton
    limits: Limits

    @property
    def is_finite(self) -> bool:
        """Whether a finite automaton is enough."""
        return True

    @property
    def flat_automaton(self) -> TokenAutomaton:
        """The automaton without a stack, of a constraint that is finite."""
        return self.automaton

    def byte_dfa(self) -> ByteDfa:
        """Compile and return the automaton over bytes, from which combinations with other text are compiled.

        Raises:
            ConfigurationError: The constraint is defined over token ids.
        """
        raise ConfigurationError(
            f"{type(self).__name__} is a constraint over token ids, not over text, so it cannot follow or precede text; give one "
            "over text, such as Regex or Choice"
        )

    def _compile(self) -> TokenAutomaton:
        """Return the automaton, for `_compile_once`."""
        raise NotImplementedError

    def _compile_once(self, *key: Hashable) -> None:
        """Set `automaton`, which all constraints with an equal vocabulary and key share.

        Args:
            key: Everything that the automaton depends on besides the vocabulary and the limits. A constraint counts by the
                content of its automaton.

        Raises:
            ConfigurationError: `limits` is not a `Limits`.
            PatternTooLarge: A limit is exceeded.
            VocabularyError: The vocabulary has no EOS id.
        """
        check_has_eos(self.vocabulary)
        check_limits(self.limits)
        parts = (part.automaton.content_key if isinstance(part, Constraint) else part for part in key)
        automaton = shared_by(self.vocabulary).automaton((*parts, self.limits), self._compile, self.limits)
        object.__setattr__(self, "automaton", automaton)


class AutomatonConstraint(Constraint):
    """A constraint that is a finite automaton. The state of a row is a slot of the bank and a state of the automaton."""

    may_empty_rows = False
    ends_empty_rows = True
    step_name = "a language"

    def init_state(self, context: Context) -> AutomatonState:
        """Return the start state for every row: a constraint starts after the prompt."""
        return AutomatonState.start(self, context)

    @classmethod
    def neutral_state(cls, context: Context) -> AutomatonState:
        """Return the state of rows without a constraint."""
        return AutomatonState.neutral(context)

    def advance(self, state: AutomatonState, tokens: Tensor) -> AutomatonState:
        """Return the state after `tokens`, [B] or [B, T] int64 with -1 for none; an illegal token makes its row dead."""
        check_tokens(type(self).__name__, state.state.shape[0], tokens)
        if not by_tensors(state.state):
            # Not `_replace`, which takes a microsecond longer.
            return AutomatonState(state.slot, state.generation, advance_rows(self.bank, state, tokens))
        slot, generation, now = state
        tables = self.bank.tables_on(now.device)
        for column in token_columns(tokens):
            now = advance_tensors(tables, slot, generation, now, column)
        return state._replace(state=now)

    def process_logits(self, state: AutomatonState, logits: Tensor, context: Context) -> tuple[AutomatonState, Tensor]:
        """Set every illegal token to -inf.

        A finished row may emit only EOS and padding; a dead row only EOS, at logit 0.
        """
        logits = own_rows(type(self).__name__, state.state.shape[0], logits)
        return state, (mask if by_tensors(logits) else mask_rows)(self.bank, state, logits)

    def finish(self, state: AutomatonState, rows: Tensor) -> AutomatonState:
        """Return a state in which some rows, [B] bool, have had EOS."""
        return state.finished(rows)

    def is_finished(self, state: AutomatonState) -> Tensor:
        """Return [B] bool, whether each row has emitted EOS."""
        return state.state == FINISHED

    def is_dead(self, state: AutomatonState) -> Tensor:
        """Return [B] bool, whether each row has left the language, for example through an unconstrained draft."""
        return state.state == DEAD


def advance_rows(bank: Bank, state: AutomatonState, tokens: Tensor) -> Tensor:
    """Return the states of the automata after tokens, [B] int64, row by row on the host.

    For a few rows, this is faster than any tensor operation.

    Args:
        bank: The bank that the slots refer to.
        state: The state of B rows.
        tokens: [B] or [B, T] int64, -1 = none.

    Raises:
        StaleAutomaton: A slot's automaton no longer exists.
    """
    now = state.state.tolist()
    runs = tokens.tolist() if tokens.dim() == 2 else [[t] for t in tokens.tolist()]
    slots, generations = state.slot.tolist(), state.generation.tolist()
    for row, (slot, generation, run) in enumerate(zip(slots, generations, runs, strict=True)):
        if slot == NEUTRAL:
            continue
        step, current = bank.automaton(slot, generation).next, now[row]
        for token in run:
            if current < FIRST_STATE:
                break
            current = step(current, token)
        now[row] = current
    return torch.from_numpy(np.array(now, np.int64))  # three times as fast as torch.tensor


def mask(bank: Bank, state: AutomatonState, logits: Tensor) -> Tensor:
    """Return the logits with every illegal token at -inf, in place if that is faster.

    Args:
        bank: The bank that the slots refer to.
        state: The state of B rows.
        logits: [B, W] floating point, W at least the size of the vocabulary; columns beyond it are masked.

    Raises:
        StaleAutomaton: A slot's automaton no longer exists (on the CPU; elsewhere its rows become dead).
        VocabularyError: The logits have fewer columns than the vocabulary has ids, or far more.
    """
    if by_tensors(logits):
        return mask_tensors(bank.tables_on(logits.device), *state, logits)
    return mask_rows(bank, state, logits)


def mask_rows(bank: Bank, state: AutomatonState, logits: Tensor) -> Tensor:
    """Mask row by row, each in the cheapest way for its state, with cached masks for visited states; see `mask`."""
    slots, generations, states = state.slot.tolist(), state.generation.tolist(), state.state.tolist()
    array, never, zero = as_array(logits)
    width = array.shape[1]
    for row, (slot, generation, current) in enumerate(zip(slots, generations, states, strict=True)):
        if slot == NEUTRAL:
            continue
        found = bank.mask(slot, generation, current)
        if width != found.size:
            check_width(found.size, width)
        found.apply(array[row], never, zero)
    return logits


def check_has_eos(vocabulary: Vocabulary) -> None:
    """Raise `VocabularyError` if no constrained text could end with this vocabulary."""
    check_vocabulary(vocabulary)
    if not vocabulary.eos_ids:
        raise VocabularyError("the vocabulary has no EOS id, so no constrained text could end; pass eos_ids=[...]")
