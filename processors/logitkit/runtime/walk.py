"""The place of one text in an automaton on the host: steps and legal tokens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE
from logitkit.compiler.tokens.counted_state import COUNT, STATE
from logitkit.compiler.tokens.packed_stacks import FRAME_BYTES, Packed, packed
from logitkit.compiler.tokens.place import NO_LIMIT
from logitkit.compiler.tokens.token_automaton import TokenAutomaton
from logitkit.compiler.tokens.token_table import STAY

__all__ = ["Walk"]


@dataclass(frozen=True, slots=True)
class Walk:
    """Where one text stands.

    Args:
        automaton: The automaton over tokens.
        state: Its state, with its count.
        stack: The open brackets.
        left: How many tokens are left, or -1 if they are not counted.
    """

    automaton: TokenAutomaton
    state: int
    stack: Packed
    left: int = NO_LIMIT

    @classmethod
    def start(cls, automaton: TokenAutomaton, left: int = NO_LIMIT) -> Walk:
        """Return the place of the empty text."""
        return cls(automaton, automaton.start, packed((), FRAME_BYTES * automaton.nesting.max_depth), left)

    def after(self, *tokens: int) -> Walk:
        """Return the place after some more tokens."""
        state, stack, left = self.state, self.stack, self.left
        for token in tokens:
            if state < FIRST_STATE:
                break
            state, stack = self.automaton.step(state, stack, token)
            left -= left > 0
        return Walk(self.automaton, state, stack, left)

    @property
    def key(self) -> tuple[int, Packed]:
        """The state and the open brackets."""
        return self.state, self.stack

    @property
    def is_live(self) -> bool:
        """Whether the text can still be completed."""
        return self.state >= FIRST_STATE

    def legal(self) -> NDArray[np.bool_]:
        """Return [C] bool, the classes of tokens that are legal."""
        if not self.is_live:
            return np.zeros(self.automaton.classes, np.bool_)
        return self.automaton.legal(self.automaton.place(self.state, self.stack, self.left))

    def allows(self, token: int) -> bool:
        """Whether a token is legal."""
        return bool(self.legal()[self.automaton.class_of[token]])

    def may_end(self) -> bool:
        """Whether the text is complete."""
        return bool(self.legal()[self.automaton.class_of[[*self.automaton.eos_ids]]].any())

    def successors(self, letter: NDArray[np.int64]) -> list[tuple[Walk, int]]:
        """Return the places after one more token, each with a token that leads there.

        Args:
            letter: [C] a token of each class, -1 where none may be used.
        """
        automaton, state = self.automaton, self.state & STATE
        targets = np.where(automaton.default == STAY, state, automaton.default).astype(np.int64)
        for at in reversed(automaton.chain(state)):
            row = slice(int(automaton.row_start[at]), int(automaton.row_start[at + 1]))
            targets[automaton.row_class[row]] = automaton.row_target[row]
        classes = np.flatnonzero(self.legal() & (letter >= 0))
        distinct, first = np.unique(targets[classes], return_index=True)
        found = []
        for target, token in zip(distinct.tolist(), letter[classes[first]].tolist(), strict=True):
            after, stack = target, self.stack
            if not DEAD < target < automaton.first_outcome:
                after, stack = automaton.behind(target, stack, self.state >> COUNT)
            if after >= FIRST_STATE:
                found.append((Walk(automaton, after, stack, self.left - (self.left > 0)), token))
        return found
