"""The base class of all constraints that are finite automata."""

from __future__ import annotations

import torch
from torch import Tensor

from logitkit.compiler.bytes.byte_dfa import DEAD, FINISHED, ByteDfa
from logitkit.compiler.tokens.token_automaton import TokenAutomaton
from logitkit.errors import ConfigurationError, VocabularyError
from logitkit.protocol.calls import by_tensors, check_tokens, own_rows
from logitkit.protocol.context import Context
from logitkit.protocol.processor import Role
from logitkit.runtime.automaton_state import AutomatonState, advance, advance_rows, mask, mask_rows
from logitkit.runtime.bank_user import BankUser
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["AutomatonConstraint"]


class AutomatonConstraint(BankUser):
    """A language over tokens: the output, without the prompt, must be one of its texts.

    Subclasses are frozen dataclasses that set `automaton` when they are created. Rows with different constraints on one
    vocabulary can share a batch, because everything that differs is in the state.
    """

    role = Role.CONSTRAINT
    may_empty_rows = False
    ends_empty_rows = True
    step_name = "a language"
    is_finite = True
    vocabulary: Vocabulary
    automaton: TokenAutomaton

    def byte_dfa(self) -> ByteDfa:
        """Compile and return the automaton over bytes, from which combinations with other text are compiled.

        Raises:
            ConfigurationError: The constraint is defined over token ids.
        """
        raise ConfigurationError(
            f"{type(self).__name__} is a constraint over token ids, not over text, so it cannot follow or precede text; give one "
            "over text, such as Regex or Choice"
        )

    def init_state(self, context: Context) -> AutomatonState:
        """Return the start state for every row: a constraint starts after the prompt."""
        lease = self.lease()
        values = (lease.slot, lease.generation, self.automaton.start)
        return AutomatonState(
            *(torch.full((context.batch_size,), v, dtype=torch.int64, device=context.device) for v in values)
        )

    @classmethod
    def neutral_state(cls, context: Context) -> AutomatonState:
        """Return the state of rows without a constraint."""
        return AutomatonState.neutral(context)

    def advance(self, state: AutomatonState, tokens: Tensor) -> AutomatonState:
        """Return the state after `tokens`, [B] or [B, T] int64 with -1 for none; an illegal token makes its row dead."""
        check_tokens(type(self).__name__, state.state.shape[0], tokens)
        step = advance if by_tensors(state.state) else advance_rows
        return AutomatonState(state.slot, state.generation, step(self.bank, state, tokens))

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


def check_has_eos(vocabulary: Vocabulary) -> None:
    """Raise `VocabularyError` if no constrained text could end with this vocabulary."""
    if not isinstance(vocabulary, Vocabulary):
        raise VocabularyError(
            f"vocabulary is a {type(vocabulary).__name__}; give a logitkit.Vocabulary (each adapter's vocabulary() makes one)"
        )
    if not vocabulary.eos_ids:
        raise VocabularyError("the vocabulary has no EOS id, so no constrained text could end; pass eos_ids=[...]")
