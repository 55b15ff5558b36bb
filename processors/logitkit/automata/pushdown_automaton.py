"""The automaton over tokens of a language with nesting: a small table, and what its tokens do to a stack."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from logitkit.automata.behaviours import Ints
from logitkit.automata.byte_dfa import DEAD, FINISHED, FIRST_STATE
from logitkit.automata.token_automaton import STAY, TokenAutomaton

__all__ = ["NO_LIMIT", "Nesting", "Place", "PushdownAutomaton"]

# In place of the tokens that are left to a row: nothing is counted.
NO_LIMIT = -1

# What an illegal token costs.
ILLEGAL = 2**30


@dataclass(frozen=True, eq=False, slots=True)
class Nesting:
    """What tokens do to the stack, besides leading to a state.

    An outcome is numbered from the automaton's number of states on. It pops a frame, and then does what its rest does in the
    frame's row; or it pushes frames and leads to a state.

    Args:
        frames: Number of frames, which are the last of the automaton's states. No row is ever in one.
        max_depth: Most frames on a stack.
        state: [N] int32, the state in the end.
        pushed: [N, P] int32, the frames that are pushed, the outermost first, then 0.
        rest: [N] int32, the class of what goes on behind a popped frame; 0 where none is popped.
        height: [N] int32, the most frames that are on the stack meanwhile, or must be later before a bracket is closed, more than
            there were before.
        pops: The most frames that a token pops.
        cost: [S] int32, tokens that are needed, at least, from each state to its closing bracket, or to the end; of a frame from
            what is behind it. None: nothing is counted.
    """

    frames: int
    max_depth: int
    state: NDArray[np.int32]
    pushed: NDArray[np.int32]
    rest: NDArray[np.int32]
    height: NDArray[np.int32]
    pops: int
    cost: NDArray[np.int32] | None = None

    @classmethod
    def none(cls, cost: NDArray[np.int32] | None = None) -> Nesting:
        """Return what a finite automaton does to a stack."""
        nothing = np.zeros(0, np.int32)
        return cls(0, 0, nothing, np.zeros((0, 0), np.int32), nothing, nothing, 0, cost)

    @property
    def tables(self) -> tuple[Ints, ...]:
        """All arrays."""
        return (self.state, self.pushed, self.rest, self.height, *(() if self.cost is None else (self.cost,)))


class Place(NamedTuple):
    """All that the mask of a row depends on.

    Args:
        state: Its state.
        frames: The frames on the stack that a token may pop, the innermost last.
        room: How many frames more it may have, as far as that matters.
        slack: How many tokens more than needed are left to it, as far as that matters; `NO_LIMIT` where they are not counted.
    """

    state: int
    frames: tuple[int, ...]
    room: int
    slack: int


@dataclass(frozen=True, eq=False)
class PushdownAutomaton(TokenAutomaton):
    """A token automaton whose rows have a stack of frames, each standing for what comes behind an open bracket.

    Args:
        nesting: What tokens do to the stack.
        dropped: What is said about parts of the language that were left out when it was compiled.
    """

    nesting: Nesting = field(kw_only=True)
    dropped: tuple[str, ...] = field(default=(), kw_only=True)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers that equal automata have in common."""
        return (*super().sizes, self.nesting.frames, self.nesting.max_depth, len(self.nesting.state))

    @property
    def nbytes(self) -> int:
        """Bytes of the table, `class_of` not counted."""
        return super().nbytes + sum(table.nbytes for table in self.nesting.tables)

    @cached_property
    def content_key(self) -> str:
        """SHA-256 of the table, as 64 hexadecimal digits."""
        digest = hashlib.sha256(super().content_key.encode())
        digest.update(repr((self.nesting.frames, self.nesting.max_depth, self.nesting.pops)).encode())
        for table in self.nesting.tables:
            digest.update(f"{table.dtype.name}{table.shape}".encode())
            digest.update(np.ascontiguousarray(table).tobytes())
        return digest.hexdigest()

    @property
    def first_frame(self) -> int:
        """The state with which the frames begin."""
        return self.states - self.nesting.frames

    @cached_property
    def cost(self) -> NDArray[np.int64]:
        """[S] tokens that each state and frame still needs, 0 where nothing is counted."""
        return np.zeros(self.states, np.int64) if self.nesting.cost is None else self.nesting.cost.astype(np.int64)

    @cached_property
    def outcome_cost(self) -> NDArray[np.int64]:
        """[N] tokens that are needed behind each outcome that pushes."""
        pushed = np.where(self.nesting.pushed > 0, self.cost[self.nesting.pushed], 0)
        found: NDArray[np.int64] = self.cost[self.nesting.state] + pushed.sum(axis=1)
        return found

    @cached_property
    def _outcomes(self) -> list[tuple[int, tuple[int, ...], int, int]]:
        nesting = self.nesting
        return [
            (state, tuple(f for f in pushed if f), rest, height)
            for state, pushed, rest, height in zip(
                *(t.tolist() for t in (nesting.state, nesting.pushed, nesting.rest, nesting.height)), strict=True
            )
        ]

    def step(self, state: int, stack: list[int], token: int) -> int:
        """Return the state after one token, and change the stack; it is empty when the row is dead."""
        target = self.next(state, token)
        while target >= self.states:
            target, pushed, rest, height = self._outcomes[target - self.states]
            if len(stack) + height > self.nesting.max_depth:
                target = DEAD
            elif rest:
                target = self.target(stack.pop(), rest) if stack else DEAD
            else:
                stack.extend(pushed)
        if target == DEAD:
            stack.clear()
        return target

    def needed(self, state: int, stack: Sequence[int]) -> int:
        """Return how many tokens are needed to end the text, at least."""
        return int(self.cost[state] + self.cost[[*stack]].sum())

    def place(self, state: int, stack: Sequence[int], left: int) -> Place:
        """Return what the mask of a row depends on.

        Args:
            state: Its state.
            stack: Its frames.
            left: How many tokens are left to it, or `NO_LIMIT`.
        """
        if state < FIRST_STATE:
            return Place(state, (), 0, NO_LIMIT)
        pops = self._pops[state]
        slack = NO_LIMIT
        if left != NO_LIMIT and self.nesting.cost is not None:
            slack = min(max(left - self.needed(state, stack), 0), self._dearest)
        room = min(self.nesting.max_depth - len(stack), self._highest)
        return Place(state, tuple(stack[max(len(stack) - pops, 0) :]), room, slack)

    @cached_property
    def _highest(self) -> int:
        return int(self.nesting.height.max(initial=0))

    @cached_property
    def _dearest(self) -> int:
        """More than any token can add to what is needed."""
        return 1 + int(self.cost.max(initial=0) + self.outcome_cost.max(initial=0))

    @cached_property
    def _pops(self) -> list[int]:
        """The most frames that a token pops in each state."""
        most = np.zeros(self.states + len(self.nesting.state), np.int64)
        owner = np.repeat(np.arange(self.states), np.diff(self.row_start))
        of_class = np.zeros(self.classes, np.int64)
        rests = np.flatnonzero(self.nesting.rest)
        for _ in range(self.nesting.pops):
            np.maximum.at(of_class, self.row_class, most[self.row_target])
            most[self.states + rests] = 1 + of_class[self.nesting.rest[rests]]
        found = np.zeros(self.states, np.int64)
        np.maximum.at(found, owner, most[self.row_target])
        return [int(n) for n in found]

    def legal(self, place: Place) -> NDArray[np.bool_]:
        """Return which classes are legal in a place: [C] bool."""
        at = self.nesting.max_depth - place.room
        needed = self.needed(place.state, place.frames)
        otherwise = np.where(self.default == STAY, needed, self.cost[self.default])
        cost = self._costs(place.state, place.frames, at, np.where(self.default == DEAD, ILLEGAL, otherwise))
        limit = ILLEGAL - 1 if place.slack == NO_LIMIT else needed + place.slack - 1
        legal: NDArray[np.bool_] = cost <= limit
        return legal

    def _costs(
        self, state: int, frames: tuple[int, ...], depth: int, costs: NDArray[np.int64] | None = None
    ) -> NDArray[np.int64]:
        """Return what is needed behind each class, [C], `ILLEGAL` where it is illegal.

        Args:
            state: A state, or a frame that has been popped.
            frames: The frames below it that a token may pop.
            depth: How many frames are below it.
            costs: What is needed behind classes that the row does not list; None: they are illegal.
        """
        nesting = self.nesting
        row = slice(int(self.row_start[state]), int(self.row_start[state + 1]))
        target = self.row_target[row].astype(np.int64)
        below = int(self.cost[[*frames]].sum())
        outside = target >= self.states
        cost = np.where(target == DEAD, ILLEGAL, self.cost.take(np.where(outside, DEAD, target)) + below)
        # To end is always possible where it is legal.
        cost[target == FINISHED] = -1
        if outside.any():
            which = target[outside] - self.states
            rest = nesting.rest[which]
            behind = self.outcome_cost[which] + below
            if rest.any():
                after = np.full(self.classes, ILLEGAL, np.int64)
                if frames:
                    after = self._costs(frames[-1], frames[:-1], depth - 1)
                behind = np.where(rest > 0, after[rest], behind)
            cost[outside] = np.where(depth + nesting.height[which] > nesting.max_depth, ILLEGAL, behind)
        costs = np.full(self.classes, ILLEGAL, np.int64) if costs is None else costs
        costs[self.row_class[row]] = cost
        return costs
