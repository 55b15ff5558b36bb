"""Keywords about objects."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from logitkit.errors import UnsupportedSchema
from logitkit.json_schema import checked
from logitkit.json_schema.conjunction import ANYTHING, NOTHING, Conjunction, both
from logitkit.json_schema.objects import MOST_PIECES, Count, Objects, Piece, Site, pieces_of
from logitkit.json_schema.references import Here, Place
from logitkit.json_schema.string_set import StringSet
from logitkit.json_schema.values import Values, common

if TYPE_CHECKING:
    from logitkit.json_schema.reader import Reader


def _those(reader: Reader, *objects: Objects) -> Values:
    """Return some objects, and all values of other types."""
    every, left = reader.everything, tuple([some for some in objects if not some.is_empty])
    return Values(every.null, every.booleans, every.numbers, every.strings, left, every.arrays)


def members(reader: Reader, here: Here) -> Values:
    """Return the objects whose members satisfy `properties`, `patternProperties` and `additionalProperties`."""
    limits = reader.limits
    matched: list[tuple[StringSet, Conjunction]] = []
    if reader.has(here.place, "patternProperties"):
        with reader.blaming(here.place, "patternProperties"):
            declared = len(checked.named(here.place, "properties")) if "properties" in here.place.value else 0
            for pattern in checked.named(here.place, "patternProperties"):
                inside = reader.conjunction(reader.inside(here.place, "patternProperties", pattern))
                names = StringSet.matching(pattern, limits)
                names.expand()
                matched.append((names, inside))
                reader.work.add(declared)
    properties: dict[str, Conjunction] = {}
    if reader.has(here.place, "properties"):
        reader.work.add(len(checked.named(here.place, "properties")))
        for name in checked.named(here.place, "properties"):
            found = reader.conjunction(reader.inside(here.place, "properties", name))
            for names, value in matched:
                found = both(found, value) if names.contains(name) else found
            properties[name] = found
    others = ANYTHING
    # Where patterns or names are left out, it is not known which names are additional.
    told = [keyword for keyword in ("properties", "patternProperties") if keyword in here.place.value]
    closed = all(reader.has(here.place, keyword) for keyword in told) and reader.has(here.place, "additionalProperties")
    if closed:
        others = reader.conjunction(reader.inside(here.place, "additionalProperties"))
    evaluated = None
    if here.track:
        evaluated = reader.everything.strings
        if not closed:
            evaluated = StringSet.of_values(list(properties), limits)
            for names, _ in matched:
                evaluated |= names
    with reader.blaming(here.place, "patternProperties"):
        pieces = _pieces(reader, matched, others)
    return _those(reader, Objects(properties, pieces, order=tuple(properties), evaluated=evaluated))


def _pieces(reader: Reader, matched: list[tuple[StringSet, Conjunction]], others: Conjunction) -> tuple[Piece, ...]:
    """Tell names apart by the patterns that they match."""
    if not matched and others == ANYTHING:
        return ()
    free = reader.everything.strings
    told: list[Piece] = []
    for names, value in matched:
        inside = [Piece(piece.names & names, both(piece.value, value)) for piece in told]
        outside = [Piece(piece.names - names, piece.value) for piece in told]
        told = [*inside, *outside, Piece(free & names, value)]
        told = [piece for piece in told if not piece.names.is_empty]
        free -= names
        if len(told) > MOST_PIECES:
            raise UnsupportedSchema(f"the patterns divide names into more than {MOST_PIECES} sets; use fewer patterns")
    return tuple(told) if free.is_empty else (*told, Piece(free, others))


def property_names(reader: Reader, here: Here) -> Values:
    """Return the objects whose names satisfy a schema."""
    place = reader.followed(reader.inside(here.place, here.keyword))
    allowed = reader.read(place)
    if not allowed.is_exact:
        reader.doubt()
    names = allowed.strings
    names.expand()
    given = place.value.get("enum") if isinstance(place.value, dict) else None
    order = tuple([name for name in given if isinstance(name, str)]) if isinstance(given, list) else ()
    return _those(reader, Objects(pieces=pieces_of(names, ANYTHING, NOTHING), possible_names=order))


def required(reader: Reader, here: Here) -> Values:
    """Return the objects that have some names."""
    if isinstance(here.place.value[here.keyword], bool):
        # Of draft 3, where it stood in the schema of the member.
        raise checked.wrong(here.place, here.keyword, "a list of strings")
    names = tuple(dict.fromkeys(checked.texts(here.place, here.keyword)))
    return _those(reader, Objects(required=names))


def size(reader: Reader, here: Here) -> Values:
    """Return the objects with a number of members within bounds."""
    bound = checked.count(here.place, here.keyword)
    least, most = (bound, None) if here.keyword == "minProperties" else (0, bound)
    return _those(reader, Objects(counts=(Count(None, least, most, Site(here.place.pointer, here.keyword)),)))


def dependencies(reader: Reader, here: Here) -> Values:
    """Return the objects that, where they have a name, also have others or satisfy a schema."""
    found = reader.everything
    needs: list[tuple[str, str]] = []
    for name, needed in checked.named(here.place, here.keyword).items():
        if isinstance(needed, list) and here.keyword != "dependentSchemas":
            if not all(isinstance(other, str) for other in needed):
                raise checked.wrong(here.place, here.keyword, "an object of lists of strings")
            needs += [(name, other) for other in needed if other != name]
            continue
        if here.keyword == "dependentRequired":
            raise checked.wrong(here.place, here.keyword, "an object of lists of strings")
        absent = _those(reader, Objects({name: NOTHING}))
        inside = reader.read(reader.inside(here.place, here.keyword, name), here.track)
        present = common((Objects(required=(name,)),), inside.objects, reader.work)
        then = replace(reader.everything, objects=present)
        found = found.intersection(absent.union(then, apart=here.track), reader.work)
    return found.intersection(_those(reader, Objects(needs=tuple(dict.fromkeys(needs)))), reader.work)


def unevaluated_properties(reader: Reader, place: Place, found: Values) -> Values:
    """Return the values of a set whose members that no keyword has looked at satisfy a schema."""
    value = reader.conjunction(reader.inside(place, "unevaluatedProperties"))
    every = reader.everything.strings

    def closed(objects: Objects) -> Objects:
        evaluated = objects.evaluated
        names = every if evaluated is None else ~evaluated
        joined = objects & Objects(pieces=pieces_of(names, value, ANYTHING))
        return replace(joined, evaluated=every)

    changed = found.with_objects(closed)
    return replace(changed, objects=tuple([some for some in changed.objects if not some.is_empty]))
