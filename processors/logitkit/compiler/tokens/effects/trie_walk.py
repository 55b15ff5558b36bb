"""Where the texts of a trie lead from some states of an automaton that nests: forwards, all states at once, level by level.

From most states of a schema few tokens lead anywhere. Inside of the name `"name"`, only the tokens that continue it do. Following
these few tokens costs little, where a table of every token in every state would cost much.

A walk carries the brackets that its own bytes have opened. Where it closes a bracket that was open before, it stops: the rest of
the token does something that depends on the frame, and `suffix_actions` knows that.

By hand, for lists such as `[[],[]]` and the tokens `[`, `[[` and `],`, from the state inside of a list: `[` leads to the state
inside of the inner list, and pushes a frame. `[[` pushes two frames. `],` closes the list itself: the walk stops after `]`,
with a comma left.

A walk from an *override state* (`literal_overrides`) also carries its base state. A prefix is dropped as soon as both do the
same, since the base state then says what its texts do.

Invariants: all prefixes of a level have the same length, apart from where their walks began. A result lists only texts that are
alive, and dead ones whose base state might be alive.
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
from logitkit.compiler.bytes.transition_columns import Ints, starts
from logitkit.compiler.tokens.effects.action_numbering import MOST_PUSHED, ActionNumbering, StackAction
from logitkit.compiler.tokens.effects.counted_links import CountedStates
from logitkit.compiler.tokens.effects.walked_prefixes import (
    BEYOND,
    EMPTY,
    NO_BASE,
    Children,
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
        # The bytes that each state reads, one state after another. States of fragments, which read most bytes, are not listed.
        self._listed = ~self.inside & (instances.base_state == 0)
        listed = np.flatnonzero(self._listed)
        which, symbol = self._moves(listed, np.full(len(listed), NO_BASE))
        place, move = self._bytes_of(symbol)
        self._read = self._bytes[place].astype(np.uint8)
        self._first_read = starts(np.bincount(listed[which[move]], minlength=dfa.states))
        # The end that each state is, -1 for most.
        self._returns = np.full(dfa.states, -1)
        self._returns[[*dfa.returns]] = [*dfa.returns.values()]
        self.stacks = WalkedStacks(dfa.uncounted)

    def follow(self, trie: Trie, starts: WalkStarts) -> tuple[Found, Popped]:
        """Return the actions of the texts of a trie, and where they close brackets that were open before.

        Args:
            trie: The texts.
            starts: Where walks begin.

        Raises:
            PatternTooLarge: There are too many steps.
        """
        level, is_first = Frontier.at(starts), True
        met = [level.take(starts.source[:0])]
        popped: list[Popped] = []
        lost: list[Frontier] = []
        while len(level.node):
            spelled = trie.own[level.node].nonzero()[0]
            if len(spelled):
                met.append(level.take(spelled).narrowed())
            if is_first:
                level, is_first = self._stepped(trie, level, self._first_children(trie, level, starts), popped), False
            else:
                blocks = level.blocks(trie)
                stepped = [self._stepped(trie, block, self._children(trie, block), popped) for block in blocks]
                level = Frontier.joined(stepped)
            if not level.state.all():
                dead = level.state == DEAD
                gone = (dead & (level.base_state == BEYOND)).nonzero()[0]
                if len(gone):
                    lost.append(level.take(gone))
                level = level.take((~dead | (level.base_state > 0)).nonzero()[0])
        return self._found(trie, Frontier.joined(met), lost), Popped.joined(popped)

    def _first_children(self, trie: Trie, level: Frontier, starts: WalkStarts) -> Children:
        """Return the first bytes of walks; those that are `unquoted` do not read a quote."""
        children = self._children(trie, level)
        is_quote = (trie.byte[children.node] == QUOTE) & (level.node[children.owner] == 0)
        return children.take(~(is_quote & starts.unquoted[children.owner]))

    def _children(self, trie: Trie, level: Frontier) -> Children:
        """Return the prefixes that continue those of a level.

        A short prefix has dozens of children in the trie, but its state reads few bytes. So its children are looked up by these
        bytes; for all other prefixes, all children in the trie are returned.
        """
        first = trie.children[level.node]
        count = trie.children[level.node + 1] - first
        if level.node[0] >= len(trie.child):
            return Children(*expand(first, count))
        by_byte = (level.node < len(trie.child)) & (level.base_state != BEYOND)
        listed = by_byte & (level.base_state == NO_BASE) & self._listed[level.state]
        all_of, some_of, known_of = (which.nonzero()[0] for which in (~by_byte, by_byte & ~listed, listed))
        begin = self._first_read[state := level.state[known_of]]
        read, known = expand(begin, self._first_read[state + 1] - begin)
        owner, byte = known_of[known], self._read[read]
        if len(some_of):
            which, symbol = self._moves(level.state[some_of], level.base_state[some_of])
            place, move = self._bytes_of(symbol)
            owner = np.concatenate([owner, some_of[which[move]]])
            byte = np.concatenate([byte, self._bytes[place]])
        child = trie.child[level.node[owner], byte]
        exists = child.nonzero()[0]
        more, owners = expand(first[all_of], count[all_of])
        return Children(np.concatenate([child[exists], more]), np.concatenate([owner[exists], all_of[owners]]))

    def _bytes_of(self, symbol: Ints) -> tuple[Ints, Ints]:
        """Return the places in `_bytes` of the bytes of some classes, and the place of the class of each."""
        first = self._first_byte[symbol]
        return expand(first, self._first_byte[symbol + 1] - first)

    def _moves(self, states: Ints, base_state: Ints) -> tuple[Ints, Ints]:
        """Return the bytes with which states do something else than their base states: places of states, and classes of bytes.

        For a state without a base state, these are all bytes that it reads, because `NO_BASE` is the dead state.
        """
        step = self.dfa.step
        goes_on = np.empty((len(states), step.shape[1]), bool)
        for begin in range(0, len(states), ROWS_AT_ONCE):
            some = slice(begin, begin + ROWS_AT_ONCE)
            np.not_equal(step[states[some]], step[base_state[some]], out=goes_on[some])
        # In one dimension, numpy finds them several times faster.
        return np.divmod(goes_on.ravel().nonzero()[0], step.shape[1])

    def _stepped(self, trie: Trie, before: Frontier, children: Children, popped: list[Popped]) -> Frontier:
        """Return the prefixes with one more byte, without those that do the same as their base states."""
        dfa = self.dfa
        self.limits.spend(LEVEL_STEPS + len(children.node) // PREFIXES_A_STEP)
        symbol = dfa.byte_class[trie.byte[children.node]]
        state = before.state.take(children.owner)
        does = dfa.step[state, symbol]
        base_state = before.base_state.take(children.owner)
        kept = (does | base_state).nonzero()[0]
        if base_state.any():
            kept = kept[self._compared(base_state, kept, symbol, does)]
        found = Frontier(before.columns.take(children.owner[kept], axis=1), children.node[kept])
        found.state[:], found.base_state[:] = does[kept], base_state[kept]
        if self.counted is not None:
            found.count[:], fits = self.counted.stepped(state[kept], symbol[kept], found.state, found.count)
            found.state[~fits] = DEAD
        nests = (~NestedStep.is_state(found.state)).nonzero()[0]
        if len(nests):
            self._nest(found, nests, popped)
        return found

    def _compared(self, base_state: Ints, kept: Ints, symbol: Ints, does: Ints) -> NDArray[np.bool_]:
        """Step base states by one byte, in place; return which of the kept prefixes do not do the same as theirs."""
        other = np.ones(len(kept), bool)
        at = (base_state[kept] > 0).nonzero()[0]
        mine = kept[at]
        leads = self.dfa.step[base_state[mine], symbol[mine]]
        within = NestedStep.is_state(leads)
        within[within] = self.inside[leads[within]]
        base_state[mine] = np.where(leads == DEAD, NO_BASE, np.where(within, leads, BEYOND))
        other[at] = leads != does[mine]
        return other

    def _nest(self, level: Frontier, which: Ints, popped: list[Popped]) -> None:
        """Open and close the brackets of some prefixes, in place, and what ends at once with them."""
        while len(which):
            does = level.state[which]
            opens, number = NestedStep.is_call(does), NestedStep.number(does)
            if opens.any():
                self._open(level, which[opens], number[opens])
            if not opens.all():
                self._close(level, which[~opens], number[~opens], popped)
            which = which[self._returns[level.state[which]] >= 0]
            level.state[which] = NestedStep.end(self._returns[level.state[which]])

    def _open(self, level: Frontier, which: Ints, calls: Ints) -> None:
        """Push the frames of calls, in place."""
        level.stack[which], heights = self.stacks.pushed(level.stack[which], self.dfa.frame[calls])
        level.height[which] = np.maximum(level.height[which], heights)
        level.state[which] = self.dfa.entry[calls]

    def _close(self, level: Frontier, which: Ints, ends: Ints, popped: list[Popped]) -> None:
        """Pop a frame of each prefix, in place. Where it has pushed none itself, its walk is over."""
        own = level.stack[which] != EMPTY
        over = which[~own]
        popped.append(Popped(level.source[over], level.node[over], ends[~own], level.height[over]))
        level.state[over] = DEAD
        level.base_state[over] = NO_BASE
        at = which[own]
        level.stack[at], frames = self.stacks.popped(level.stack[at])
        level.state[at] = self.dfa.return_state[ends[own], np.array(frames, np.int64)]

    def _found(self, trie: Trie, met: Frontier, lost: list[Frontier]) -> Found:
        """Return the actions of texts.

        Args:
            trie: The texts.
            met: The prefixes that are texts.
            lost: Dead prefixes whose base states might be alive, so that all texts that continue them are listed as dead.
        """
        place, owner = expand(trie.first[met.node], trie.own[met.node])
        found = [Found(met.source.astype(np.int64)[owner], trie.tokens[place], self._actions(met)[owner])]
        for prefixes in lost:
            place, owner = expand(trie.first[prefixes.node], trie.below[prefixes.node])
            found.append(Found(prefixes.source[owner], trie.tokens[place], np.full(len(place), DEAD)))
        return Found.joined(found)

    def _actions(self, met: Frontier) -> Ints:
        """Return the action of each prefix. Most only lead to a state."""
        action = met.state.astype(np.int64)
        changed = np.flatnonzero(met.stack | met.height | met.count)
        if len(changed):
            columns = [column[changed] for column in (met.state, met.stack, met.height, met.count)]
            example, which = distinct_rows(columns)
            rows = zip(*(column[example].tolist() for column in columns), strict=True)
            action[changed] = np.array([self._action(*row) for row in rows], np.int64)[which]
        return action

    def _action(self, state: int, stack: int, height: int, count: int) -> int:
        pushed = self.stacks.frames(stack)
        if len(pushed) > MOST_PUSHED:
            return DEAD
        return self.actions.number(StackAction(state, pushed, 0, height, added=count))
