"""The executor on the host: one row under a compiled constraint, as Python numbers.

For a few rows, and above all for one, calls of torch take most of the time of a step, because a model's forward pass leaves none
of the memory that they touch in the processor's caches. So rows on the CPU are objects with a few numbers. There is a class for
each kind of position, and all have the same operations: `advance` by a token, the `legal_classes` of tokens, and the `mask` of
the logits.

By hand, for lists of lists, `[[]]`, with a token for each bracket: a `StackRow` begins with an empty stack. After `[[` it has two
frames, and the token `]` is legal, which pops one. In a grammar that is not deterministic, a `BranchingRow` has several stacks,
and a token is legal if one of them allows it.

Invariants: only `advance` changes the position of a row. A row that stays where it is, as in free text, keeps its mask.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE
from logitkit.compiler.tokens.tables.mask_key import NO_LIMIT, MaskKey
from logitkit.compiler.tokens.tables.packed_stacks import Packed
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.runtime.logit_arrays import as_array, check_row, check_width
from logitkit.runtime.row_mask import RowMask

__all__ = ["NOWHERE", "NO_IDS", "Configurations", "ConstraintRow", "NeutralRow", "StackRow"]

NO_IDS = np.zeros(0, np.int64)

# The states and stacks in which a row is at once.
Configurations = list[tuple[int, Packed]]

# Those of a dead row.
NOWHERE: Configurations = [(DEAD, b"")]


class ConstraintRow:
    """A row whose state says everything: that of an automaton without stacks.

    `current` is the state of the automaton, with its count, which is less than `FIRST_STATE` if the row has ended or is dead.
    `cut_off` says whether the last logits had none of the tokens that are allowed, so that the row ended with an incomplete text.

    Args:
        registry: The registry that the slot refers to.
        slot: The slot of its automaton.
        generation: That of the slot.
        current: The state.
    """

    __slots__ = ("_mask", "current", "cut_off", "generation", "registry", "slot")

    # Those of a row without frames.
    stack: Packed = b""
    left: int = NO_LIMIT

    def __init__(self, registry: Any, slot: int, generation: int, current: int) -> None:
        self.registry, self.slot, self.generation, self.current = registry, slot, generation, current
        self.cut_off = False
        self._mask: RowMask | None = None

    @property
    def automaton(self) -> TokenAutomaton:
        """The automaton of the row.

        Raises:
            StaleAutomaton: It no longer exists.
        """
        found: TokenAutomaton = self.registry.automaton(self.slot, self.generation)
        return found

    @property
    def configurations(self) -> Configurations:
        """The states and stacks in which the row is at once."""
        return [(self.current, b"")]

    def copy(self) -> Self:
        """Return a row in the same position, which advances on its own."""
        made = object.__new__(type(self))
        for kind in type(self).__mro__[:-1]:
            for name in kind.__slots__:  # type: ignore[attr-defined]
                setattr(made, name, getattr(self, name))
        return made

    def advance(self, token: int) -> None:
        """Advance by one token; -1 stands for no token. An illegal token makes the row dead.

        Raises:
            StaleAutomaton: The automaton of the row no longer exists.
        """
        before = self.current
        self.current = self.registry.automaton(self.slot, self.generation).next(before, token)
        if self.current != before:
            self._mask = None

    def allows(self, token: int) -> bool:
        """Whether a token is legal."""
        return bool(self.legal_classes()[self.automaton.class_of[token]])

    def banned(self) -> NDArray[np.int64]:
        """Return the ids of tokens that are illegal although their class is legal: none, unless the row remembers items."""
        return NO_IDS

    def legal_classes(self) -> NDArray[np.bool_]:
        """Return which classes of tokens are legal: [C] bool; none if the row has ended or is dead."""
        automaton = self.automaton
        if self.current < FIRST_STATE:
            return np.zeros(automaton.classes, np.bool_)
        return self._legal(automaton)

    def _legal(self, automaton: TokenAutomaton) -> NDArray[np.bool_]:
        return automaton.legal_classes(self.current)

    def mask(self, columns: int) -> RowMask | None:
        """Return the mask of the row for logits with this many columns, or None if all tokens are allowed.

        Raises:
            StaleAutomaton: The automaton of the row no longer exists.
            VocabularyError: There are fewer columns than the vocabulary has ids, or far more.
        """
        found = self._mask
        if found is None or self.registry.generations[self.slot] != self.generation:
            found = self._mask = self._made_mask()
        if columns != found.size:
            check_width(found.size, columns)
        return found

    def _made_mask(self) -> RowMask:
        made: RowMask = self.registry.mask(self.slot, self.generation, self._place())
        return made

    def _place(self) -> MaskKey | int | tuple[tuple[MaskKey | int, ...], ...]:
        """Return all that the mask of the row depends on."""
        return self.current

    def forget_mask(self) -> None:
        """Release the mask of the row, which takes memory."""
        self._mask = None

    def process(self, logits: NDArray[Any], never: Any, zero: Any) -> None:
        """Mask the logits of the row in place, as those of a model.

        Args:
            logits: [W], at least as wide as the vocabulary.
            never: The representation of -inf in it; see `logit_arrays.as_array`.
            zero: The representation of 0 in it.

        Raises:
            BrokenLogits: The logits are broken, and stay so.
            StaleAutomaton: The automaton of the row no longer exists.
            VocabularyError: There are fewer columns than the vocabulary has ids, or far more.
        """
        found = self.mask(len(logits))
        if found is None:
            check_row(logits, never, 0)
        else:
            self.cut_off = found.apply(logits, never, zero, 0)

    def processed(self, logits: Tensor) -> Tensor:
        """Return new logits of the row, [1, W] on the CPU, masked; the given ones stay unchanged. See `process` for errors."""
        found = self.mask(logits.shape[1])
        if found is None:
            array, never, _ = as_array(logits)
            check_row(array[0], never, 0)
            return logits.clone()
        masked, self.cut_off = found.masked(logits)
        return masked


class StackRow(ConstraintRow):
    """A row with a stack of frames, and maybe a limited number of tokens.

    Args:
        registry: The registry that the slot refers to.
        slot: The slot of its automaton.
        generation: That of the slot.
        current: The state, with its count.
        stack: The frames of the open brackets.
        left: The number of tokens left to the row; -1 if they are not counted.
    """

    __slots__ = ("left", "stack")

    def __init__(
        self, registry: Any, slot: int, generation: int, current: int, stack: Packed, left: int = NO_LIMIT
    ) -> None:
        super().__init__(registry, slot, generation, current)
        self.stack, self.left = stack, left

    @property
    def configurations(self) -> Configurations:
        """The state and the stack."""
        return [(self.current, self.stack)]

    def advance(self, token: int) -> None:
        """Advance by one token; see `ConstraintRow.advance`."""
        before, stack = self.current, self.stack
        if before < FIRST_STATE or token == -1:
            return
        self.current, self.stack = self.registry.automaton(self.slot, self.generation).step(before, stack, token)
        if self.left > 0:
            self.left -= 1
            self._mask = None
        elif self.current != before or self.stack != stack:
            self._mask = None

    def _legal(self, automaton: TokenAutomaton) -> NDArray[np.bool_]:
        return automaton.legal(automaton.mask_key(self.current, self.stack, self.left))

    def _place(self) -> MaskKey | int:
        return self.automaton.mask_key(self.current, self.stack, self.left)


class NeutralRow(StackRow):
    """A row without a constraint, in a batch with others. It stays where it is.

    Args:
        registry: Any registry.
        slot: That without a constraint.
        generation: That of the slot.
        configurations: The states and stacks, which mean nothing.
        most: Has no effect.
        narrowed: Means nothing.
        left: Means nothing.
    """

    __slots__ = ("_configurations", "narrowed")

    def __init__(
        self,
        registry: Any,
        slot: int,
        generation: int,
        configurations: Configurations,
        most: int = 1,
        narrowed: bool = False,
        left: int = NO_LIMIT,
    ) -> None:
        super().__init__(registry, slot, generation, *(configurations or NOWHERE)[0], left)
        self._configurations, self.narrowed = configurations, narrowed

    @property
    def configurations(self) -> Configurations:
        """The states and stacks that were given."""
        return self._configurations

    def advance(self, token: int) -> None:
        """Stay, whatever the token."""

    def mask(self, columns: int) -> RowMask | None:
        """Return None, because all tokens are allowed."""
        return None
