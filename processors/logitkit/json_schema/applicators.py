"""Keywords that put schemas together: references, `allOf`, `anyOf`, `oneOf`, `not`, `if`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from logitkit.errors import UnsupportedSchema
from logitkit.json_schema import checked
from logitkit.json_schema.emptiness import without_void
from logitkit.json_schema.exactly_one import exactly_one
from logitkit.json_schema.references import Here, Place
from logitkit.json_schema.values import Values

if TYPE_CHECKING:
    from logitkit.json_schema.reader import Reader

# The most schemas of an `anyOf` that may hold at once where it matters which ones do.
MOST_HELD = 6


def reference(reader: Reader, here: Here) -> Values:
    """Return what the schema holds that is referred to."""
    target = reader.references.target(checked.text(here.place, here.keyword), here.place, here.keyword)
    reader.check(target)
    return reader.read(target, here.track)


def dynamic_reference(reader: Reader, here: Here) -> Values:
    """Return what the schema holds that is referred to, if there is one only."""
    target = reader.references.dynamic_target(checked.text(here.place, here.keyword), here.place)
    reader.check(target)
    return reader.read(target, here.track)


def recursive_reference(reader: Reader, here: Here) -> Values:
    """Return what the schema holds that is referred to, if there is one only."""
    if len(reader.references.resources) > 2:
        raise UnsupportedSchema("the schema that it refers to depends on the path to it; use '$ref'")
    return reference(reader, here)


def all_of(reader: Reader, here: Here) -> Values:
    """Return what all schemas hold."""
    found = reader.everything
    for index in range(len(checked.schemas(here.place, here.keyword))):
        one = reader.read(reader.inside(here.place, here.keyword, index), here.track)
        found = without_void(reader, found.intersection(one, reader.work))
    return found


def any_of(reader: Reader, here: Here) -> Values:
    """Return what any of the schemas holds."""
    parts = _parts(reader, here.place, here.keyword, here.track)
    return _united(reader, _held_together(reader, parts) if here.track else parts, here.track)


def one_of(reader: Reader, here: Here) -> Values:
    """Return what exactly one of the schemas holds."""
    before, doubts = reader.drops(), reader.doubts()
    parts = _parts(reader, here.place, here.keyword, here.track)
    if reader.drops() > before:
        # A set that is known in part only cannot be excluded.
        return _united(reader, parts, here.track)
    reader.check_doubts(doubts)
    return exactly_one(parts, reader, here.track)


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


def _united(reader: Reader, parts: list[Values], apart: bool) -> Values:
    # Two by two, so that few of the automata on the way are large.
    while len(parts) > 1:
        pairs = [one.union(other, apart) for one, other in zip(parts[::2], parts[1::2], strict=False)]
        parts = pairs + parts[len(pairs) * 2 :]
    return parts[0] if parts else reader.nothing


def _held_together(reader: Reader, parts: list[Values]) -> list[Values]:
    """Return the common part of all selections of the sets; each selection also says what its keywords have looked at."""
    if len(parts) > MOST_HELD:
        raise UnsupportedSchema(
            f"'unevaluatedProperties' or 'unevaluatedItems' would need all combinations of its {len(parts)} schemas; at most "
            f"{MOST_HELD} are supported"
        )
    selections: list[Values] = []
    for part in parts:
        selections += [part, *[some.intersection(part, reader.work) for some in selections]]
    return selections
