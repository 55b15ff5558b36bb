"""What prefixes of tokens do in a leaf: the stores with which the classes of its tokens are found.

A target is a state of the leaf; or an end, with the number of bytes behind it; and, of a leaf that counts, how many characters
were begun on the way. These are numbered in a row: first the states, then that before the quote, then the states behind one
character, those behind two, and so on; and from `first_end` on the ends, each with a number for each number of bytes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.behaviours import Behaviours, Ints, Moves, starts
from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE, ByteDfa
from logitkit.compiler.bytes.leaf import Leaf
from logitkit.compiler.bytes.nested_step import NestedStep
from logitkit.compiler.tokens.behaviour_store import FEW, BehaviourStore
from logitkit.limits import Limits
from logitkit.vocabulary.ranges import expand

__all__ = ["CountingStore", "leaf_store", "reached"]


class CountingStore(BehaviourStore):
    """The store of a leaf that counts, whose states are not listed once for each count: they are worked out.

    Args:
        leaf: The leaf.
        step: [S + 1, K] its moves, and those of the state before the quote.
        chain: The number of states behind each end.
        copies: More characters than a token has.
        limits: Bound on the work.
    """

    def __init__(self, leaf: Leaf, step: Ints, chain: int, copies: int, limits: Limits) -> None:
        assert leaf.counted is not None
        between, states, marks = leaf.counted.between, leaf.states, len(leaf.marks)
        first_end = 1 + states * copies
        # Of each target: its row in the tables of moves, the characters before it, and where it goes if it is an end.
        state, count = reached(np.arange(first_end), states)
        self._row = np.append(state, np.zeros(copies * marks * chain, np.int64)) * step.shape[1]
        self._count = np.append(count, np.zeros(copies * marks * chain, np.int64))
        self._after_end = np.arange(1, 1 + len(self._row))
        self._after_end[:first_end] = DEAD
        self._after_end[first_end + chain - 1 :: chain] = DEAD
        # Of each move: the target without characters before it, how far it is from there to the next count, and whether the first
        # count takes one more, as those without characters have a number more.
        inner, ends = NestedStep.is_state(step) & (step != DEAD), NestedStep.is_end(step)
        begins = inner & (np.arange(len(step)) < between)[:, None]
        leads = np.where(ends, first_end + NestedStep.number(step.astype(np.int64)) * chain, step)
        self._leads = np.where(begins, 1 + states + leads, leads).ravel()
        self._further = np.where(inner, states, np.where(ends, marks * chain, 0)).ravel()
        self._once = (inner & ~begins).ravel()
        sources = np.arange(len(step))
        moves = np.stack([self._after(sources, symbol) for symbol in range(step.shape[1])])
        super().__init__(Moves(moves.astype(np.int32), None, FIRST_STATE), limits, moves.size, len(sources))

    def then_byte(self, which: Ints, symbol: Ints) -> Ints:
        """Return the numbers of the behaviours `which`, each followed by a byte of the class `symbol`."""
        if len(which) <= FEW:
            return np.array(self._one_by_one(which, symbol))
        table = self.table
        place, owner = expand(table.start[which], table.start[which + 1] - table.start[which])
        target = self._after(table.target[place].astype(np.int64), symbol[owner])
        live = np.flatnonzero(target != DEAD)
        count = np.bincount(owner[live], minlength=len(which))
        default = np.full(len(which), DEAD, np.int32)
        return self._add(Behaviours(default, starts(count), table.source[place[live]], target[live].astype(np.int32)))

    def _stepped(self, target: Ints, symbol: int) -> Ints:
        return self._after(target, symbol).astype(target.dtype)

    def _after(self, target: Ints, symbol: Ints | int) -> Ints:
        """Return where one byte leads from each target."""
        move, count = self._row.take(target) + symbol, self._count.take(target)
        found: Ints = self._leads.take(move) + self._further.take(move) * count
        found += self._once.take(move) & (count > 0)
        found += self._after_end.take(target)
        return found


def leaf_store(
    step: NDArray[np.int32], byte_class: NDArray[np.int64], marks: int, chain: int, limits: Limits
) -> BehaviourStore:
    """Return the store of a leaf that does not count.

    Args:
        step: [S + 1, K] its moves, and those of the state before the quote.
        byte_class: [256] the class of each byte.
        marks: The number of its ends.
        chain: The number of states behind each end.
        limits: Bound on the work.
    """
    sources = len(step)
    whole = np.zeros((sources + marks * chain, step.shape[1]), np.int32)
    # An end is the first state of its chain.
    whole[:sources] = np.where(NestedStep.is_end(step), sources + NestedStep.number(step) * chain, step)
    for first in range(sources, len(whole), chain):
        whole[first : first + chain - 1] = np.arange(first + 1, first + chain)[:, None]
    work = whole.size // 4
    limits.check_work(2 * work)
    moves = Moves.of(ByteDfa(whole, byte_class, np.zeros(len(whole), bool), FIRST_STATE))
    return BehaviourStore(moves, limits, work, sources)


def reached(target: Ints, states: int) -> tuple[Ints, Ints]:
    """Return the states that targets before the first end stand for, and how many characters begin on the way there.

    Args:
        target: The targets.
        states: The number of states of the leaf.
    """
    count, state = np.divmod(target - 1, states)
    first = target <= states
    return np.where(first, target, state), np.where(first, 0, count)
