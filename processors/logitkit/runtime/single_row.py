"""Advance and mask a single row on the CPU without tensors, for engines that run one sequence.

For a single row, calls of torch take most of the time of a step, because a model's forward pass leaves none of the memory that
they touch in the processor's caches. So a constraint that only follows an automaton keeps the state of its row in Python numbers.
Tensors are created only when the state is read.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.compiler.bytes.byte_dfa import FIRST_STATE
from logitkit.compiler.tokens.tables.mask_key import MaskKey
from logitkit.compiler.tokens.tables.packed_stacks import Packed, rows_of, stacks_of
from logitkit.protocol.calls import init_checked
from logitkit.protocol.context import Context
from logitkit.protocol.processor import Processor, reads_max_length
from logitkit.runtime.automaton_registry import NEUTRAL, AutomatonRegistry
from logitkit.runtime.automaton_state import AutomatonState
from logitkit.runtime.constraint import Constraint
from logitkit.runtime.constraint_state import ConstraintState
from logitkit.runtime.logit_arrays import as_array, check_row
from logitkit.runtime.row_mask import RowMask
from logitkit.runtime.width import check_width

__all__ = ["SingleRow", "can_step", "first_row", "row_of"]


class SingleRow:
    """The state of one row as Python numbers, without a stack.

    `current` is the state of the automaton, which is less than `FIRST_STATE` if the row has ended or is dead. `cut_off` says
    whether the last logits had none of the tokens that are allowed, so that the row ended with an incomplete text.

    Args:
        registry: The registry that the state refers to.
        at: The slot, its generation, and the state of the automaton.
        left: The number of tokens left to the row; -1 if they are not counted.
    """

    __slots__ = ("_generation", "_left", "_mask", "_registry", "_slot", "current", "cut_off")

    def __init__(self, registry: AutomatonRegistry, at: tuple[int, int, int], left: int) -> None:
        self._registry, self._left = registry, left
        self._slot, self._generation, self.current = at
        self.cut_off = False
        # Kept while the row stays where it is, as in free text.
        self._mask: RowMask | None = None

    def advance(self, token: int) -> None:
        """Advance by one token."""
        if self._slot != NEUTRAL:
            before = self.current
            self.current = self._registry.automaton(self._slot, self._generation).next(before, token)
            if self.current != before:
                self._mask = None

    @property
    def state(self) -> ConstraintState:
        """The state as tensors, of one row."""
        at = AutomatonState(*(torch.tensor([n]) for n in (self._slot, self._generation, self.current)))
        return ConstraintState(at, self._stacks, torch.tensor([self._left]))

    @property
    def _stacks(self) -> Tensor:
        return torch.zeros((1, 0), dtype=torch.int32)

    def mask(self, columns: int) -> RowMask | None:
        """Return the mask of the row for logits with this many columns, or None if all tokens are allowed.

        Raises:
            VocabularyError: There are fewer columns than the vocabulary has ids, or far more.
        """
        if self._slot == NEUTRAL:
            return None
        found = self._mask
        if found is None or self._registry.generations[self._slot] != self._generation:
            found = self._mask = self._registry.mask(self._slot, self._generation, self._mask_key())
        if columns != found.size:
            check_width(found.size, columns)
        return found

    def _mask_key(self) -> MaskKey | int:
        return self.current

    def process(self, logits: NDArray[Any], never: Any, zero: Any) -> None:
        """Mask the logits of the row in place.

        Args:
            logits: [W], at least as wide as the vocabulary.
            never: The representation of -inf in it; see `row_mask.as_array`.
            zero: The representation of 0 in it.

        Raises:
            BrokenLogits: The logits are broken, and stay so.
            VocabularyError: See `mask`.
        """
        found = self.mask(len(logits))
        if found is None:
            check_row(logits, never, 0)
        else:
            self.cut_off = found.apply(logits, never, zero, 0)

    def processed(self, logits: Tensor) -> Tensor:
        """Return new logits of the row, [1, W] on the CPU, masked; the given ones stay unchanged.

        Raises:
            BrokenLogits: The logits are broken.
            VocabularyError: See `mask`.
        """
        found = self.mask(logits.shape[1])
        if found is None:
            array, never, _ = as_array(logits)
            check_row(array[0], never, 0)
            return logits.clone()
        masked, self.cut_off = found.masked(logits)
        return masked


class StackRow(SingleRow):
    """A row with a stack.

    Args:
        registry: The registry that the state refers to.
        at: The slot, its generation, and the state of the automaton.
        left: The number of tokens left to the row; -1 if they are not counted.
        stack: The frames of the open brackets.
        depth: The maximum number of frames.
    """

    __slots__ = ("_depth", "_stack")

    def __init__(
        self, registry: AutomatonRegistry, at: tuple[int, int, int], left: int, stack: Packed, depth: int
    ) -> None:
        super().__init__(registry, at, left)
        self._stack, self._depth = stack, depth

    def advance(self, token: int) -> None:
        """Advance by one token."""
        if self._slot != NEUTRAL and self.current >= FIRST_STATE:
            automaton = self._registry.automaton(self._slot, self._generation)
            before, stack = self.current, self._stack
            self.current, self._stack = automaton.step(before, stack, token)
            if self._left > 0:
                self._left -= 1
                self._mask = None
            elif self.current != before or self._stack != stack:
                self._mask = None

    @property
    def _stacks(self) -> Tensor:
        return stacks_of([self._stack], self._depth)

    def _mask_key(self) -> MaskKey | int:
        automaton = self._registry.automaton(self._slot, self._generation)
        mask_key: MaskKey | int = automaton.mask_key(self.current, self._stack, self._left)
        return mask_key


def can_step(processor: Processor[Any]) -> bool:
    """Return whether a processor only follows an automaton, so that `row_of` works; a subclass may do more."""
    return _inherits(type(processor), "process_logits", "advance")


@cache
def _inherits(kind: type[Any], *methods: str) -> bool:
    """Return whether a class has methods as `Constraint` defines them."""
    return issubclass(kind, Constraint) and all(getattr(kind, m) is getattr(Constraint, m) for m in methods)


def first_row(processor: Processor[Any], columns: int) -> SingleRow | None:
    """Return a row of a processor that `can_step`, before its output, or None if its first state depends on the prompt.

    Raises:
        VocabularyError: There are fewer columns of logits than the vocabulary has ids, or far more.
    """
    if not _inherits(type(processor), "init_state") or reads_max_length(processor):
        return None
    row = row_of(processor, init_checked(processor, Context.of([[]], vocabulary_size=columns)))
    if row is not None:
        row.mask(columns)
    return row


def row_of(processor: Processor[Any], state: Any) -> SingleRow | None:
    """Return the row of a state of a processor that `can_step`, or None if the state is not that of one row on the CPU."""
    if not (isinstance(processor, Constraint) and isinstance(state, ConstraintState)):
        return None
    if len(state.left) != 1 or state.left.device.type != "cpu":
        return None
    slot, generation, current = (int(part) for part in state.at)
    at, left, depth = (slot, generation, current), int(state.left), state.stack.shape[1]
    if not depth:
        return SingleRow(processor.registry, at, left)
    (stack,) = rows_of(state.stack)
    return StackRow(processor.registry, at, left, stack, depth)
