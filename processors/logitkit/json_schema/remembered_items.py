"""Arrays whose items must differ, where a row remembers the items: when it can, and which mark says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from logitkit.compiler.nested_grammars.remembered_arrays import Remembers, mark_of
from logitkit.json_schema.arrays import Arrays
from logitkit.json_schema.conjunction import Conjunction, both
from logitkit.json_schema.emptiness import is_void

if TYPE_CHECKING:
    from logitkit.json_schema.reader import Reader

__all__ = ["remembered"]

# More items than this are not looked for where an array needs them.
MOST_COUNTED = 1000


def remembered(arrays: Arrays, reader: Reader) -> str | None:
    """Return the mark of arrays whose items a row can remember; None if a row might get stuck.

    It gets stuck where an array needs more items, and all that are possible are used. If there are at least as many values as
    items are needed, one is always left.
    """
    places = [arrays.at(index) for index in range(len(arrays.prefix) + 1)]
    needed = places[: arrays.minimum]
    varied = any(place != places[0] for place in places)
    if any(some.maximum is not None for some in arrays.contains) or (arrays.contains and varied):
        return None
    if not all(_has_values(place, arrays.minimum, reader) for place in needed):
        return None
    for some in arrays.contains:
        if not _has_values(both(arrays.items, some.value), some.minimum, reader):
            return None
    reader.remembered += 1
    return mark_of(Remembers.VARIED if varied else Remembers.ALIKE, reader.remembered)


def _has_values(conjunction: Conjunction, count: int, reader: Reader) -> bool:
    """Whether at least some number of values satisfy a conjunction, for sure."""
    if count <= 1:
        return True
    if count > MOST_COUNTED:
        return False
    values = reader.values(conjunction)
    numbers, strings = values.numbers.values(count), values.strings.values(count)
    if numbers is None or strings is None:
        return True
    return values.null + len(values.booleans) + len(numbers) + len(strings) >= count
