"""The position of one text in an automaton on the host: steps and legal tokens."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE
from logitkit.compiler.tokens.tables.counted_state import StateAndCount
from logitkit.compiler.tokens.tables.mask_key import NO_LIMIT
from logitkit.compiler.tokens.tables.packed_stacks import FRAME_BYTES, Packed, packed
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.compiler.tokens.tables.token_table import STAY
from logitkit.runtime.branching import followed
from logitkit.runtime.branching_state import Configurations

__all__ = ["BranchingWalk", "Walk", "random_walk"]

# How many random texts are written to see how many configurations they are in, and how many tokens of each.
WALKS, WALK_LENGTH = 8, 50

# How many configurations of one text are followed at once; the others are dropped, those with the most frames first.
MOST = 256


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
        """Return the position of the empty text."""
        nothing = packed((), FRAME_BYTES * automaton.nesting.max_depth)
        if automaton.layers:
            return BranchingWalk.at(automaton, [(automaton.start, nothing)])
        return cls(automaton, automaton.start, nothing, left)

    def after(self, *tokens: int) -> Walk:
        """Return the position after some more tokens."""
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
        return self.automaton.legal(self.automaton.mask_key(self.state, self.stack, self.left))

    def allows(self, token: int) -> bool:
        """Whether a token is legal."""
        return bool(self.legal()[self.automaton.class_of[token]])

    def may_end(self) -> bool:
        """Whether the text is complete."""
        return bool(self.legal()[self.automaton.class_of[[*self.automaton.eos_ids]]].any())

    def successors(self, token_of_class: NDArray[np.int64]) -> list[tuple[Walk, int]]:
        """Return the positions after one more token, each with a token that leads there.

        Args:
            token_of_class: [C] a token of each class, -1 where none may be used.
        """
        automaton, state = self.automaton, StateAndCount.state(self.state)
        targets = np.where(automaton.default == STAY, state, automaton.default).astype(np.int64)
        for at in reversed(automaton.chain(state)):
            row = slice(int(automaton.row_start[at]), int(automaton.row_start[at + 1]))
            targets[automaton.row_class[row]] = automaton.row_target[row]
        classes = np.flatnonzero(self.legal() & (token_of_class >= 0))
        distinct, first = np.unique(targets[classes], return_index=True)
        found = []
        for target, token in zip(distinct.tolist(), token_of_class[classes[first]].tolist(), strict=True):
            after, stack = target, self.stack
            if not DEAD < target < automaton.first_action:
                after, stack = automaton.after_target(target, stack, StateAndCount.count(self.state))
            if after >= FIRST_STATE:
                found.append((Walk(automaton, after, stack, self.left - (self.left > 0)), token))
        return found


@dataclass(frozen=True, slots=True)
class BranchingWalk(Walk):
    """Where one text stands in an automaton with layers: with up to `MOST` configurations; `state` and `stack` are the first.

    Args:
        configurations: The states and stacks.
    """

    configurations: tuple[tuple[int, Packed], ...] = ()

    @classmethod
    def at(cls, automaton: TokenAutomaton, configurations: Configurations) -> BranchingWalk:
        """Return the walk at some configurations."""
        state, stack = (
            configurations[0] if configurations else (DEAD, packed((), FRAME_BYTES * automaton.nesting.max_depth))
        )
        return cls(automaton, state, stack, NO_LIMIT, tuple(configurations))

    def after(self, *tokens: int) -> Walk:
        """Return the position after some more tokens."""
        configurations = [*self.configurations]
        for token in tokens:
            configurations, _ = followed(self.automaton, configurations, token, MOST)
        return self.at(self.automaton, configurations)

    @property
    def key(self) -> tuple[int, Packed]:
        """The states and the open brackets."""
        return -1, b"".join(state.to_bytes(8) + stack for state, stack in sorted(self.configurations))

    def legal(self) -> NDArray[np.bool_]:
        """Return [C] bool, the classes of tokens that are legal."""
        if not self.is_live:
            return np.zeros(self.automaton.classes, np.bool_)
        layers = (self.automaton, *self.automaton.layers)
        return self.automaton.legal_in_layers(
            [[layer.mask_key(*p, NO_LIMIT) for p in self.configurations] for layer in layers]
        )

    def successors(self, token_of_class: NDArray[np.int64]) -> list[tuple[Walk, int]]:
        """Return the positions after one more token, each with a token that leads there."""
        found: dict[tuple[int, Packed], tuple[Walk, int]] = {}
        for token in token_of_class[self.legal() & (token_of_class >= 0)].tolist():
            walk = self.after(token)
            found.setdefault(walk.key, (walk, token))
        return [*found.values()]


def random_walk(automaton: TokenAutomaton) -> list[int]:
    """Return how many configurations some random texts are in after each token; always the same texts."""
    chance, found = Random(0), list[int]()  # noqa: S311
    tokens = np.full(automaton.classes, -1, np.int64)
    ids = np.flatnonzero(~np.isin(np.arange(len(automaton.class_of)), automaton.eos_ids))
    tokens[automaton.class_of[ids]] = ids
    for _ in range(WALKS):
        walk = Walk.start(automaton)
        for _ in range(WALK_LENGTH):
            assert isinstance(walk, BranchingWalk)
            found.append(len(walk.configurations))
            legal = tokens[walk.legal() & (tokens >= 0)]
            if not len(legal):
                break
            walk = walk.after(chance.choice(legal.tolist()))
    return found
