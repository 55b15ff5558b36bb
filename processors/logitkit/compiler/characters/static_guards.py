r"""Guards that look at one character need no lookahead: whether they hold is known from the two characters beside them.

Word boundaries, anchors and lookarounds of one character are such guards. Positions are split until each reads only
characters that no guard tells apart; then every move either has its guard fulfilled or does not exist, and what is left is
a plain position automaton.
"""

from __future__ import annotations

from typing import NamedTuple

from logitkit.budget import took
from logitkit.compiler.characters.alphabet import Alphabet
from logitkit.compiler.characters.guarded import Guard, Guarded
from logitkit.compiler.characters.positions import Positions
from logitkit.compiler.characters.symbols import split
from logitkit.limits import Limits
from logitkit.patterns.charset import ANY, CharSet
from logitkit.patterns.syntax import Characters, Concat, Look, Node


class Place(NamedTuple):
    """A position that has read a character of one block, or of several if nothing after it depends on which.

    `last` if the text must end after it.
    """

    position: int
    block: int
    last: bool


# Before the first character, and after the last one.
NOTHING = 0


def without_guards(guarded: Guarded, alphabet: Alphabet, limits: Limits) -> tuple[Positions, list[int]] | None:
    """Write the pattern's automaton without guards, if all of them look at one character.

    Args:
        guarded: The automata; the pattern's is the last.
        alphabet: Their alphabet.
        limits: Bounds on the positions and the moves between them.

    Returns:
        The plain position automaton and the symbols that each position reads, or None if a guard looks further.

    Raises:
        PatternTooLarge: There are too many positions, or too many moves between them.
    """
    guards = _Guards(guarded, alphabet)
    if not guards.look_at_one_character():
        return None
    start = Place(guarded.start[-1], NOTHING, False)
    number = {start: 0}
    places = [start]
    follow: list[tuple[int, ...]] = []
    masks: list[int] = [0]
    work = 0
    try:
        while len(follow) < len(places):
            place = places[len(follow)]
            after = []
            # Each condition of each move is looked at for each block.
            work += 2 * len(guards.blocks) * sum(len(guard) + 1 for _, guard in guarded.follow[place.position])
            limits.check_work(work)
            moves = guards.moves(place)
            work += 11 * len(moves)
            for target, mask in moves:
                found = number.setdefault(target, len(places))
                if found == len(places):
                    limits.check_states(found)
                    places.append(target)
                    masks.append(mask)
                after.append(found)
            follow.append(tuple(sorted(set(after))))
    finally:
        took(work)
    final = [guards.may_end(place) for place in places]
    return Positions([], follow, follow[0], final, final[0]), masks


class _Guards:
    def __init__(self, guarded: Guarded, alphabet: Alphabet) -> None:
        self.guarded = guarded
        self.mask = [alphabet.members[c] for c in guarded.charsets]
        used = {g for moves in guarded.follow for _, guard in moves for g in guard}
        used |= {g for ends in guarded.final[-1].values() for guard in ends for g in guard}
        self.bodies = {g: guarded.bodies[guarded.conditions[g].automaton] for g in used}
        self.body_mask = {g: alphabet.members[_first_set(body)] for g, body in self.bodies.items() if _one(body)}
        everything = ((1 << alphabet.size) - 1) & ~1
        told_apart = tuple(sorted({everything, *self.body_mask.values()} - {0}))
        self.blocks = [block for block, _ in split(told_apart)] if told_apart else []
        behind = {g for g in used if guarded.conditions[g].behind}
        ends = guarded.final[-1]
        # Whether what may follow a position depends on the character that it has read.
        self.looked_back_at = [
            any(not behind.isdisjoint(guard) for _, guard in moves)
            or any(not behind.isdisjoint(guard) for guard in ends.get(position, ()))
            for position, moves in enumerate(guarded.follow)
        ]

    def look_at_one_character(self) -> bool:
        """Whether all guards do, or ask for a newline that ends the text."""
        return all(
            isinstance(body, Characters)
            or (
                _is_final_newline(body)
                and not self.guarded.conditions[g].behind
                and not self.guarded.conditions[g].negative
            )
            for g, body in self.bodies.items()
        )

    def moves(self, place: Place) -> list[tuple[Place, int]]:
        """Return the places that may follow one, and the symbols that each reads."""
        if place.last:
            return []
        found: list[tuple[Place, int]] = []
        for target, guard in self.guarded.follow[place.position]:
            blocks = [b for b in self.blocks if self.mask[target] & b and self.holds(guard, place.block, b)]
            if len(blocks) > 1 and not self.looked_back_at[target]:
                blocks = [sum(blocks)]
            last = any(_is_final_newline(self.bodies[g]) for g in guard)
            found.extend((Place(target, block, last), self.mask[target] & block) for block in blocks)
        return found

    def may_end(self, place: Place) -> bool:
        """Whether the text may end after a place."""
        return any(self.holds(guard, place.block, NOTHING) for guard in self.guarded.final[-1].get(place.position, ()))

    def holds(self, guard: Guard, before: int, behind: int) -> bool:
        """Whether a guard holds between characters of two blocks."""
        for g in guard:
            _, looks_behind, negative = self.guarded.conditions[g]
            if bool(self.body_mask[g] & (before if looks_behind else behind)) == negative:
                return False
        return True


def _one(body: Node) -> bool:
    return isinstance(body, Characters) or _is_final_newline(body)


def _first_set(body: Node) -> CharSet:
    match body:
        case Characters(charset) | Concat((Characters(charset), *_)):
            return charset
        case _:
            raise AssertionError("the body of a guard that looks further")


def _is_final_newline(body: Node) -> bool:
    r"""Whether a lookahead's body is a character after which the text ends, as in `(?=\n\Z)`."""
    match body:
        case Concat((Characters(), Look(Characters(charset), False, True))):
            return charset == ANY
        case _:
            return False
