"""The base class of all constraints that are pushdown automata."""

from __future__ import annotations

import torch
from torch import Tensor

from logitkit.compiler.bytes.byte_dfa import DEAD, FINISHED, ByteDfa
from logitkit.compiler.bytes.nested_dfa import NestedDfa
from logitkit.compiler.tokens.place import NO_LIMIT
from logitkit.compiler.tokens.pushdown_automaton import PushdownAutomaton
from logitkit.errors import ConfigurationError
from logitkit.lazy import lazy
from logitkit.protocol.calls import by_tensors, check_tokens, own_rows, token_columns
from logitkit.protocol.context import Context
from logitkit.protocol.described import per_row
from logitkit.runtime.automaton_constraint import Constraint
from logitkit.runtime.automaton_state import AutomatonState
from logitkit.runtime.pushdown_bank import PushdownBank, pushdown_bank
from logitkit.runtime.pushdown_state import PushdownState, advance_rows, mask_rows
from logitkit.runtime.pushdown_tables import StackRows, advance_stacks, mask_stacks

__all__ = ["PushdownConstraint"]


class PushdownConstraint(Constraint):
    """A constraint that may nest without limit. Each row has a stack of fixed size for its open brackets."""

    may_empty_rows = False
    ends_empty_rows = True
    step_name = "a JSON schema"
    automaton: PushdownAutomaton
    # The token limit of the output. False: none. True: as many tokens as the context allows.
    closing: bool | int = False

    @lazy
    def bank(self) -> PushdownBank:
        """The bank that states refer to, on every device."""
        return pushdown_bank(self.vocabulary)

    @property
    def reads_max_length(self) -> bool:
        """Whether the maximum number of tokens of a row matters."""
        return self.closing is True

    @property
    def is_finite(self) -> bool:
        """Whether nesting is limited and no tokens are counted, so that a finite automaton is enough."""
        return self.automaton.nesting.is_flat and self.closing is False

    def byte_dfa(self) -> ByteDfa:
        """Return the automaton over bytes of a language with limited nesting.

        Raises:
            ConfigurationError: The nesting is unlimited.
        """
        dfa = self.nested_dfa()
        if dfa.frames:
            raise ConfigurationError(
                f"the texts of this {type(self).__name__} nest without limit, so nothing can follow them; put it last"
            )
        return ByteDfa(dfa.step, dfa.byte_class, dfa.accepting, dfa.start, free=dfa.free, letters=dfa.letters)

    def nested_dfa(self) -> NestedDfa:
        """Compile and return the automaton over bytes, to which other text can be prepended."""
        raise NotImplementedError

    def init_state(self, context: Context) -> PushdownState:
        """Return the start state for every row: a constraint starts after the prompt."""
        at = AutomatonState.start(self, context)
        return PushdownState(at, _empty_stacks(context, self.automaton.nesting.max_depth), self._left(context))

    @classmethod
    def neutral_state(cls, context: Context) -> PushdownState:
        """Return the state of rows without a constraint."""
        return PushdownState(AutomatonState.neutral(context), _empty_stacks(context, 0), per_row(context, NO_LIMIT))

    def _left(self, context: Context) -> Tensor:
        limits = context.limits if self.closing is True else None
        if limits is not None:
            return (limits - context.prompt_lengths).clamp(min=0)
        return per_row(context, NO_LIMIT if isinstance(self.closing, bool) else self.closing)

    def advance(self, state: PushdownState, tokens: Tensor) -> PushdownState:
        """Return the state after `tokens`, [B] or [B, T] int64 with -1 for none; an illegal token makes its row dead.

        A token beyond the row's token limit does not count as illegal.
        """
        check_tokens(type(self).__name__, state.left.shape[0], tokens)
        if not by_tensors(state.left):
            return advance_rows(self.bank, state, tokens)
        tables = self.bank.stacks_on(state.left.device)
        rows = StackRows(state.at.state, state.stack, state.left)
        for column in token_columns(tokens):
            rows = advance_stacks(tables, state.at.slot, state.at.generation, rows, column)
        return PushdownState(state.at._replace(state=rows.state), rows.stack, rows.left)

    def process_logits(self, state: PushdownState, logits: Tensor, context: Context) -> tuple[PushdownState, Tensor]:
        """Set every illegal token to -inf.

        A finished row may emit only EOS and padding; a dead row only EOS, at logit 0.
        """
        logits = own_rows(type(self).__name__, state.left.shape[0], logits)
        if not by_tensors(logits):
            return state, mask_rows(self.bank, state, logits)
        tables, rows = self.bank.stacks_on(logits.device), StackRows(state.at.state, state.stack, state.left)
        return state, mask_stacks(tables, state.at.slot, state.at.generation, rows, logits)

    def finish(self, state: PushdownState, rows: Tensor) -> PushdownState:
        """Return a state in which some rows, [B] bool, have had EOS."""
        return state._replace(at=state.at.finished(rows))

    def is_finished(self, state: PushdownState) -> Tensor:
        """Return [B] bool, whether each row has emitted EOS."""
        return state.at.state == FINISHED

    def is_dead(self, state: PushdownState) -> Tensor:
        """Return [B] bool, whether each row has left the language, for example through an unconstrained draft."""
        return state.at.state == DEAD


def _empty_stacks(context: Context, depth: int) -> Tensor:
    return torch.zeros((context.batch_size, depth), dtype=torch.int32, device=context.device)
