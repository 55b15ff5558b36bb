"""Arrays whose items must differ, where a row remembers the items: when it can, and which label says so; also for names.

A row must never get stuck: where an array needs more items, one that differs from all others must be left. An array of three or
more items of `{"enum": [...]}` needs at least three values. So values are counted as far as items are needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from logitkit.compiler.nested_grammars.remembered_arrays import Remembers, label_of
from logitkit.json_schema.arrays import Arrays
from logitkit.json_schema.conjunction import NOTHING, Conjunction, both, negations
from logitkit.json_schema.emptiness import LEVELS, is_void
from logitkit.json_schema.member_orders import has_two_orders
from logitkit.json_schema.number_set import NumberSet
from logitkit.json_schema.objects import Objects

if TYPE_CHECKING:
    from logitkit.json_schema.reader import Reader

__all__ = ["label_of_items", "label_of_names", "why_not_remembered"]

# More items than this are not looked for where an array needs them.
MOST_COUNTED = 1000


def label_of_items(union: Sequence[Arrays], reader: Reader) -> str:
    """Return the label of arrays whose items a row remembers; arrays of the same items have the same one.

    Args:
        union: Sets of arrays that may begin in one place.
        reader: Knows the schemas.
    """
    items = tuple(dict.fromkeys([(arrays.prefix, arrays.items) for arrays in union]))
    number = reader.remembered.setdefault(items, len(reader.remembered))
    return label_of(Remembers.VARIED if _are_varied(union) else Remembers.ALIKE, number)


def label_of_names(value: Conjunction, are_same: bool, reader: Reader) -> str:
    """Return the label of objects whose names a row remembers; those that satisfy the same conjunction have the same one.

    Args:
        value: The conjunction.
        are_same: Whether the same names are possible in all places.
        reader: Knows the schemas.
    """
    kind = Remembers.SAME_NAMES if are_same else Remembers.NAMES
    return label_of(kind, reader.remembered.setdefault(value, len(reader.remembered)))


def why_not_remembered(union: Sequence[Arrays], reader: Reader) -> str | None:
    """Return where it is that a row might get stuck if it remembered the items of some arrays, or None if it cannot."""
    found = next((why for arrays in union if (why := _why_not_alone(arrays, reader))), None)
    places = [place for arrays in union for place in _places(arrays)]
    if found is None and not _may_end_anywhere(places, reader):
        found = "where items have a largest number of members that are not listed"
    counted = [both(arrays.items, some.value) for arrays in union for some in arrays.contains]
    if found is None and has_two_orders([*places, *counted], reader):
        found = "where items hold equal objects in two orders of their members, as branches or places say"
    return found


def _why_not_alone(arrays: Arrays, reader: Reader) -> str | None:
    """Return where it is that too few items may be left, as far as one set of arrays shows."""
    if len(arrays.contains) > 1 or (arrays.contains and arrays.prefix):
        return "with several keywords 'contains', or with 'contains' and 'prefixItems'"
    places = _places(arrays)
    # At most as many items are used before any that is needed, so one of them is left.
    enough = all(_has_values(place, arrays.minimum, reader) for place in places[: arrays.minimum])
    for some in arrays.contains:
        wanted = both(arrays.items, some.value)
        enough &= _has_values(wanted, some.minimum, reader) and _are_counted(wanted, arrays.items, reader)
        if some.maximum is not None:
            others = [both(arrays.items, wrong) for wrong in negations(some.value)]
            enough &= any(_has_values(other, arrays.minimum, reader) for other in others)
    return None if enough else "where too few items may be left for 'minItems' or 'contains'"


def _are_counted(wanted: Conjunction, items: Conjunction, reader: Reader) -> bool:
    """Whether items that use up values which `contains` asks for are counted, however they are written, or never use up all.

    `1.0` is not counted where `contains` asks for 1, and yet 1 is used then.
    """
    # Whatever is not counted, there are others.
    if _has_values(wanted, MOST_COUNTED, reader):
        return True
    asked, found = reader.values(wanted), reader.values(items)
    if not asked.numbers.is_empty and found.numbers.values() is None:
        integers = NumberSet.integers(reader.limits)
        if not (found.numbers - integers).is_empty:
            return False
    # Their members and items may be numbers.
    branches: list[Objects | Arrays] = [*found.objects, *found.arrays]
    return not (asked.objects or asked.arrays) or all(branch.whole is not None for branch in branches)


def _places(arrays: Arrays) -> list[Conjunction]:
    return [arrays.at(index) for index in range(len(arrays.prefix) + 1)]


def _are_varied(union: Sequence[Arrays]) -> bool:
    """Whether the items of different places are of different kinds, as the last ones are where `contains` asks for them."""
    places = {place for arrays in union for place in _places(arrays)}
    return len(places) > 1 or any(arrays.contains for arrays in union)


def _has_values(conjunction: Conjunction, count: int, reader: Reader, levels: int = LEVELS) -> bool:
    """Whether at least some number of different values satisfy a conjunction, for sure."""
    if count <= 1:
        return True
    if count > MOST_COUNTED or not levels:
        return False
    values = reader.values(conjunction)
    numbers, strings = values.numbers.values(count), values.strings.values(count)
    if numbers is None or strings is None:
        return True
    if values.null + len(values.booleans) + len(numbers) + len(strings) >= count:
        return True
    branches: list[Objects | Arrays] = [*values.objects, *values.arrays]
    constants: list[object] = []
    for branch in branches:
        # Python takes 1 for true, so that there are rather too few.
        constants += [branch.whole] if branch.whole is not None and branch.whole not in constants else []
    if len(constants) >= count:
        return True
    alive = [branch for branch in branches if branch.whole is None and _is_possible_branch(branch, reader, frozenset())]
    return any(
        _has_objects(branch, count, reader, levels - 1)
        if isinstance(branch, Objects)
        else _has_arrays(branch, count, reader, levels - 1)
        for branch in alive
    )


def _has_objects(objects: Objects, count: int, reader: Reader, levels: int) -> bool:
    """Whether there are at least some number of different objects: of the values of one member, or of its names."""
    if objects.counts or objects.failing or objects.needs or objects.clauses:
        return False
    if not objects.pieces or any(
        piece.names.values(count) is None and _is_possible(piece.value, reader, frozenset()) for piece in objects.pieces
    ):
        return True
    return any(
        _has_values(value, count, reader, levels)
        for value in objects.properties.values()
        if _is_possible(value, reader, frozenset())
    )


def _has_arrays(arrays: Arrays, count: int, reader: Reader, levels: int) -> bool:
    """Whether there are at least some number of different arrays: of different lengths, or first items."""
    if arrays.contains or arrays.repeated:
        return False
    if arrays.most is None and not arrays.unique:
        return _is_possible(arrays.items, reader, frozenset())
    return arrays.most != 0 and not arrays.unique and _has_values(arrays.at(0), count, reader, levels)


def _is_possible(conjunction: Conjunction, reader: Reader, around: frozenset[Conjunction]) -> bool:
    """Whether some value satisfies a conjunction, as far as the kinds of its parts show.

    The smallest value that satisfies it has no part that satisfies it as well. So a schema that requires itself has none.

    Args:
        conjunction: The conjunction.
        reader: The reader of the schema.
        around: The conjunctions that values around this one satisfy.
    """
    if not conjunction:
        return True
    if conjunction == NOTHING or conjunction in around:
        return False
    values = reader.values(conjunction)
    if values.null or values.booleans or not values.numbers.is_empty or not values.strings.is_empty:
        return True
    around |= {conjunction}
    branches: list[Objects | Arrays] = [*values.objects, *values.arrays]
    return any(branch.whole is not None or _is_possible_branch(branch, reader, around) for branch in branches)


def _is_possible_branch(branch: Objects | Arrays, reader: Reader, around: frozenset[Conjunction]) -> bool:
    """Whether a branch has a value, as far as the kinds of its parts show."""
    if is_void(reader, branch):
        return False
    if isinstance(branch, Objects):
        parts = [branch.value_of(name) for name in branch.required]
    else:
        parts = [branch.at(index) for index in range(min(branch.minimum, len(branch.prefix) + 1))]
    return all(_is_possible(part, reader, around) for part in parts)


def _may_end_anywhere(items: list[Conjunction], reader: Reader) -> bool:
    """Whether in all values that satisfy some conjunctions, objects may have any number of members that are not listed.

    These may come in any order. If there is a largest number of them, the order decides which members are left, and a row could
    get stuck.
    """
    seen, todo = {*items}, [*items]
    while todo:
        values = reader.values(todo.pop())
        inside: list[Conjunction] = []
        for objects in _with_clauses(values.objects):
            if objects.whole is None:
                others = [piece for piece in objects.pieces if piece.value != NOTHING]
                if (others or not objects.pieces) and any(count.maximum is not None for count in objects.counts):
                    return False
                inside += [*objects.properties.values(), *[piece.value for piece in objects.pieces]]
        for arrays in values.arrays:
            inside += [*arrays.prefix, arrays.items] if arrays.whole is None else []
        for value in inside:
            if value and value != NOTHING and value not in seen:
                seen.add(value)
                todo.append(value)
    return True


def _with_clauses(branches: Iterable[Objects]) -> Iterator[Objects]:
    """Yield some sets of objects, and all that their clauses are made of."""
    for objects in branches:
        yield objects
        for clause in objects.clauses:
            for part in clause.parts:
                yield from _with_clauses(part)
