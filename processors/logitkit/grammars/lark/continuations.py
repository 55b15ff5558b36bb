r"""The texts that must not follow the end of a terminal, because a lexer would have gone on with them.

After `1`, the automaton of `/[0-9]+(\.[0-9]+)?/` goes on with a digit, or with a dot and a digit. So these must not follow, but a
dot and another character may: a lexer comes back to `1`, and reads `1..2` as a range.

Such texts are known if there are few of them. Where an automaton may read many texts before it accepts, the first character alone
must not follow: after the operator `/`, no `*` follows where `/* ... */` is a comment, whether the comment is closed or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from logitkit.budget import spend
from logitkit.limits import Limits
from logitkit.patterns.charset import CharSet
from logitkit.patterns.syntax import Characters, Machine, Node

__all__ = ["NOTHING", "Continuation", "Following"]

# A character must not follow at all if more moves than this lead from it to accepting states.
_MOST_MOVES = 16

# The costs of a move, and of comparing two continuations.
_MOVE_STEPS, _JOIN_STEPS = 4, 5


@dataclass(frozen=True, slots=True)
class Continuation:
    """Texts, none of which begins with another one.

    Args:
        now: Those of one character.
        later: Sets of characters, disjoint, each with what follows them in the longer texts.
    """

    now: CharSet
    later: tuple[tuple[CharSet, Continuation], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.now or self.later)

    @classmethod
    def of(cls, machine: Machine, state: int, exact: bool, limits: Limits) -> Continuation:
        """Return the shortest texts with which an automaton comes from a state to an accepting one.

        Args:
            machine: The automaton.
            state: The state.
            exact: Whether texts may have several characters. Otherwise, all that begin with the same character are forbidden.
            limits: Bound on the work.
        """
        if not exact:
            return cls(CharSet.union([charset for charset, _ in machine.moves[state]]))
        found = NOTHING
        for charset, target in machine.moves[state]:
            after = None if machine.accepting[target] else _Exact(machine, limits).after(target)
            found |= cls(charset) if after is None else cls(CharSet(), ((charset, after),))
        return found

    @classmethod
    def exactly(cls, machine: Machine, state: int, limits: Limits) -> Continuation | None:
        """Return the shortest texts with which an automaton comes from a state to an accepting one, if they are few.

        Returns:
            The texts, `NOTHING` if the state accepts, or None if there are many.
        """
        return NOTHING if machine.accepting[state] else _Exact(machine, limits).after(state)

    def __or__(self, other: Continuation) -> Continuation:
        if not self or not other:
            return self or other
        spend(_JOIN_STEPS * (2 + len(self.later)) * (2 + len(other.later)))
        now = self.now | other.now
        return Continuation(now, tuple(_joined(_without(self.later, now), _without(other.later, now))))

    def within(self, following: Following) -> Continuation:
        """Leave out what cannot follow anyway."""
        later: list[tuple[CharSet, Continuation]] = []
        for charset, after in self.later:
            reached = following.after(charset)
            kept = after if reached is None else after.within(reached)
            if kept:
                later.append((charset, kept))
        return Continuation(self.now if self.now & following.first else CharSet(), tuple(later))

    def node(self) -> Node:
        """Return the tree of the texts."""
        if not self.later:
            return Characters(self.now)
        # Each part once, the whole first; state 1 accepts.
        parts: dict[Continuation, int] = {self: 0}
        moves: list[tuple[tuple[CharSet, int], ...]] = []
        order = [self]
        for part in order:
            row = [(part.now, 1)] if part.now else []
            for charset, after in part.later:
                if after not in parts:
                    parts[after] = len(order) + 1
                    order.append(after)
                row.append((charset, parts[after]))
            moves.append(tuple(row))
        moves.insert(1, ())
        return Machine(tuple(moves), tuple([state == 1 for state in range(len(moves))]))


NOTHING = Continuation(CharSet())


class Following:
    """The characters that may follow.

    Args:
        places: Automata, each with the state that it is in.

    Attributes:
        first: The characters with which it may begin.
    """

    def __init__(self, places: Iterable[tuple[Machine, int]]) -> None:
        # Many automata move with the same characters.
        self._moves: dict[CharSet, dict[tuple[Machine, int], None]] = {}
        for machine, state in places:
            spend(_MOVE_STEPS * len(machine.moves[state]))
            for charset, target in machine.moves[state]:
                self._moves.setdefault(charset, {})[machine, target] = None
        self.first = CharSet.union(self._moves)
        self._after: dict[CharSet, Following | None] = {}

    def after(self, characters: CharSet) -> Following | None:
        """Return what may follow after one of some characters; None for anything, as after the end of an automaton."""
        if characters not in self._after:
            spend(sum([_MOVE_STEPS + len(charset.ranges) for charset in self._moves]))
            reached = [targets for charset, targets in self._moves.items() if charset & characters]
            places = {place: None for targets in reached for place in targets}
            is_open = any(machine.accepting[state] for machine, state in places)
            self._after[characters] = None if is_open else Following(places)
        return self._after[characters]


class _Exact:
    """Follows all texts of an automaton as far as it accepts, if they are few."""

    def __init__(self, machine: Machine, limits: Limits) -> None:
        self.machine, self.limits = machine, limits
        self.moves = 0

    def after(self, state: int) -> Continuation | None:
        """Return the shortest texts from a state to an accepting one, or None if they are many."""
        found = NOTHING
        self.limits.spend(_MOVE_STEPS * min(_MOST_MOVES, len(self.machine.moves[state])))
        for charset, target in self.machine.moves[state]:
            self.moves += 1
            if self.moves > _MOST_MOVES:
                return None
            if self.machine.accepting[target]:
                found |= Continuation(charset)
                continue
            after = self.after(target)
            if after is None:
                return None
            found |= Continuation(CharSet(), ((charset, after),))
        return found


def _without(later: Iterable[tuple[CharSet, Continuation]], characters: CharSet) -> list[tuple[CharSet, Continuation]]:
    return [(rest, after) for charset, after in later if (rest := charset - characters)]


def _joined(
    first: list[tuple[CharSet, Continuation]], second: list[tuple[CharSet, Continuation]]
) -> Iterator[tuple[CharSet, Continuation]]:
    """Yield what follows in either of two lists."""
    for charset, after in first:
        for other, other_after in second:
            if both := charset & other:
                yield both, after | other_after
        if alone := charset - CharSet.union([other for other, _ in second]):
            yield alone, after
    for other, other_after in second:
        if alone := other - CharSet.union([charset for charset, _ in first]):
            yield alone, other_after
