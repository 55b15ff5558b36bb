"""Keywords that put schemas together: references, `allOf`, `anyOf`, `oneOf`, `not`, `if`."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from logitkit.errors import UnsupportedSchema
from logitkit.json_schema import checked
from logitkit.json_schema.arrays import Arrays
from logitkit.json_schema.objects import Objects
from logitkit.json_schema.references import Here, Place
from logitkit.json_schema.values import Branch, Values

if TYPE_CHECKING:
    from logitkit.json_schema.reader import Reader

# So many schemas of an `anyOf` may hold at once where it matters which ones do.
MOST_HELD = 6


def reference(reader: Reader, here: Here) -> Values:
    """Return what the schema holds that is referred to."""
    return reader.read(
        reader.references.target(checked.text(here.place, here.keyword), here.place, here.keyword), here.track
    )


def dynamic_reference(reader: Reader, here: Here) -> Values:
    """Return what the schema holds that is referred to, if there is one only."""
    return reader.read(reader.references.dynamic_target(checked.text(here.place, here.keyword), here.place), here.track)


def recursive_reference(reader: Reader, here: Here) -> Values:
    """Return what the schema holds that is referred to, if there is one only."""
    if len(reader.references.resources) > 2:
        raise UnsupportedSchema("which schema it refers to depends on how one comes there; use '$ref'")
    return reference(reader, here)


def all_of(reader: Reader, here: Here) -> Values:
    """Return what all schemas hold."""
    found = reader.everything
    for index in range(len(checked.schemas(here.place, here.keyword))):
        found = found.intersection(reader.read(reader.inside(here.place, here.keyword, index), here.track), reader.work)
    return found


def any_of(reader: Reader, here: Here) -> Values:
    """Return what any of the schemas holds."""
    parts = _parts(reader, here.place, here.keyword, here.track)
    if here.track:
        parts = _held_together(reader, parts)
    return reduce(lambda one, other: one.union(other, apart=here.track), parts, reader.nothing)


def one_of(reader: Reader, here: Here) -> Values:
    """Return what exactly one of the schemas holds."""
    before = reader.drops()
    parts = _parts(reader, here.place, here.keyword, here.track)
    if reader.drops() > before:
        # What is known in part only cannot be excluded.
        return reduce(lambda one, other: one.union(other, apart=here.track), parts, reader.nothing)
    found = reader.nothing
    for index, part in enumerate(parts):
        reader.work.add(len(parts))
        others = [_shared(reader, other, part) for i, other in enumerate(parts) if i != index]
        alone = reduce(lambda left, other: left.intersection(other.complement(reader.work), reader.work), others, part)
        found = found.union(alone, apart=here.track)
    return found


def negation(reader: Reader, here: Here) -> Values:
    """Return what a schema does not hold."""
    return reader.complement(reader.inside(here.place, here.keyword))


def if_then_else(reader: Reader, here: Here) -> Values:
    """Return what `if` and `then` hold, or `else` but not `if`."""
    if "then" not in here.place.value and "else" not in here.place.value and not here.track:
        return reader.everything
    condition = reader.inside(here.place, here.keyword)
    then, otherwise = reader.everything, reader.everything
    if "then" in here.place.value:
        then = reader.read(reader.inside(here.place, "then"), here.track)
    if "else" in here.place.value:
        otherwise = reader.read(reader.inside(here.place, "else"), here.track)
    holds = reader.read(condition, here.track).intersection(then, reader.work)
    return holds.union(reader.complement(condition).intersection(otherwise, reader.work), apart=here.track)


def _parts(reader: Reader, place: Place, keyword: str, track: bool) -> list[Values]:
    return [reader.read(reader.inside(place, keyword, i), track) for i in range(len(checked.schemas(place, keyword)))]


def _held_together(reader: Reader, parts: list[Values]) -> list[Values]:
    """Return what every selection of the sets has in common: of each it is told what its keywords have looked at."""
    if len(parts) > MOST_HELD:
        raise UnsupportedSchema(
            f"'unevaluatedProperties' or 'unevaluatedItems' would need all selections of its {len(parts)} schemas; at most "
            f"{MOST_HELD} are worked out"
        )
    selections: list[Values] = []
    for part in parts:
        selections += [part, *[some.intersection(part, reader.work) for some in selections]]
    return selections


def _shared(reader: Reader, one: Values, other: Values) -> Values:
    """Return a set without the types of which it has no value in common with another one, as far as can be told."""
    none = reader.nothing
    return Values(
        one.null and other.null,
        one.booleans & other.booleans,
        none.numbers if other.numbers.is_empty else one.numbers,
        none.strings if other.strings.is_empty else one.strings,
        one.objects if _meet(reader, one.objects, other.objects) else (),
        one.arrays if _meet(reader, one.arrays, other.arrays) else (),
    )


def _meet(reader: Reader, one: tuple[Branch, ...], other: tuple[Branch, ...]) -> bool:
    """Whether two unions of objects, or of arrays, may have any in common."""
    for a in one:
        for b in other:
            reader.work.add(a.size + b.size)
            if not is_void(reader, a & b):
                return True
    return False


def is_void(reader: Reader, branch: Objects | Arrays) -> bool:
    """Whether a set is empty, for sure, as what some member or item must be is nothing."""
    if branch.is_empty:
        return True
    if isinstance(branch, Objects):
        return any(reader.is_empty(branch.value_of(name)) for name in branch.required)
    return any(reader.is_empty(branch.at(i)) for i in range(min(branch.minimum, len(branch.prefix) + 1)))
