"""The position automaton of a tree with lookarounds: moves between positions are guarded by conditions.

The body of each lookaround is an automaton of its own over the same positions. A *guard* is a set of lookarounds that must all
hold at the place between two characters.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from logitkit.budget import took
from logitkit.compiler.characters.factoring import factor
from logitkit.limits import Limits
from logitkit.patterns.charset import CharSet
from logitkit.patterns.syntax import Alternate, Characters, Concat, Empty, Look, Machine, Node, Repeat

Guard: TypeAlias = frozenset[int]
FREE: Guard = frozenset()
MOST_GUARDS = 64
# The cost of looking at one guard of a move, in steps.
GUARD_STEPS = 8


class Condition(NamedTuple):
    """A lookaround: the automaton of its body, where it looks, and whether it must not match."""

    automaton: int
    behind: bool
    negative: bool


@dataclass(eq=False, slots=True)
class Guarded:
    """Automata over shared positions. Position `start[a]` reads nothing: automaton `a` begins there.

    Args:
        charsets: The characters that each position reads (the empty set for starts).
        follow: The positions that may come after each, with their guards.
        final: For each automaton, the positions after which its text may end, with the guards.
        start: Start position of each automaton; the pattern itself is the last one.
        conditions: The lookarounds, by the numbers that guards hold.
        bodies: The tree of each automaton.
    """

    charsets: list[CharSet] = field(default_factory=list)
    follow: list[list[tuple[int, Guard]]] = field(default_factory=list)
    final: list[dict[int, list[Guard]]] = field(default_factory=list)
    start: list[int] = field(default_factory=list)
    conditions: list[Condition] = field(default_factory=list)
    bodies: list[Node] = field(default_factory=list)


class Part(NamedTuple):
    """The facts of one part that the rest of the pattern needs; `nullable` has the guards under which it may be empty."""

    nullable: tuple[Guard, ...]
    first: tuple[tuple[int, Guard], ...]
    last: tuple[tuple[int, Guard], ...]


EMPTY = Part((FREE,), (), ())


def guarded_positions(tree: Node, limits: Limits) -> Guarded:
    """Build the automata of a tree without anchors and atomic groups.

    Raises:
        PatternTooLarge: There are more positions than the limit of states, or too many guards.
    """
    builder = _Builder(limits)
    try:
        builder.automaton(tree)
    finally:
        took(GUARD_STEPS * builder.work)
    return builder.made


class _Builder:
    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.made = Guarded()
        self.known: dict[tuple[Node, bool], int] = {}
        self.numbers: dict[Condition, int] = {}
        self.work = 0

    def position(self, charset: CharSet) -> int:
        self.made.charsets.append(charset)
        self.made.follow.append([])
        self.limits.check_states(len(self.made.charsets))
        return len(self.made.charsets) - 1

    def automaton(self, tree: Node) -> int:
        """Build the automaton of a lookaround's body, or of the pattern."""
        part = self.part(tree)
        start = self.position(CharSet())
        self.made.follow[start].extend(part.first)
        final: dict[int, list[Guard]] = {start: list(part.nullable)} if part.nullable else {}
        for position, guard in part.last:
            final.setdefault(position, []).append(guard)
        self.made.start.append(start)
        self.made.bodies.append(tree)
        self.made.final.append(final)
        return len(self.made.start) - 1

    def part(self, tree: Node) -> Part:
        match tree:
            case Empty():
                return EMPTY
            case Characters(charset):
                position = self.position(charset)
                return Part((), ((position, FREE),), ((position, FREE),))
            case Concat(parts):
                return self.concat(self.part(p) for p in parts)
            case Alternate(options):
                made = [self.part(option) for option in factor(options)]
                return Part(
                    self.smallest(g for p in made for g in p.nullable),
                    tuple(f for p in made for f in p.first),
                    tuple(e for p in made for e in p.last),
                )
            case Repeat(node, minimum, maximum):
                return self.repeat(node, minimum, maximum)
            case Look():
                return Part((frozenset([self.condition(tree)]),), (), ())
            case Machine():
                return self.machine(tree)
            case _:
                raise AssertionError(f"{type(tree).__name__} has been written out before")

    def machine(self, machine: Machine) -> Part:
        """Make each move of an automaton a position."""
        reading = [[(self.position(charset), FREE) for charset, _ in row] for row in machine.moves]
        last: list[tuple[int, Guard]] = []
        for positions, row in zip(reading, machine.moves, strict=True):
            for (position, _), (_, target) in zip(positions, row, strict=True):
                self.charge(len(reading[target]))
                self.made.follow[position].extend(reading[target])
                if machine.accepting[target]:
                    last.append((position, FREE))
        return Part((FREE,) if machine.accepting[0] else (), tuple(reading[0]), tuple(last))

    def condition(self, look: Look) -> int:
        # Lookarounds of one body share an automaton, and equal ones a number.
        key = (look.node, look.behind)
        if key not in self.known:
            self.known[key] = self.automaton(look.node)
        found = Condition(self.known[key], look.behind, look.negative)
        number = self.numbers.setdefault(found, len(self.made.conditions))
        if number == len(self.made.conditions):
            self.made.conditions.append(found)
        return number

    def join(self, last: tuple[tuple[int, Guard], ...], first: tuple[tuple[int, Guard], ...]) -> None:
        self.charge(len(last) * len(first))
        for position, leaving in last:
            self.made.follow[position].extend((q, leaving | entering) for q, entering in first)

    def charge(self, steps: int) -> None:
        self.work += steps
        self.limits.check_work(GUARD_STEPS * self.work)

    def weakest(self, ends: Iterable[tuple[int, Guard]]) -> tuple[tuple[int, Guard], ...]:
        """Drop the ends of a part whose guard asks for more than another one of the same position does."""
        guards: dict[int, list[Guard]] = {}
        for position, guard in ends:
            guards.setdefault(position, []).append(guard)
        self.charge(sum(len(g) ** 2 for g in guards.values()))
        return tuple((p, g) for p, found in guards.items() for g in (self.smallest(found) if len(found) > 1 else found))

    def concat(self, parts: Iterable[Part]) -> Part:
        whole = EMPTY
        for part in parts:
            self.join(whole.last, part.first)
            whole = Part(
                self.smallest(a | b for a in whole.nullable for b in part.nullable),
                self.weakest(
                    (*whole.first, *((q, g | entering) for g in whole.nullable for q, entering in part.first))
                ),
                self.weakest((*part.last, *((p, leaving | g) for g in part.nullable for p, leaving in whole.last))),
            )
        return whole

    def repeat(self, node: Node, minimum: int, maximum: int | None) -> Part:
        if maximum == 0:
            return EMPTY
        copies = [self.part(node)]
        if FREE in copies[0].nullable:
            minimum = 0
        while len(copies) < minimum:
            copies.append(self.part(node))
        whole = self.concat(copies[:minimum])
        if maximum is None:
            last = copies[-1] if minimum <= 1 and not (minimum and copies[0].nullable) else self.part(node)
            self.join(last.last, last.first)
            if minimum and last is copies[-1]:
                return whole
            return self.concat([whole, Part((FREE,), last.first, last.last)])
        # Optional copies, each only after the one before it. None counts as empty: leaving it out says the same.
        spare = copies[minimum:]
        first: tuple[tuple[int, Guard], ...] = ()
        ends: list[tuple[int, Guard]] = []
        previous: Part | None = None
        for _ in range(maximum - minimum):
            body = spare.pop() if spare else self.part(node)
            if previous is None:
                first = body.first
            else:
                self.join(previous.last, body.first)
            ends.extend(body.last)
            previous = body
        return self.concat([whole, Part((FREE,), first, tuple(ends))])

    def smallest(self, guards: Iterable[Guard]) -> tuple[Guard, ...]:
        """Keep the guards that no other is part of."""
        kept: list[Guard] = []
        distinct = sorted(set(guards), key=len)
        self.charge(len(distinct) ** 2)
        for guard in distinct:
            if not any(k <= guard for k in kept):
                kept.append(guard)
        self.limits.check_work(len(kept) * self.limits.work // MOST_GUARDS)
        return tuple(kept)
