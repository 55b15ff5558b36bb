"""The position of one text in an automaton: a row that is copied before it goes on, for searches and explanations."""

from __future__ import annotations

from collections.abc import Hashable
from random import Random

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import FIRST_STATE
from logitkit.compiler.tokens.tables.counted_state import StateAndCount
from logitkit.compiler.tokens.tables.mask_key import NO_LIMIT
from logitkit.compiler.tokens.tables.packed_stacks import FRAME_BYTES, packed
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.runtime.branching_row import BranchingRow
from logitkit.runtime.constraint_row import ConstraintRow, StackRow

__all__ = ["UsableTokens", "Walk", "random_walk"]

# How many random texts are written to see how many configurations they are in, and how many tokens of each.
WALKS, WALK_LENGTH = 8, 50

# How many configurations of one text are followed at once; the others are dropped, those with the most frames first.
MOST = 256

# How many tokens are tried in one place where each leads to another text.
MOST_TOKENS = 256


class Walk:
    """Where one text stands, and where it may go from there.

    Args:
        row: The row of the text, which does not change.
    """

    __slots__ = ("row",)

    def __init__(self, row: ConstraintRow) -> None:
        self.row = row

    @classmethod
    def start(cls, automaton: TokenAutomaton, left: int = NO_LIMIT) -> Walk:
        """Return the position of the empty text, with `left` tokens left to it, or -1 if they are not counted."""
        registry, nothing = _Alone(automaton), packed((), FRAME_BYTES * automaton.nesting.max_depth)
        if automaton.layers:
            return cls(BranchingRow(registry, 1, 0, [(automaton.start, nothing)], MOST))
        if automaton.remembers is not None:
            from logitkit.runtime.remembering.remembering_row import RememberingRow

            return cls(RememberingRow(registry, 1, 0, automaton.start, nothing))
        return cls(StackRow(registry, 1, 0, automaton.start, nothing, left))

    @property
    def automaton(self) -> TokenAutomaton:
        """The automaton over tokens."""
        return self.row.automaton

    def after(self, *tokens: int) -> Walk:
        """Return the position after some more tokens."""
        row = self.row.copy()
        for token in tokens:
            row.advance(token)
        return Walk(row)

    def with_left(self, left: int) -> Walk:
        """Return the same place of a text to which a number of tokens is left."""
        row = self.row.copy()
        assert isinstance(row, StackRow)
        row.left = left
        return Walk(row)

    @property
    def key(self) -> Hashable:
        """The states and the open brackets."""
        return (*sorted(self.row.configurations), getattr(self.row, "memory", None))

    @property
    def is_live(self) -> bool:
        """Whether the text can still be completed."""
        return self.row.current >= FIRST_STATE

    def legal(self) -> NDArray[np.bool_]:
        """Return [C] bool, the classes of tokens that are legal."""
        return self.row.legal_classes()

    def allows(self, token: int) -> bool:
        """Whether a token is legal."""
        return self.row.allows(token)

    def legal_ids(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return those of some tokens, [N] int64, that are legal."""
        found: NDArray[np.int64] = ids[self.legal()[self.automaton.class_of[ids]]]
        banned = self.row.banned()
        if len(banned):
            found = found[~np.isin(found, banned)]
        return found

    def may_end(self) -> bool:
        """Whether the text is complete."""
        return bool(self.legal()[self.automaton.class_of[[*self.automaton.eos_ids]]].any())

    def without_memory(self) -> Walk:
        """Return the same place of a text of which the row remembers nothing, so that no item is used up."""
        row = self.row
        return Walk(StackRow(row.registry, row.slot, row.generation, row.current, row.stack, row.left))

    def successors(self, tokens: UsableTokens) -> list[tuple[Walk, int]]:
        """Return the positions after one more token, each with a token that leads there.

        Args:
            tokens: The tokens that may be used.
        """
        banned = self.row.banned()
        token_of = tokens.of_class if not len(banned) else tokens.without(banned).of_class
        classes = np.flatnonzero(self.legal() & (token_of >= 0))
        layers = (self.automaton, *self.automaton.layers)
        states = [StateAndCount.state(state) for state, _ in self.row.configurations]
        targets = np.array([layer.targets_from(state)[classes] for layer in layers for state in states])
        if len(targets) == 1:
            _, first = np.unique(targets[0], return_index=True)
        else:
            first = np.sort(np.unique(targets, axis=1, return_index=True)[1]) if len(classes) else classes
        walks = [(self.after(token), token) for token in token_of[classes[first]].tolist()]
        return [(walk, token) for walk, token in walks if walk.is_live]

    def all_successors(self, tokens: UsableTokens) -> list[tuple[Walk, int]]:
        """Return the positions after each legal token, also where a row only remembers another text; at most `MOST_TOKENS`.

        Args:
            tokens: The tokens that may be used.
        """
        walks = [(self.after(token), token) for token in self.legal_ids(tokens.ids)[:MOST_TOKENS].tolist()]
        return [(walk, token) for walk, token in walks if walk.is_live]


class UsableTokens:
    """The tokens that a search may use, and one of each class.

    Args:
        automaton: The automaton.
        ids: [N] the ids that may be used, in ascending order.
    """

    __slots__ = ("_automaton", "ids", "of_class")

    def __init__(self, automaton: TokenAutomaton, ids: NDArray[np.int64]) -> None:
        self._automaton, self.ids = automaton, ids
        # [C] the least usable id of each class, -1 where there is none.
        self.of_class = np.full(automaton.classes, -1, np.int64)
        self.of_class[automaton.class_of[ids[::-1]]] = ids[::-1]

    @classmethod
    def of(cls, automaton: TokenAutomaton, allowed: NDArray[np.bool_] | None) -> UsableTokens:
        """Return the tokens other than EOS.

        Args:
            automaton: The automaton.
            allowed: [V] bool, the tokens that may be used. None: all.
        """
        size = len(automaton.class_of)
        ids = np.arange(size) if allowed is None else np.flatnonzero(allowed[:size])
        return cls(automaton, ids[~np.isin(ids, automaton.eos_ids)])

    def without(self, banned: NDArray[np.int64]) -> UsableTokens:
        """Return the tokens that are not among some others."""
        return UsableTokens(self._automaton, self.ids[~np.isin(self.ids, banned)])


class _Alone:
    """Stands for a registry with one automaton."""

    __slots__ = ("_automaton",)

    def __init__(self, automaton: TokenAutomaton) -> None:
        self._automaton = automaton

    def automaton(self, slot: int, generation: int) -> TokenAutomaton:
        """Return the automaton."""
        return self._automaton


def random_walk(automaton: TokenAutomaton) -> list[int]:
    """Return how many configurations some random texts are in after each token; always the same texts."""
    chance, found = Random(0), list[int]()  # noqa: S311
    tokens = np.full(automaton.classes, -1, np.int64)
    ids = np.flatnonzero(~np.isin(np.arange(len(automaton.class_of)), automaton.eos_ids))
    tokens[automaton.class_of[ids]] = ids
    for _ in range(WALKS):
        walk = Walk.start(automaton)
        for _ in range(WALK_LENGTH):
            found.append(len(walk.row.configurations))
            legal = tokens[walk.legal() & (tokens >= 0)]
            if not len(legal):
                break
            walk = walk.after(chance.choice(legal.tolist()))
    return found
