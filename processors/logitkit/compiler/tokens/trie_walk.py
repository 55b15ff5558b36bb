"""Where the texts of a trie lead from some states of an automaton that nests: forwards, all states at once, level by level.

From most states of a schema few tokens lead anywhere: inside of a name only those that go on with it. So it costs little to
follow just these, where a table of what every token does in every state would cost much.

A walk carries the brackets that its own bytes have opened. Where it closes one that was open before, it stops: what the rest
of the token does depends on the frame that is popped, and `rests` knows that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import DEAD
from logitkit.compiler.bytes.leaf import QUOTE, Copies
from logitkit.compiler.bytes.nested_dfa import NestedDfa
from logitkit.compiler.bytes.renumbering import ROWS_AT_ONCE
from logitkit.compiler.bytes.sorting import distinct_rows, which_of
from logitkit.compiler.tokens.counted_links import CountedStates
from logitkit.compiler.tokens.outcomes import MOST_PUSHED, Outcome, Outcomes
from logitkit.compiler.tokens.walked_prefixes import COUNT, HEIGHT, LIKE, PREFIXES_AT_ONCE, SOURCE, STACK, STATE, Front
from logitkit.limits import Limits
from logitkit.vocabulary.ranges import cut_by_sum, expand
from logitkit.vocabulary.trie import Trie

__all__ = ["Found", "Starts", "TrieWalk"]

Ints = NDArray[np.int64]

# What the state of a leaf that a walk is compared with has become, if it is none any more: dead, or beyond its end.
NOT_LIKE, BEYOND = 0, -1

# What a level costs by itself, in steps; so many prefixes take as long as one other step.
LEVEL_STEPS, PREFIXES_A_STEP = 100, 4


class Starts(NamedTuple):
    """Where walks begin.

    Args:
        source: What each walk is called.
        node: The node of the trie.
        state: The state that the text up to that node has led to.
        like: The state of a leaf in which other walks do the same, but for some texts; 0 if there is none.
        unquoted: Whether no text is followed that begins with a quote.
    """

    source: Ints
    node: Ints
    state: Ints
    like: Ints
    unquoted: NDArray[np.bool_]

    @classmethod
    def at_root(cls, states: Ints, like: Ints | None = None, unquoted: NDArray[np.bool_] | None = None) -> Starts:
        """Begin in some states with whole texts."""
        nothing = np.zeros(len(states), np.int64)
        return cls(
            states,
            nothing,
            states,
            nothing if like is None else like,
            np.zeros(len(states), bool) if unquoted is None else unquoted,
        )


class Found(NamedTuple):
    """What texts do.

    Args:
        source: The walk.
        token: The id of the text in the trie.
        outcome: The number of its outcome; `DEAD` only where the state that a walk is like might do something else.
    """

    source: Ints
    token: Ints
    outcome: Ints


class Popped(NamedTuple):
    """Where walks close a bracket that was open before.

    Args:
        source: The walk.
        node: The node of the trie at which it does.
        end: The end.
        height: The most frames that were pushed and popped before.
    """

    source: Ints
    node: Ints
    end: Ints
    height: Ints

    def blocks(self, trie: Trie) -> Iterator[Popped]:
        """Yield them in parts with about `PREFIXES_AT_ONCE` texts each."""
        for begin, end in cut_by_sum(trie.below[self.node], PREFIXES_AT_ONCE):
            yield Popped(*(column[begin:end] for column in self))


class TrieWalk:
    """Follows texts through an automaton.

    Args:
        dfa: The automaton.
        copies: The copies of leaves in it.
        outcomes: Numbers what they lead to.
        limits: Bounds on the work.
    """

    def __init__(self, dfa: NestedDfa, copies: Copies, outcomes: Outcomes, limits: Limits) -> None:
        self.dfa, self.outcomes, self.limits = dfa, outcomes, limits
        self.inside = copies.of_states() >= 0
        self.counted = CountedStates.of(copies)
        self._uncounted: list[bool] = dfa.uncounted.tolist()
        # The end that each state is; most are none.
        self._returns = np.full(dfa.states, -1)
        self._returns[[*dfa.returns]] = [*dfa.returns.values()]
        # Stack 0 is empty. Only brackets count as height.
        self.stacks: list[tuple[int, ...]] = [()]
        self.heights = [0]
        self.number: dict[tuple[int, ...], int] = {(): 0}

    def follow(self, trie: Trie, starts: Starts) -> tuple[Found, Popped]:
        """Return what the texts of a trie do.

        Args:
            trie: The texts.
            starts: Where walks begin.

        Raises:
            PatternTooLarge: There are too many steps.
        """
        columns = np.zeros((6, len(starts.source)), np.int64)
        columns[SOURCE], columns[STATE], columns[LIKE] = starts.source, starts.state, starts.like
        front = Front(columns, starts.node)
        nothing = starts.source[:0]
        met = [front.take(nothing).narrowed()]
        popped = [Popped(*(nothing for _ in Popped._fields))]
        # Below these nodes nothing is alive, although it is in the state that the walk is like.
        lost: list[tuple[NDArray[np.integer], NDArray[np.integer]]] = []
        while len(front.node):
            met.append(front.take(np.flatnonzero(trie.own[front.node])).narrowed())
            self.limits.spend(LEVEL_STEPS)
            if len(met) == 2:
                front = self._stepped(trie, front, *self._first(trie, starts), popped)
            else:
                blocks = [
                    self._stepped(trie, block, *trie.children_of(block.node), popped) for block in front.blocks(trie)
                ]
                front = Front.joined(blocks)
            dead = front.columns[STATE] == DEAD
            if dead.any():
                like = front.columns[LIKE]
                gone = np.flatnonzero(dead & (like == BEYOND))
                if len(gone):
                    lost.append((front.columns[SOURCE, gone], front.node[gone]))
                front = front.take(np.flatnonzero(~dead | (like > 0)))
        return self._found(trie, met, lost), Popped(*map(np.concatenate, zip(*popped, strict=True)))

    def _first(self, trie: Trie, starts: Starts) -> tuple[Ints, Ints]:
        """Return the first prefixes that any walk goes on with, and the walk of each.

        From the root on, a look at each of its children in each state would take most of the time.
        """
        dfa = self.dfa
        root = np.flatnonzero(starts.node == 0)
        goes_on = np.empty((len(root), dfa.step.shape[1]), bool)
        for begin in range(0, len(root), ROWS_AT_ONCE):
            some = root[begin : begin + ROWS_AT_ONCE]
            # Where there is no state that another is like, 0 is dead.
            goes_on[begin : begin + ROWS_AT_ONCE] = dfa.step[starts.state[some]] != dfa.step[starts.like[some]]
        which, symbol = np.nonzero(goes_on)
        below = np.arange(trie.children[0], trie.children[1])
        symbols = dfa.byte_class[trie.byte[below]]
        order = np.argsort(symbols, kind="stable")
        first = np.searchsorted(symbols[order], np.arange(goes_on.shape[1] + 1))
        place, pair = expand(first[symbol], first[symbol + 1] - first[symbol])
        child, owner = below[order[place]], root[which[pair]]
        kept = ~starts.unquoted[owner] | (trie.byte[child] != QUOTE)
        others = np.flatnonzero(starts.node)
        more, owners = trie.children_of(starts.node[others])
        return np.concatenate([child[kept], more]), np.concatenate([owner[kept], others[owners]])

    def _stepped(self, trie: Trie, front: Front, child: Ints, owner: Ints, popped: list[Popped]) -> Front:
        """Return what one more byte makes of each prefix; leave out what does as the state that it is like."""
        dfa = self.dfa
        self.limits.spend(len(child) // PREFIXES_A_STEP)
        symbol = dfa.byte_class[trie.byte[child]]
        before = front.columns[STATE, owner]
        does = dfa.step[before, symbol]
        like = front.columns[LIKE, owner]
        kept = np.flatnonzero((does != DEAD) | (like != NOT_LIKE))
        owner, does, like = owner[kept], does[kept], like[kept]
        at = np.flatnonzero(like > 0)
        if len(at):
            leads = dfa.step[like[at], symbol[kept[at]]]
            same = leads == does[at]
            within = leads < dfa.states
            within[within] = self.inside[leads[within]]
            like[at] = np.where(leads == DEAD, NOT_LIKE, np.where(within, leads, BEYOND))
            if same.any():
                other = np.ones(len(kept), bool)
                other[at[same]] = False
                kept, owner, does, like = kept[other], owner[other], does[other], like[other]
        columns = front.columns.take(owner, axis=1)
        columns[STATE], columns[LIKE] = does, like
        if self.counted is not None:
            columns[COUNT], within = self.counted.stepped(before[kept], columns[STATE], columns[COUNT])
            columns[STATE, ~within] = DEAD
        front = Front(columns, child[kept])
        nests = np.flatnonzero(columns[STATE] >= dfa.states)
        if len(nests):
            self._nest(front, nests, popped)
        return front

    def _nest(self, front: Front, which: Ints, popped: list[Popped]) -> None:
        """Open and close brackets, in place, and whatever ends with these."""
        dfa = self.dfa
        while len(which):
            self._nest_once(front, which, popped)
            state = front.columns[STATE]
            which = which[self._returns[state[which]] >= 0]
            state[which] = dfa.states + dfa.calls + self._returns[state[which]]

    def _nest_once(self, front: Front, which: Ints, popped: list[Popped]) -> None:
        dfa = self.dfa
        source, state, stack, height, like, _ = front.columns
        does = state[which] - dfa.states
        calls = does < dfa.calls
        at, call = which[calls], does[calls]
        stack[at] = self._pushed(stack[at], dfa.frame[call])
        height[at] = np.maximum(height[at], [self.heights[s] for s in stack[at].tolist()])
        state[at] = dfa.entry[call]
        at, end = which[~calls], does[~calls] - dfa.calls
        own = stack[at] != 0
        out = at[~own]
        popped.append(Popped(source[out], front.node[out], end[~own], height[out]))
        # What these texts do is said there, so here they are over.
        state[out] = DEAD
        like[out] = NOT_LIKE
        at, end = at[own], end[own]
        stacks = [self.stacks[s] for s in stack[at].tolist()]
        state[at] = dfa.behind[end, np.array([stack[-1] for stack in stacks], np.int64)]
        stack[at] = [self._numbered(stack[:-1]) for stack in stacks]

    def _pushed(self, stack: Ints, frame: Ints) -> Ints:
        pairs, which = which_of(stack * self.dfa.frames + frame)
        made = [
            self._numbered((*self.stacks[s], f))
            for s, f in zip(*(c.tolist() for c in np.divmod(pairs, self.dfa.frames)), strict=True)
        ]
        return np.array(made, np.int64)[which]

    def _numbered(self, stack: tuple[int, ...]) -> int:
        found = self.number.setdefault(stack, len(self.stacks))
        if found == len(self.stacks):
            self.stacks.append(stack)
            self.heights.append(sum(not self._uncounted[frame] for frame in stack))
        return found

    def _found(
        self, trie: Trie, met: list[Front], lost: list[tuple[NDArray[np.integer], NDArray[np.integer]]]
    ) -> Found:
        columns, node = Front.joined(met)
        met.clear()
        source, stack, height, count = (columns[row] for row in (SOURCE, STACK, HEIGHT, COUNT))
        outcome = columns[STATE].astype(np.int64)
        changed = np.flatnonzero((stack != 0) | (height != 0) | (count != 0))
        if len(changed):
            parts = [column[changed] for column in (outcome, stack, height, count)]
            example, which = distinct_rows(parts)
            numbers = [
                self.outcomes.number(Outcome(s, self.stacks[k], 0, h, added=c))
                if len(self.stacks[k]) <= MOST_PUSHED
                else DEAD
                for s, k, h, c in zip(*(part[example].tolist() for part in parts), strict=True)
            ]
            outcome[changed] = np.array(numbers, np.int64)[which]
        place, owner = expand(trie.first[node], trie.own[node])
        found = [(source[owner].astype(np.int64), trie.tokens[place], outcome[owner])]
        for sources, nodes in lost:
            place, owner = expand(trie.first[nodes], trie.below[nodes])
            found.append((sources[owner], trie.tokens[place], np.full(len(place), DEAD)))
        return Found(*(np.concatenate(column) for column in zip(*found, strict=True)))
