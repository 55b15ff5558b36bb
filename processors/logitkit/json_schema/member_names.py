"""The names that the members of an object may have: those that are listed, in their order, and sets of others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from logitkit.json_schema.conjunction import ANYTHING, NOTHING, Conjunction
from logitkit.json_schema.layout import is_unicode
from logitkit.json_schema.objects import Objects, Piece
from logitkit.json_schema.plan import Names
from logitkit.json_schema.string_set import StringSet, without

__all__ = ["cut_by_names", "few_names", "names_and_others", "names_in_order", "possible_names"]

# A set of at most this many names is listed name by name, so that none comes twice.
MOST_LISTED = 256


class _Others(NamedTuple):
    """Members of which any number may be there: their names, and what their values satisfy."""

    names: Names
    value: Conjunction


def names_in_order(objects: Objects, every: StringSet) -> list[str]:
    """Return the names of a set of objects that come first, in their order; `every` is the set of all names."""
    return names_and_others(objects, every)[0]


def few_names(objects: Objects, every: StringSet) -> list[str] | None:
    """Return all names that members of a set of objects may have, in their order; None if they are not few."""
    listed, others = names_and_others(objects, every)
    return None if others else possible_names(objects, listed)


def names_and_others(objects: Objects, every: StringSet) -> tuple[list[str], list[_Others]]:
    """Return the names that are listed, in their order, and the members that are not."""
    listed = _listed(objects)
    pieces = _pieces(objects.pieces or (Piece(every, ANYTHING),), listed)
    few = [None if piece.names.excluded else piece.names.strings.values(MOST_LISTED) for piece in pieces]
    listed = [*listed, *sorted(name for names in few for name in names or ())]
    return listed, [piece for piece, names in zip(pieces, few, strict=True) if names is None]


def possible_names(objects: Objects, listed: list[str]) -> list[str]:
    """Return the names that may be there at all, with all that they need."""
    possible = dict.fromkeys(n for n in listed if is_unicode(n) and objects.value_of(n) != NOTHING)
    left = list(objects.needs)
    while lacking := {name for name, needed in left if name in possible and needed not in possible}:
        for name in lacking:
            del possible[name]
    return list(possible)


def _listed(objects: Objects) -> list[str]:
    needing = [name for pair in objects.needs for name in pair]
    return list(
        dict.fromkeys((*objects.order, *objects.required, *needing, *objects.properties, *objects.possible_names))
    )


def _pieces(pieces: tuple[Piece, ...], listed: list[str]) -> list[_Others]:
    """Return the members that are not listed."""
    found = []
    for piece in pieces:
        if piece.value == NOTHING:
            continue
        # A finite part of an infinite set is left out by name, so that all objects share the automaton of the set.
        if piece.names.longest is None:
            excluded = tuple([name for name in listed if piece.names.contains(name)])
            found.append(_Others(Names(piece.names, excluded), piece.value))
        elif not (left := without(piece.names, listed)).is_empty:
            found.append(_Others(Names(left), piece.value))
    return found


def cut_by_names(pieces: list[_Others], sets: Iterable[StringSet | None]) -> list[tuple[_Others, tuple[bool, ...]]]:
    """Cut pieces so that all names of each are in the same sets of names; None: the set of all names."""
    told: list[tuple[_Others, tuple[bool, ...]]] = [(piece, ()) for piece in pieces]
    for names in sets:
        if names is None:
            told = [(piece, (*sides, True)) for piece, sides in told]
            continue
        told = [
            (part, (*sides, inside))
            for inside, operation in ((True, StringSet.__and__), (False, StringSet.__sub__))
            for piece, sides in told
            for part in _pieces((Piece(operation(piece.names.strings, names), piece.value),), [*piece.names.excluded])
        ]
    return told
