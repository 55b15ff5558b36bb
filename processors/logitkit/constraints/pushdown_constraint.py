"""What all constraints by a pushdown automaton share."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from logitkit.automata.automaton_state import AutomatonState
from logitkit.automata.byte_dfa import DEAD, FINISHED, ByteDfa
from logitkit.automata.leased import Leased
from logitkit.automata.nested_dfa import NestedDfa
from logitkit.automata.place import NO_LIMIT
from logitkit.automata.pushdown_automaton import PushdownAutomaton
from logitkit.automata.pushdown_bank import PushdownBank, pushdown_bank
from logitkit.automata.pushdown_state import PushdownState, advance, mask
from logitkit.context import Context
from logitkit.errors import ConfigurationError
from logitkit.integers import as_integer
from logitkit.processor import Role, check_tokens, own_rows
from logitkit.vocabulary import Vocabulary

__all__ = ["PushdownConstraint", "check_closing"]

LONGEST = 2**31 - 1


class PushdownConstraint(Leased):
    """A language over tokens whose texts may nest without bound: what is open is on a stack of fixed size, a row each.

    Subclasses are frozen dataclasses that fill in `automaton` when they are made. Rows of different constraints of one vocabulary
    may share a batch: what differs is in the state.
    """

    role = Role.CONSTRAINT
    vocabulary: Vocabulary
    automaton: PushdownAutomaton
    # How many tokens the output may have: False: that is not counted. True: as many as the context has room for.
    closing: bool | int = False

    @property
    def bank(self) -> PushdownBank:
        """The bank that states refer to, whatever device they are on."""
        return pushdown_bank(self.vocabulary)

    @property
    def is_finite(self) -> bool:
        """Whether nothing nests without bound and no tokens are counted, so that its automaton is a finite one."""
        return self.automaton.nesting.frames == 0 and self.closing is False

    def byte_dfa(self) -> ByteDfa:
        """Return the automaton over bytes of a language that does not nest without bound.

        Raises:
            ConfigurationError: It does.
        """
        dfa = self.nested_dfa()
        if dfa.frames:
            raise ConfigurationError(
                f"the texts of this {type(self).__name__} nest without bound, so nothing can follow them; let it come last"
            )
        return ByteDfa(dfa.step, dfa.byte_class, dfa.accepting, dfa.start, free=dfa.free)

    def nested_dfa(self) -> NestedDfa:
        """Return the automaton over bytes, made anew: what a text before it is put in front of."""
        raise NotImplementedError

    def init_state(self, context: Context) -> PushdownState:
        """Return the start state for every row: a constraint begins after the prompt."""
        lease = self.lease()

        def full(value: int) -> Tensor:
            return torch.full((context.batch_size,), value, dtype=torch.int64, device=context.device)

        depth = self.automaton.nesting.max_depth
        return PushdownState(
            AutomatonState(full(lease.slot), full(lease.generation), full(self.automaton.start)),
            torch.zeros((context.batch_size, depth), dtype=torch.int32, device=context.device),
            self._left(context, full),
        )

    def _left(self, context: Context, full: Callable[[int], Tensor]) -> Tensor:
        if self.closing is True and context.max_length is not None:
            return (context.max_length - context.prompt_lengths).clamp(min=0)
        return full(NO_LIMIT if isinstance(self.closing, bool) else self.closing)

    def advance(self, state: PushdownState, tokens: Tensor) -> PushdownState:
        """Return the state after `tokens`, [B] or [B, T] int64 with -1 for none; an illegal token makes its row dead.

        A token that exceeds what is left to a row is none of these.
        """
        check_tokens(type(self).__name__, state.left.shape[0], tokens)
        return advance(self.bank, state, tokens)

    def process_logits(self, state: PushdownState, logits: Tensor, context: Context) -> tuple[PushdownState, Tensor]:
        """Set every illegal token to -inf.

        A finished row keeps EOS and pad; a dead row keeps EOS alone, at logit 0.
        """
        logits = own_rows(type(self).__name__, state.left.shape[0], logits)
        return state, mask(self.bank, state, logits)

    def is_finished(self, state: PushdownState) -> Tensor:
        """Return [B] bool: whether each row has had EOS."""
        return state.at.state == FINISHED

    def is_dead(self, state: PushdownState) -> Tensor:
        """Return [B] bool: whether each row has left the language, as an unconstrained draft may have made it do."""
        return state.at.state == DEAD


def check_closing(closing: object) -> bool | int:
    """Return what `closing` says.

    Raises:
        ConfigurationError: It is neither a bool nor a number of tokens.
    """
    if isinstance(closing, bool):
        return closing
    tokens = as_integer(closing)
    if tokens is None or not 1 <= tokens <= LONGEST:
        raise ConfigurationError(
            f"closing is {closing!r}; allowed are True (the output ends within Context.max_length), False, and the most new "
            f"tokens, integers from 1 to {LONGEST}"
        )
    return tokens
