"""What all constraints by a finite automaton share."""

from __future__ import annotations

import torch
from torch import Tensor

from logitkit.automata.automaton_state import AutomatonState, advance, mask
from logitkit.automata.byte_dfa import DEAD, FINISHED, ByteDfa
from logitkit.automata.leased import Leased
from logitkit.automata.token_automaton import TokenAutomaton
from logitkit.context import Context
from logitkit.errors import ConfigurationError, VocabularyError
from logitkit.processor import Role, check_tokens, own_rows
from logitkit.vocabulary import Vocabulary

__all__ = ["AutomatonConstraint"]


class AutomatonConstraint(Leased):
    """A language over tokens: the new text, which begins after the prompt, is one of the language's texts as a whole.

    Subclasses are frozen dataclasses that fill in `automaton` when they are made. Rows of different constraints of one vocabulary
    may share a batch: what differs is in the state.
    """

    role = Role.CONSTRAINT
    vocabulary: Vocabulary
    automaton: TokenAutomaton

    def byte_dfa(self) -> ByteDfa:
        """Return the automaton over bytes, made anew: what a text after or before another one is compiled from.

        Raises:
            ConfigurationError: The constraint is one over token ids.
        """
        raise ConfigurationError(
            f"{type(self).__name__} is a constraint over token ids, not over text, so it cannot follow or precede text; give one "
            "over text, such as Regex or Choice"
        )

    def init_state(self, context: Context) -> AutomatonState:
        """Return the start state for every row: a constraint begins after the prompt."""
        lease = self.lease()
        values = (lease.slot, lease.generation, self.automaton.start)
        return AutomatonState(
            *(torch.full((context.batch_size,), v, dtype=torch.int64, device=context.device) for v in values)
        )

    def advance(self, state: AutomatonState, tokens: Tensor) -> AutomatonState:
        """Return the state after `tokens`, [B] or [B, T] int64 with -1 for none; an illegal token makes its row dead."""
        check_tokens(type(self).__name__, state.state.shape[0], tokens)
        return advance(self.bank, state, tokens)

    def process_logits(self, state: AutomatonState, logits: Tensor, context: Context) -> tuple[AutomatonState, Tensor]:
        """Set every illegal token to -inf.

        A finished row keeps EOS and pad; a dead row keeps EOS alone, at logit 0.
        """
        logits = own_rows(type(self).__name__, state.state.shape[0], logits)
        return state, mask(self.bank, state, logits)

    def is_finished(self, state: AutomatonState) -> Tensor:
        """Return [B] bool: whether each row has had EOS."""
        return state.state == FINISHED

    def is_dead(self, state: AutomatonState) -> Tensor:
        """Return [B] bool: whether each row has left the language, as an unconstrained draft may have made it do."""
        return state.state == DEAD


def check_has_eos(vocabulary: Vocabulary) -> None:
    """Raise `VocabularyError` for a vocabulary in which no constrained text could end."""
    if not isinstance(vocabulary, Vocabulary):
        raise VocabularyError(
            f"vocabulary is a {type(vocabulary).__name__}; give a logitkit.Vocabulary (each adapter's vocabulary() makes one)"
        )
    if not vocabulary.eos_ids:
        raise VocabularyError("the vocabulary has no EOS id, so no constrained text could end; pass eos_ids=[...]")
