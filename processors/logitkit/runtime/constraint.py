"""The base class of all constraints, with the two operations on their state: advance and mask."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from logitkit.compiler.bytes.byte_dfa import DEAD, FINISHED
from logitkit.compiler.tokens.tables.mask_key import NO_LIMIT
from logitkit.errors import BatchMismatch
from logitkit.lazy import lazy
from logitkit.parameters.scalars import checked_integer
from logitkit.protocol.calls import by_tensors, check_tokens, own_rows
from logitkit.protocol.context import Context
from logitkit.protocol.described import per_row
from logitkit.protocol.processor import Role
from logitkit.runtime.automaton_registry import AutomatonHandle, AutomatonRegistry
from logitkit.runtime.automaton_state import AutomatonState
from logitkit.runtime.branching_state import BranchingState, handles_of_layers
from logitkit.runtime.byte_form import ByteForm, byte_form
from logitkit.runtime.compiled_language import CompiledLanguage
from logitkit.runtime.constraint_state import ConstraintState
from logitkit.runtime.device_rows import advance_on_device, bits_on_device, mask_on_device
from logitkit.runtime.examples import example_text, matches_text
from logitkit.runtime.host_rows import advance_on_host, bits_on_host, mask_on_host
from logitkit.runtime.shared import shared_by
from logitkit.runtime.token_bits import for_kernels

__all__ = ["Constraint"]


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
        state = ConstraintState(AutomatonState.start(self, context), stack, self.tokens_left(context))
        if self.automaton.remembers is None:
            return state
        # Only arrays whose items must differ make a row remember more, which few programs meet.
        from logitkit.runtime.remembering.remembering_state import RememberingState

        return cast(ConstraintState, RememberingState.start(state))

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
        slots = state.slots
        check_tokens(type(self).__name__, slots.shape[0], tokens)
        self._check_frames(state)
        if state.runs_on_host:
            from logitkit.runtime.remembering.steps import advance_remembering

            return advance_remembering(self.registry, state, tokens)
        if by_tensors(slots):
            return state.at_positions(advance_on_device(self.registry.layout_on(slots.device), state.positions, tokens))
        return advance_on_host(self.registry, state, tokens)

    def process_logits(
        self, state: ConstraintState, logits: Tensor, context: Context
    ) -> tuple[ConstraintState, Tensor]:
        """Set every illegal token to -inf.

        A finished row may emit only EOS and padding; a dead row only EOS, at logit 0. NaN counts as -inf.
        """
        logits = own_rows(type(self).__name__, state.slots.shape[0], logits)
        self._check_frames(state)
        if state.runs_on_host:
            from logitkit.runtime.remembering.steps import mask_remembering

            return state, mask_remembering(self.registry, state, logits)
        if by_tensors(logits):
            if not torch.compiler.is_compiling():
                # The registry may hold no other automaton if that of the rows is gone, and then could not end them.
                self.handle()
            return state, mask_on_device(self.registry.layout_on(logits.device), state.positions, logits)
        return state, mask_on_host(self.registry, state, logits)

    def _check_frames(self, state: ConstraintState) -> None:
        """Refuse rows that have more than a state, if this constraint neither nests nor counts."""
        if state.has_frames and not self.may_nest:
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

    def token_bitmask(self, state: ConstraintState, columns: int | None = None) -> Tensor:
        """Return the mask of `process_logits` as bits, for kernels that apply the bitmasks of XGrammar and vLLM.

        Token 32 * i + j is bit j of number i; a bit is 1 if the token stays. A finished row may emit EOS and padding, and a dead
        row only EOS. Rows without a constraint have all bits. The bits after the last column are 1, as the kernel of XGrammar for
        the CPU needs them.

        Args:
            state: The state of B rows.
            columns: The number of columns of the logits, if a model has more than the vocabulary has ids.

        Returns:
            [B, ceil(columns / 32)] int32, on the device of the state. Nothing is read from an accelerator, unless the constraint
            remembers items, as `uniqueItems` does.

        Raises:
            BatchMismatch: The state has rows of a constraint that nests, and this one does not nest.
            StaleAutomaton: The constraint of a row no longer exists.
            VocabularyError: There are fewer columns than the vocabulary has ids, or far more.

        Example:
            >>> import logitkit as lk
            >>> vocabulary = lk.Vocabulary([b"a", b"b", None], eos_ids=[2])
            >>> regex = lk.Regex("a*", vocabulary)
            >>> regex.token_bitmask(regex.init_state(lk.Context.of([[]], vocabulary_size=3)))
            tensor([[-3]], dtype=torch.int32)

        Source: the token bitmasks of XGrammar, `xgrammar.apply_token_bitmask_inplace`.
        """
        size = self.vocabulary.size if columns is None else checked_integer("columns", columns, 1, 2**31 - 1)
        self._check_frames(state)
        if state.runs_on_host:
            from logitkit.runtime.remembering.steps import bits_remembering

            bits = bits_remembering(self.registry, state, size)
        elif by_tensors(state.slots):
            bits = bits_on_device(self.registry.layout_on(state.slots.device), state.positions, size)
        else:
            bits = bits_on_host(self.registry, state, size)
        return for_kernels(bits, size)

    def finish(self, state: ConstraintState, rows: Tensor) -> ConstraintState:
        """Return a state in which some rows, [B] bool, have had EOS."""
        return state.finished(rows)

    def is_finished(self, state: ConstraintState) -> Tensor:
        """Return [B] bool, whether each row has emitted EOS."""
        return state.row_states == FINISHED

    def is_dead(self, state: ConstraintState) -> Tensor:
        """Return [B] bool, whether each row has left the language, for example through an unconstrained draft."""
        return state.row_states == DEAD


def _empty_stacks(context: Context, depth: int) -> Tensor:
    return torch.zeros((context.batch_size, depth), dtype=torch.int32, device=context.device)
