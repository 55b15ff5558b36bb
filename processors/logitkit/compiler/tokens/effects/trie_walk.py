"""Where the texts of a trie lead from some states of an automaton that nests: forwards, all states at once, level by level.

From most states of a schema few tokens lead anywhere: inside of a name only those that go on with it. So it costs little to
follow just these, where a table of what every token does in every state would cost much.

A walk carries the brackets that its own bytes have opened. Where it closes one that was open before, it stops: what the rest
of the token does depends on the frame that is popped, and `suffix_actions` knows that.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import DEAD, ROWS_AT_ONCE
from logitkit.compiler.bytes.fragment_instances import FragmentInstances
from logitkit.compiler.bytes.nested_dfa import NestedDfa
from logitkit.compiler.bytes.nested_step import NestedStep
from logitkit.compiler.bytes.sorting import distinct_rows
from logitkit.compiler.bytes.string_fragment import QUOTE
from logitkit.compiler.tokens.effects.action_numbering import MOST_PUSHED, ActionNumbering, StackAction
from logitkit.compiler.tokens.effects.counted_links import CountedStates
from logitkit.compiler.tokens.effects.walked_prefixes import (
    BASE_STATE,
    COUNT,
    EMPTY,
    SOURCE,
    STATE,
    Found,
    Frontier,
    Popped,
    WalkedStacks,
    WalkStarts,
)
from logitkit.limits import Limits
from logitkit.vocabulary.ranges import expand
from logitkit.vocabulary.trie import Trie

__all__ = ["TrieWalk"]

Ints = NDArray[np.int64]

# In place of the state of a fragment that a walk is compared with, once that has left the fragment: dead, or beyond its end.
NO_BASE, BEYOND = 0, -1

# The cost of a level by itself, in steps; and how many prefixes take as long as one other step.
LEVEL_STEPS, PREFIXES_A_STEP = 100, 4


class TrieWalk:
    """Follows texts through an automaton.

    Args:
        dfa: The automaton.
        instances: The instances of fragments in it.
        actions: Numbers what they lead to.
        limits: Bounds on the work.
    """

    def __init__(self, dfa: NestedDfa, instances: FragmentInstances, actions: ActionNumbering, limits: Limits) -> None:
        self.dfa, self.actions, self.limits = dfa, actions, limits
        self.inside = instances.of_states() >= 0
        self.counted = CountedStates.of(instances, dfa.byte_class)
        # The bytes of each class.
        self._bytes = np.argsort(dfa.byte_class, kind="stable")
        self._first_byte = np.searchsorted(dfa.byte_class[self._bytes], np.arange(dfa.step.shape[1] + 1))
        # The end that each state is; most are not ends.
        self._returns = np.full(dfa.states, -1)
        self._returns[[*dfa.returns]] = [*dfa.returns.values()]
        # Only brackets count as height.
        self.stacks = WalkedStacks(dfa.uncounted)

    def follow(self, trie: Trie, starts: WalkStarts) -> tuple[Found, Popped]:
        """Return what the texts of a trie do.

        Args:
            trie: The texts.
            starts: Where walks begin.

        Raises:
            PatternTooLarge: There are too many steps.
        """
        columns = np.zeros((6, len(starts.source)), np.int64)
        columns[SOURCE], columns[STATE], columns[BASE_STATE] = starts.source, starts.state, starts.base_state
        frontier, first = Frontier(columns, starts.node), True
        nothing = starts.source[:0]
        met = [frontier.take(nothing)]
        popped = [Popped(*(nothing for _ in Popped._fields))]
        # Below these nodes nothing is alive, although it is in the base state of the walk.
        lost: list[tuple[NDArray[np.integer], NDArray[np.integer]]] = []
        while len(frontier.node):
            spelled = trie.own[frontier.node].nonzero()[0]
            if len(spelled):
                met.append(frontier.take(spelled).narrowed())
            if first:
                child, owner = self._children(trie, frontier)
                kept = ~starts.unquoted[owner] | (trie.byte[child] != QUOTE) | (starts.node[owner] > 0)
                frontier, first = self._stepped(trie, frontier, child[kept], owner[kept], popped), False
            else:
                blocks = [
                    self._stepped(trie, block, *self._children(trie, block), popped) for block in frontier.blocks(trie)
                ]
                frontier = Frontier.joined(blocks)
            state = frontier.columns[STATE]
            if not state.all():
                base_state = frontier.columns[BASE_STATE]
                gone = ((state == DEAD) & (base_state == BEYOND)).nonzero()[0]
                if len(gone):
                    lost.append((frontier.columns[SOURCE, gone], frontier.node[gone]))
                frontier = frontier.take(((state != DEAD) | (base_state > 0)).nonzero()[0])
        return self._found(trie, Frontier.joined(met), lost), Popped(*map(np.concatenate, zip(*popped, strict=True)))

    def _children(self, trie: Trie, frontier: Frontier) -> tuple[Ints, Ints]:
        """Return the prefixes that a frontier goes on with, and which of it each goes on from.

        Short prefixes have dozens of children, and most states few moves: so these look for the children of their bytes.
        """
        first = trie.children[frontier.node]
        count = trie.children[frontier.node + 1] - first
        if frontier.node[0] >= len(trie.child):
            return expand(first, count)
        base_state = frontier.columns[BASE_STATE]
        look = (frontier.node < len(trie.child)) & (base_state != BEYOND)
        few, many = (~look).nonzero()[0], look.nonzero()[0]
        which, symbol = self._moves(frontier.columns[STATE, many], base_state[many])
        place, pair = expand(self._first_byte[symbol], self._first_byte[symbol + 1] - self._first_byte[symbol])
        owner = many[which[pair]]
        child = trie.child[frontier.node[owner], self._bytes[place]]
        found = child.nonzero()[0]
        more, owners = expand(first[few], count[few])
        return np.concatenate([child[found], more]), np.concatenate([owner[found], few[owners]])

    def _moves(self, states: Ints, base_state: Ints) -> tuple[Ints, Ints]:
        """Return the places of states, and the classes of bytes that do not do there what they do in others."""
        step = self.dfa.step
        goes_on = np.empty((len(states), step.shape[1]), bool)
        for begin in range(0, len(states), ROWS_AT_ONCE):
            some = slice(begin, begin + ROWS_AT_ONCE)
            np.not_equal(step[states[some]], step[base_state[some]], out=goes_on[some])
        # In one dimension, numpy finds them several times faster.
        return np.divmod(goes_on.ravel().nonzero()[0], step.shape[1])

    def _stepped(self, trie: Trie, frontier: Frontier, child: Ints, owner: Ints, popped: list[Popped]) -> Frontier:
        """Return what one more byte makes of each prefix; leave out what does as its base state."""
        dfa = self.dfa
        self.limits.spend(LEVEL_STEPS + len(child) // PREFIXES_A_STEP)
        symbol = dfa.byte_class[trie.byte[child]]
        before = frontier.columns[STATE].take(owner)
        does = dfa.step[before, symbol]
        base_state = frontier.columns[BASE_STATE].take(owner)
        kept = (does | base_state).nonzero()[0]
        if base_state.any():
            kept = kept[self._compared(base_state, kept, symbol, does)]
        columns = frontier.columns.take(owner[kept], axis=1)
        columns[STATE], columns[BASE_STATE] = does[kept], base_state[kept]
        if self.counted is not None:
            columns[COUNT], within = self.counted.stepped(before[kept], symbol[kept], columns[STATE], columns[COUNT])
            columns[STATE, ~within] = DEAD
        frontier = Frontier(columns, child[kept])
        nests = (~NestedStep.is_state(columns[STATE])).nonzero()[0]
        if len(nests):
            self._nest(frontier, nests, popped)
        return frontier

    def _compared(self, base_state: Ints, kept: Ints, symbol: Ints, does: Ints) -> NDArray[np.bool_]:
        """Step the states that prefixes are like, in place; return which of some prefixes do not do the same as these."""
        other = np.ones(len(kept), bool)
        at = (base_state[kept] > 0).nonzero()[0]
        mine = kept[at]
        leads = self.dfa.step[base_state[mine], symbol[mine]]
        within = NestedStep.is_state(leads)
        within[within] = self.inside[leads[within]]
        base_state[mine] = np.where(leads == DEAD, NO_BASE, np.where(within, leads, BEYOND))
        other[at] = leads != does[mine]
        return other

    def _nest(self, frontier: Frontier, which: Ints, popped: list[Popped]) -> None:
        """Open and close brackets, in place, and whatever ends with these."""
        while len(which):
            self._nest_once(frontier, which, popped)
            state = frontier.columns[STATE]
            which = which[self._returns[state[which]] >= 0]
            state[which] = NestedStep.end(self._returns[state[which]])

    def _nest_once(self, frontier: Frontier, which: Ints, popped: list[Popped]) -> None:
        dfa = self.dfa
        source, state, stack, height, base_state, _ = frontier.columns
        opens, number = NestedStep.is_call(state[which]), NestedStep.number(state[which])
        if opens.any():
            at, call = which[opens], number[opens]
            stack[at], heights = self.stacks.pushed(stack[at], dfa.frame[call])
            height[at] = np.maximum(height[at], heights)
            state[at] = dfa.entry[call]
        if opens.all():
            return
        at, end = which[~opens], number[~opens]
        own = stack[at] != EMPTY
        out = at[~own]
        popped.append(Popped(source[out], frontier.node[out], end[~own], height[out]))
        # The actions of these texts follow from `popped`, so here the walk is over.
        state[out] = DEAD
        base_state[out] = NO_BASE
        at, end = at[own], end[own]
        stack[at], frames = self.stacks.popped(stack[at])
        state[at] = dfa.return_state[end, np.array(frames, np.int64)]

    def _found(self, trie: Trie, met: Frontier, lost: list[tuple[NDArray[np.integer], NDArray[np.integer]]]) -> Found:
        source, action, stack, height, _, count = met.columns.astype(np.int64)
        changed = np.flatnonzero(stack | height | count)
        if len(changed):
            parts = [column[changed] for column in (action, stack, height, count)]
            example, which = distinct_rows(parts)
            rows = zip(*(part[example].tolist() for part in parts), strict=True)
            action[changed] = np.array([self._action(*row) for row in rows], np.int64)[which]
        place, owner = expand(trie.first[met.node], trie.own[met.node])
        found = [(source[owner], trie.tokens[place], action[owner])]
        for sources, nodes in lost:
            place, owner = expand(trie.first[nodes], trie.below[nodes])
            found.append((sources[owner], trie.tokens[place], np.full(len(place), DEAD)))
        return Found(*(np.concatenate(column) for column in zip(*found, strict=True)))

    def _action(self, state: int, stack: int, height: int, count: int) -> int:
        pushed = self.stacks.frames(stack)
        return (
            self.actions.number(StackAction(state, pushed, 0, height, added=count))
            if len(pushed) <= MOST_PUSHED
            else DEAD
        )
