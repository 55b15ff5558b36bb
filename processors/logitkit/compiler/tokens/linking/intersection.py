"""The intersection of two automata over tokens: the sequences of tokens that both allow.

A state of the result, the *product*, is a pair of states. If one or both states fall back, the pair falls back to the pair of the
states that they fall back to: a class that neither state lists does what it does there. So a ban together with a pattern stays as
small as the ban alone. Only the last pair of a chain lists all classes.

By hand, for `[ab]*` and `a*c?` with the tokens `a`, `b` and `c`: the start is the pair of both starts. `a` is legal in both,
and leads to this pair again. `b` is illegal in the second automaton and `c` in the first one, so the product allows `a*`.

Invariants: a pair is the number `a * states of b + b`. The product has no dead ends, which the two masks together would have.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from logitkit.budget import took
from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE
from logitkit.compiler.bytes.transition_columns import Ints, TransitionColumns, merge, starts
from logitkit.compiler.tokens.completion.dead_ends import without_dead_ends
from logitkit.compiler.tokens.effects.common_classes import Side, common_classes
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton, commonest_end, complete_with
from logitkit.limits import Limits

# This many ids of the vocabulary take as long as one other step.
IDS_A_STEP = 4
# The cost of a round, which follows all pairs of one distance from the start; and how many known pairs are compared in one step.
ROUND_STEPS, PAIRS_A_STEP = 2000, 16


def intersect(a: TokenAutomaton, b: TokenAutomaton, limits: Limits) -> TokenAutomaton | None:
    """Build the product of two automata over one vocabulary.

    Args:
        a: One automaton.
        b: The other, with the same EOS and pad ids.
        limits: Bounds on the product.

    Returns:
        The automaton, or None if no sequence of tokens is allowed by both.

    Raises:
        PatternTooLarge: A limit is exceeded.
    """
    # A pair of states has no stacks, so the product would allow texts that neither automaton allows.
    assert not a.has_stacks
    assert not b.has_stacks
    class_of, side_a, side_b = common_classes(a, b)
    product = _Product(side_a, side_b, limits)
    start = a.start * b.states + b.start
    known = np.zeros(0, np.int64)
    fresh = np.array([start])
    moves = []
    while len(fresh):
        known = np.union1d(known, fresh)
        product.count(ROUND_STEPS + len(known) // PAIRS_A_STEP)
        moves.append(product.moves(fresh))
        reached = moves[-1].target
        fresh = np.setdiff1d(np.concatenate([reached[reached != DEAD], product.below(fresh)]), known)
    took(product.work + len(class_of) // IDS_A_STEP)
    number = _Numbers(known)
    states = FIRST_STATE + len(known)
    source, target = (number.of(np.concatenate([getattr(m, side) for m in moves])) for side in ("source", "target"))
    symbol = np.concatenate([m.symbol for m in moves])
    order = np.argsort(symbol * np.int64(states) + source)
    transitions = TransitionColumns(
        np.zeros(side_a.classes, np.int64),
        starts(np.bincount(symbol, minlength=side_a.classes)),
        source[order],
        target[order],
    )
    both: dict[int, NDArray[np.bool_]] = {}
    ends_of_b = b.ends
    for end, legal in a.ends.items():
        both[end] = np.zeros(states, bool)
        both[end][FIRST_STATE:] = legal[known // b.states] & ends_of_b[end][known % b.states]
    accepting, ends = commonest_end(both)
    fallback = None
    if a.fallback is not None or b.fallback is not None:
        fallback = np.arange(states)
        fallback[FIRST_STATE:] = number.of(product.below(known))
    transitions, alive = without_dead_ends(transitions, complete_with(accepting, ends, a.eos_ids), fallback)
    first = int(number.of(np.array([start]))[0])
    if not alive[first]:
        return None
    transitions, merged = merge(transitions)
    return TokenAutomaton.of(merged[class_of], transitions, accepting, first, a.eos_ids, a.pad_id, fallback, ends)


@dataclass(frozen=True, eq=False, slots=True)
class _Moves:
    """The moves that some pairs list: [N] the pair, the class, and the pair after it or `DEAD`."""

    source: Ints
    symbol: Ints
    target: Ints


class _Product:
    """The pairs of states, as numbers. `DEAD` is not a pair."""

    def __init__(self, a: Side, b: Side, limits: Limits) -> None:
        self.a, self.b, self.limits = a, b, limits
        self.base = b.automaton.states
        self.last = 0
        self.work = 0

    def below(self, pairs: Ints) -> Ints:
        """Return the pairs that some pairs fall back to, themselves at the end of a chain."""
        below: Ints = self.a.below[pairs // self.base] * self.base + self.b.below[pairs % self.base]
        return below

    def moves(self, pairs: Ints) -> _Moves:
        """Return the moves of some pairs. The last pair of a chain lists all legal classes, others what either state lists."""
        last = self.below(pairs) == pairs
        self.last += int(last.sum())
        self.limits.check_states(self.last)
        # A pair that falls back is small, so it does not count as a state.
        self.count(len(pairs) + int(last.sum()) * self.a.classes // 4)
        parts = [self._all(pairs[last]), self._listed(pairs[~last])]
        return _Moves(*(np.concatenate([getattr(p, name) for p in parts]) for name in ("source", "symbol", "target")))

    def count(self, steps: int) -> None:
        self.work += steps
        self.limits.check_work(self.work)

    def _all(self, pairs: Ints) -> _Moves:
        in_a, in_b = self.a.rows(pairs // self.base), self.b.rows(pairs % self.base)
        which, symbol = np.nonzero((in_a >= FIRST_STATE) & (in_b >= FIRST_STATE))
        return _Moves(pairs[which], symbol, in_a[which, symbol].astype(np.int64) * self.base + in_b[which, symbol])

    def _listed(self, pairs: Ints) -> _Moves:
        x, y = pairs // self.base, pairs % self.base
        (by_a, target_a), (by_b, target_b) = self._by_side(self.a, x), self._by_side(self.b, y)
        self.count(len(by_a) + len(by_b))
        # Look up each class that one state lists in the other state too. A state that does not fall back lists nothing here.
        listed = np.concatenate([by_a, by_b])
        which, symbol = listed // self.a.classes, listed % self.a.classes
        from_a, from_b = slice(0, len(by_a)), slice(len(by_a), None)
        beside_a, beside_b = (
            self.b.targets(y[which[from_a]], symbol[from_a]),
            self.a.targets(x[which[from_b]], symbol[from_b]),
        )
        in_a, in_b = np.concatenate([target_a, beside_b]), np.concatenate([beside_a, target_b])
        live = (in_a >= FIRST_STATE) & (in_b >= FIRST_STATE)
        target = np.where(live, in_a * self.base + in_b, DEAD)
        # If the other state does not fall back and the class is dead there, it is dead in the pair below too, and not listed.
        falls = np.concatenate([self.b.falls(y)[which[from_a]], self.a.falls(x)[which[from_b]]])
        kept = falls | (np.concatenate([beside_a, beside_b]) >= FIRST_STATE)
        listed, which, symbol, target = listed[kept], which[kept], symbol[kept], target[kept]
        if len(by_a) and len(by_b):
            listed, once = np.unique(listed, return_index=True)
            which, symbol, target = which[once], symbol[once], target[once]
        return _Moves(pairs[which], symbol, target)

    def _by_side(self, side: Side, states: Ints) -> tuple[Ints, Ints]:
        """Return what the states of one side list, as `index * classes + class`, and the targets on this side.

        States that do not fall back are left out: the pair below has the same state, and does the same with their entries.
        """
        falling = np.flatnonzero(side.falls(states))
        owner, symbol, target = side.listed(states[falling])
        return falling[owner] * np.int64(side.classes) + symbol, target


@dataclass(frozen=True, eq=False, slots=True)
class _Numbers:
    """Consecutive numbers for the pairs that were met, from `FIRST_STATE` on."""

    pairs: NDArray[np.int64]

    def of(self, pairs: Ints) -> Ints:
        """Return the number of each pair; `DEAD` stays what it is."""
        number: Ints = np.where(pairs == DEAD, DEAD, FIRST_STATE + np.searchsorted(self.pairs, pairs))
        return number
