"""The base class of all constraints, with the two operations on their state: advance and mask."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from logitkit.compiler.bytes.byte_dfa import DEAD, FINISHED
from logitkit.compiler.tokens.tables.mask_key import NO_LIMIT
from logitkit.errors import BatchMismatch
from logitkit.lazy import lazy
from logitkit.protocol.calls import by_tensors, check_tokens, own_rows
from logitkit.protocol.context import Context
from logitkit.protocol.described import per_row
from logitkit.protocol.processor import Role
from logitkit.runtime.automaton_registry import NEUTRAL, AutomatonHandle, AutomatonRegistry
from logitkit.runtime.automaton_state import AutomatonState
from logitkit.runtime.branching import advance_branching, mask_branching
from logitkit.runtime.branching_state import BranchingState, handles_of_layers
from logitkit.runtime.byte_form import ByteForm, byte_form
from logitkit.runtime.compiled_language import CompiledLanguage
from logitkit.runtime.constraint_state import ConstraintState
from logitkit.runtime.device_rows import advance_on_device, mask_on_device
from logitkit.runtime.examples import example_text, matches_text
from logitkit.runtime.host_rows import advance_on_host, mask_on_host
from logitkit.runtime.logit_arrays import as_array
from logitkit.runtime.registry_layout import RegistryLayout
from logitkit.runtime.registry_tables import keep_allowed, legal_tensors
from logitkit.runtime.shared import shared_by
from logitkit.runtime.stack_tables import StackRows
from logitkit.runtime.width import check_width

__all__ = ["Constraint", "mask", "mask_rows", "mask_tensors"]


class Constraint(CompiledLanguage):
    """A language over tokens: the output, without the prompt, must be one of its texts.

    Subclasses are frozen dataclasses that set `automaton` when they are created. Rows with different constraints on one
    vocabulary can share a batch, because everything that differs is in the state, if all of them may nest or none may. Rows
    whose automata nest nothing have stacks of no frames; if all rows are so, a step looks at states alone. Rows of automata that
    are not deterministic have a `BranchingState`, of up to `configurations` stacks.
    """

    role = Role.CONSTRAINT
    may_empty_rows = False
    ends_empty_rows = True
    step_name = "a language"
    configurations: int = 1

    @lazy
    def registry(self) -> AutomatonRegistry:
        """The registry that states refer to, on every device."""
        shared = shared_by(self.vocabulary)
        return shared.stack_registry if self.may_nest else shared.registry

    @property
    def may_nest(self) -> bool:
        """Whether its rows can share a batch with those of constraints that nest, and not with those of others."""
        return self.automaton.has_stacks

    @property
    def reads_max_length(self) -> bool:
        """Whether the maximum number of tokens of a row matters."""
        return self.closing is True

    def init_state(self, context: Context) -> ConstraintState:
        """Return the start state for every row: a constraint starts after the prompt."""
        if self.automaton.layers:
            # Only who writes a grammar that is not deterministic meets the other state.
            return cast(
                ConstraintState, BranchingState.start(self.automaton, self._layers, self.configurations, context)
            )
        stack = _empty_stacks(context, self.automaton.nesting.max_depth)
        return ConstraintState(AutomatonState.start(self, context), stack, self.tokens_left(context))

    @classmethod
    def neutral_state(cls, context: Context) -> ConstraintState:
        """Return the state of rows without a constraint."""
        return ConstraintState(AutomatonState.neutral(context), _empty_stacks(context, 0), per_row(context, NO_LIMIT))

    def tokens_left(self, context: Context) -> Tensor:
        """Return [B] int64, the tokens that each row may still have; -1 if they are not counted."""
        limits = context.limits if self.closing is True else None
        if limits is not None:
            return (limits - context.prompt_lengths).clamp(min=0)
        return per_row(context, NO_LIMIT if isinstance(self.closing, bool) else self.closing)

    @lazy
    def _layers(self) -> list[AutomatonHandle]:
        """The handles of the layers of an automaton that is not deterministic."""
        return handles_of_layers(self, self.automaton)

    def advance(self, state: ConstraintState, tokens: Tensor) -> ConstraintState:
        """Return the state after `tokens`, [B] or [B, T] int64 with -1 for none; an illegal token makes its row dead.

        A token beyond the row's token limit does not count as illegal.
        """
        if isinstance(state, BranchingState):
            check_tokens(type(self).__name__, len(state.states), tokens)
            return advance_branching(self.registry, state, tokens)
        at, stack, left = state
        check_tokens(type(self).__name__, at.state.shape[0], tokens)
        self._check_stack(stack)
        if not by_tensors(at.state):
            return advance_on_host(self.registry, state, tokens)
        layout, rows = self.registry.layout_on(at.state.device), StackRows(at.state, stack, left)
        now, stack, left = advance_on_device(layout, at.slot, at.generation, rows, tokens)
        return ConstraintState(AutomatonState(at.slot, at.generation, now), stack, left)

    def process_logits(
        self, state: ConstraintState, logits: Tensor, context: Context
    ) -> tuple[ConstraintState, Tensor]:
        """Set every illegal token to -inf.

        A finished row may emit only EOS and padding; a dead row only EOS, at logit 0. NaN counts as -inf.
        """
        if isinstance(state, BranchingState):
            return state, mask_branching(self.registry, state, own_rows(type(self).__name__, len(state.states), logits))
        at, stack, left = state
        logits = own_rows(type(self).__name__, at.state.shape[0], logits)
        self._check_stack(stack)
        if not by_tensors(logits):
            return state, mask_on_host(self.registry, state, logits)
        layout, rows = self.registry.layout_on(logits.device), StackRows(at.state, stack, left)
        return state, mask_on_device(layout, at.slot, at.generation, rows, logits)

    def _check_stack(self, stack: Tensor) -> None:
        """Refuse rows that have more than a state, if this constraint neither nests nor counts."""
        if stack.shape[1] and not self.may_nest:
            raise BatchMismatch(
                f"a {type(self).__name__} got a state with rows of a constraint that nests or counts; keep these in a batch of "
                "their own"
            )

    @lazy
    def byte_form(self) -> ByteForm | None:
        """The constraint byte by byte, for explanations; None if it is defined over token ids."""
        return byte_form(self)

    def matches(self, text: str | bytes) -> bool:
        """Whether a complete text is allowed, in some tokenization.

        Args:
            text: The text, with special tokens by name. Token limits do not count.

        Raises:
            ConfigurationError: The text is neither str nor bytes, or has a lone surrogate.

        Example:
            >>> import logitkit as lk
            >>> vocabulary = lk.Vocabulary([b"a", b"b", b"ab", None], eos_ids=[3])
            >>> regex = lk.Regex("(ab)+", vocabulary)
            >>> regex.matches("abab"), regex.matches("aba")
            (True, False)
        """
        return matches_text(self, text)

    def example(self, seed: int = 0) -> str:
        """Return a random text that is allowed, the same one for the same seed.

        Raises:
            ConfigurationError: No way to complete the text was found.

        Example:
            >>> import logitkit as lk
            >>> vocabulary = lk.Vocabulary([b"a", b"b", None], eos_ids=[2])
            >>> lk.Regex("a{2,3}b", vocabulary).example() in ("aab", "aaab")
            True
        """
        return example_text(self, self.byte_form, seed)

    def allowed_tokens(self, state: ConstraintState) -> Tensor:
        """Return which tokens are legal: [B, V] bool, on the device of the state. A dead row allows EOS only.

        Example:
            >>> import logitkit as lk
            >>> vocabulary = lk.Vocabulary([b"a", b"b", None], eos_ids=[2])
            >>> regex = lk.Regex("a*", vocabulary)
            >>> regex.allowed_tokens(regex.init_state(lk.Context.of([[]], vocabulary_size=3)))
            tensor([[ True, False,  True]])
        """
        now = state.row_states
        rows, device = len(now), now.device
        context = Context.of([[]] * rows, self.vocabulary.size, device)
        return (
            self.process_logits(state, torch.zeros(rows, self.vocabulary.size, device=device), context)[1] > -torch.inf
        )

    def finish(self, state: ConstraintState, rows: Tensor) -> ConstraintState:
        """Return a state in which some rows, [B] bool, have had EOS."""
        return state.finished(rows)

    def is_finished(self, state: ConstraintState) -> Tensor:
        """Return [B] bool, whether each row has emitted EOS."""
        return state.row_states == FINISHED

    def is_dead(self, state: ConstraintState) -> Tensor:
        """Return [B] bool, whether each row has left the language, for example through an unconstrained draft."""
        return state.row_states == DEAD


def mask(registry: AutomatonRegistry, state: AutomatonState, logits: Tensor) -> Tensor:
    """Return the logits with every illegal token at -inf, in place if that is faster.

    Args:
        registry: The registry that the slots refer to.
        state: The state of B rows.
        logits: [B, W] floating point, W at least the size of the vocabulary; columns beyond it are masked.

    Raises:
        StaleAutomaton: A slot's automaton no longer exists (on the CPU; elsewhere its rows become dead).
        VocabularyError: The logits have fewer columns than the vocabulary has ids, or far more.
    """
    if by_tensors(logits):
        return mask_tensors(registry.layout_on(logits.device), state, logits)
    return mask_rows(registry, state, logits)


def mask_tensors(layout: RegistryLayout, state: AutomatonState, logits: Tensor) -> Tensor:
    """Mask with tensors only, by the tables on the device of the logits; see `mask`."""
    now, legal = legal_tensors(layout.tables, *state)
    return keep_allowed(layout.tables, state.slot, now, legal, logits)


def mask_rows(registry: AutomatonRegistry, state: AutomatonState, logits: Tensor) -> Tensor:
    """Mask row by row, each in the cheapest way for its state, with cached masks for visited states; see `mask`."""
    slots, generations, states = state.slot.tolist(), state.generation.tolist(), state.state.tolist()
    array, never, zero = as_array(logits)
    width = array.shape[1]
    for row, (slot, generation, current) in enumerate(zip(slots, generations, states, strict=True)):
        if slot == NEUTRAL:
            continue
        found = registry.mask(slot, generation, current)
        if width != found.size:
            check_width(found.size, width)
        found.apply(array[row], never, zero)
    return logits


def _empty_stacks(context: Context, depth: int) -> Tensor:
    return torch.zeros((context.batch_size, depth), dtype=torch.int32, device=context.device)
