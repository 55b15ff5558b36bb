"""Keywords about arrays."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from logitkit.json_schema import checked
from logitkit.json_schema.arrays import Arrays, Contains
from logitkit.json_schema.conjunction import ANYTHING, NOTHING, Conjunction
from logitkit.json_schema.objects import Site
from logitkit.json_schema.references import Here, Place
from logitkit.json_schema.values import Values

if TYPE_CHECKING:
    from logitkit.json_schema.reader import Reader


def _those(reader: Reader, arrays: Arrays) -> Values:
    """Return some arrays, and all values of other types."""
    return replace(reader.everything, arrays=() if arrays.is_empty else (arrays,))


def items(reader: Reader, here: Here) -> Values:
    """Return the arrays whose items satisfy `prefixItems` and `items`, or `items` and `additionalItems` as of old."""
    rest, first = "items", "prefixItems"
    if isinstance(here.place.value.get("items"), list):
        rest, first = "additionalItems", "items"
    elif (
        "additionalItems" in here.place.value
        and "items" not in here.place.value
        and "prefixItems" not in here.place.value
    ):
        # It says something beside a list only.
        return reader.everything
    prefix: list[Conjunction] = []
    if reader.has(here.place, first):
        count = len(checked.schemas(here.place, first))
        prefix = [reader.conjunction(reader.inside(here.place, first, index)) for index in range(count)]
    others, looked_at = ANYTHING, len(prefix) if here.track else 0
    # Where the first items are left out, it is not known which items are the others.
    known = first not in here.place.value or reader.has(here.place, first)
    if known and reader.has(here.place, rest):
        others = reader.conjunction(reader.inside(here.place, rest))
        return _those(reader, Arrays(tuple(prefix), others, evaluated=None))
    return _those(reader, Arrays(tuple(prefix), others, evaluated=looked_at))


def length(reader: Reader, here: Here) -> Values:
    """Return the arrays with a number of items within bounds."""
    bound = checked.count(here.place, here.keyword)
    return _those(reader, Arrays(minimum=bound) if here.keyword == "minItems" else Arrays(maximum=bound))


def unique_items(reader: Reader, here: Here) -> Values:
    """Return the arrays of which no two items are equal."""
    if not isinstance(here.place.value[here.keyword], bool):
        raise checked.wrong(here.place, here.keyword, "true or false")
    if not here.place.value[here.keyword]:
        return reader.everything
    return _those(reader, Arrays(unique=(Site(here.place.pointer, here.keyword),)))


def contains(reader: Reader, here: Here) -> Values:
    """Return the arrays of whose items a number within bounds satisfies a schema."""
    least = checked.count(here.place, "minContains") if "minContains" in here.place.value else 1
    most = checked.count(here.place, "maxContains") if "maxContains" in here.place.value else None
    if least == 0 and most is None and not here.track:
        return reader.everything
    value = reader.conjunction(reader.inside(here.place, here.keyword))
    site = Site(here.place.pointer, here.keyword)
    return _those(reader, Arrays(contains=(Contains(value, least, most, 0, site),)))


def unevaluated_items(reader: Reader, place: Place, found: Values) -> Values:
    """Return the values of a set whose items that no keyword has looked at satisfy a schema."""
    value = reader.conjunction(reader.inside(place, "unevaluatedItems"))

    def closed(arrays: Arrays) -> Arrays:
        if arrays.evaluated is None or value == ANYTHING:
            return replace(arrays, evaluated=None)
        # The keyword looks at items, and its negation does not.
        looking = {some.value for some in arrays.contains if some.site.keyword == "contains"}
        if looking and place.dialect.name == "2019-09":
            raise Site(place.pointer, "unevaluatedItems").refuse(
                "draft 2019-09 does not say whether items that match 'contains' are evaluated; describe them with 'items'"
            )
        if len(looking) > 1 or (looking and value != NOTHING):
            raise Site(place.pointer, "unevaluatedItems").refuse(
                "the items that it applies to depend on those that match 'contains'; describe them with 'items', or set it to "
                "false and use only one 'contains'"
            )
        # Items that are looked at are those that are as it says.
        rest = looking.pop() if looking else value
        tail = Arrays((ANYTHING,) * arrays.evaluated, rest)
        return replace(arrays & tail, evaluated=None)

    changed = found.with_arrays(closed)
    return replace(changed, arrays=tuple([some for some in changed.arrays if not some.is_empty]))
