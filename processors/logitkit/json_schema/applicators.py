"""Keywords that put schemas together: references, `allOf`, `anyOf`, `oneOf`, `not`, `if`.

The values that exactly one of several sets holds.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, reduce
from typing import TYPE_CHECKING, TypeVar

from logitkit.errors import UnsupportedSchema
from logitkit.json_schema import checked
from logitkit.json_schema.arrays import Arrays
from logitkit.json_schema.emptiness import few_texts, is_void, without_void
from logitkit.json_schema.number_set import NumberSet
from logitkit.json_schema.objects import Clause, Objects
from logitkit.json_schema.references import Here, Place
from logitkit.json_schema.string_set import StringSet
from logitkit.json_schema.string_union import united
from logitkit.json_schema.values import Branch, Values, common, either, may_be_clause, others_than

if TYPE_CHECKING:
    from logitkit.json_schema.reader import Reader

S = TypeVar("S", StringSet, NumberSet)

# From this many sets on, those that differ in a name with few values are not compared one by one.
MANY = 8
FEW_VALUES = 64
# The branches that no other holds are one clause if their sizes in all are more than this, and more than twice those before.
LARGE_APART = 1024


def exactly_one(parts: Sequence[Values], reader: Reader, apart: bool) -> Values:
    """Return the values that are in one of several sets, and in no other.

    Args:
        parts: The sets.
        reader: Knows what is inside of them.
        apart: Whether branches are kept that others include.

    Raises:
        UnsupportedSchema: Values in two of them cannot be left out; the pointer is the caller's to say.
    """
    booleans = Counter(flag for part in parts for flag in part.booleans)
    is_exact = all(part.is_exact for part in parts)
    nothing = reader.nothing.strings
    return Values(
        sum(part.null for part in parts) == 1,
        frozenset(flag for flag, count in booleans.items() if count == 1),
        _once([part.numbers for part in parts], reader.nothing.numbers),
        _once([part.strings for part in parts], nothing) if is_exact else _surely_once(parts, nothing),
        _objects_alone([part.objects for part in parts], reader, apart),
        _alone([part.arrays for part in parts], reader, apart),
        None if is_exact else reduce(united, [part.possible_strings for part in parts]),
    )


def _once(sets: list[S], nothing: S) -> S:
    # Two by two, so that few of the automata on the way are large.
    held = [(some, some) for some in sets if not some.is_empty]
    while len(held) > 1:
        pairs = [
            ((a - some) | (b - every), every | some)
            for (a, every), (b, some) in zip(held[::2], held[1::2], strict=False)
        ]
        held = pairs + held[len(pairs) * 2 :]
    return held[0][0] if held else nothing


def _surely_once(parts: Sequence[Values], nothing: StringSet) -> StringSet:
    """Return the strings of one part that no other may hold."""
    found = nothing
    for index, part in enumerate(parts):
        left = part.strings
        for other in (*parts[:index], *parts[index + 1 :]):
            left = left if left.is_empty or other.possible_strings.is_empty else left - other.possible_strings
        found = left if found.is_empty else united(found, left)
    return found


def _objects_alone(parts: list[tuple[Objects, ...]], reader: Reader, apart: bool) -> tuple[Objects, ...]:
    """Return the objects of each part that no other part holds, as a clause if their branches would multiply."""
    every = [objects for part in parts for objects in part]
    in_clause = not apart and may_be_clause(every) and all(objects.tells_by_member for objects in every)
    try:
        with reader.work.attempt(in_clause):
            found = _alone(parts, reader, apart)
    except UnsupportedSchema:
        if not in_clause:
            raise
    else:
        before = sum(objects.size for objects in every)
        if not in_clause or sum(branch.size for branch in found) <= LARGE_APART + 2 * before:
            return found
    return (Objects.of_clause(Clause(1, 1, tuple(parts))),)


def _alone(parts: list[tuple[Branch, ...]], reader: Reader, apart: bool) -> tuple[Branch, ...]:
    """Return the branches of each part without what other parts hold."""

    @cache
    def outside(index: int) -> tuple[Branch, ...]:
        return others_than(parts[index], reader.work, as_clause=False)

    # Such as all arrays, where each branch says something of objects only.
    count = Counter(parts)
    near = _near(parts, reader) if len(count) > 1 else []
    found: tuple[Branch, ...] = ()
    for index, part in enumerate(parts):
        if count[part] > 1:
            continue
        left = part
        for other in near[index] if near else ():
            if other != index and _meet(reader, parts[other], part):
                left = common(left, outside(other), reader.work, as_clause=False)
        found = either(found, left, apart)
    return found


def _near(parts: Sequence[tuple[Objects | Arrays, ...]], reader: Reader) -> list[Sequence[int]]:
    """Return which parts may have anything in common with each, as far as one name's values tell."""
    filled = [index for index, part in enumerate(parts) if part]
    told = [_few_values(part, reader) if part and len(filled) >= MANY else {} for part in parts]
    names = Counter([name for values in told for name in values])
    name = max(names, key=names.__getitem__, default="")
    if names[name] < MANY:
        return [filled if part else () for part in parts]
    rest = [index for index in filled if name not in told[index]]
    having: dict[str, list[int]] = defaultdict(list)
    for index, values in enumerate(told):
        for text in values.get(name, ()):
            having[text].append(index)
    found: list[Sequence[int]] = []
    for part, values in zip(parts, told, strict=True):
        if name in values:
            found.append(sorted({*rest, *[other for text in values[name] for other in having[text]]}))
        else:
            found.append(filled if part else ())
    return found


def _few_values(part: tuple[Objects | Arrays, ...], reader: Reader) -> dict[str, frozenset[str]]:
    """Return the names that all objects of a part have, with few values."""
    found: list[dict[str, frozenset[str]]] = []
    for branch in part:
        if not isinstance(branch, Objects):
            return {}
        reader.work.add(len(branch.required))
        values = {name: few_texts(reader, branch.value_of(name), FEW_VALUES) for name in branch.required}
        found.append({name: texts for name, texts in values.items() if texts is not None})
    shared = set.intersection(*map(set, found))
    return {name: frozenset[str]().union(*[values[name] for values in found]) for name in shared}


def _meet(reader: Reader, one: tuple[Branch, ...], other: tuple[Branch, ...]) -> bool:
    """Whether two unions of objects, or of arrays, may have any in common."""
    for a in one:
        for b in other:
            reader.work.add(a.size + b.size)
            if not is_void(reader, a & b):
                return True
    return False


# The most selections of the schemas of an `anyOf` that may hold at once, where it matters which ones do: all of six.
MOST_HELD = 63


def reference(reader: Reader, here: Here) -> Values:
    """Return what the schema holds that is referred to."""
    target = reader.references.target(checked.text(here.place, here.keyword), here.place, here.keyword)
    reader.check(target)
    return reader.read(target, here.track)


def dynamic_reference(reader: Reader, here: Here) -> Values:
    """Return what the schema holds that `$dynamicRef` or `$recursiveRef` refers to, if it is the same on every path there."""
    target = reader.references.dynamic_target(checked.text(here.place, here.keyword), here.place, here.keyword)
    reader.check(target)
    return reader.read(target, here.track)


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
    objects = _selections(reader, [part.objects for part in parts])
    arrays = _selections(reader, [part.arrays for part in parts])
    return [*parts, replace(reader.nothing, objects=objects, arrays=arrays)]


def _selections(reader: Reader, parts: list[tuple[Branch, ...]]) -> tuple[Branch, ...]:
    """Return what several of the unions hold, for each selection of two or more of which that is not empty, for sure."""
    single: list[tuple[Branch, ...]] = []
    several: list[tuple[Branch, ...]] = []
    for part in parts:
        known: list[tuple[Branch, ...]] = single + several
        joined = [common(some, part, reader.work, as_clause=False) for some in known]
        left = [tuple([branch for branch in some if not is_void(reader, branch)]) for some in joined]
        several.extend([some for some in dict.fromkeys(left) if some and some not in known])
        if part and part not in single:
            single.append(part)
        if len(single) + len(several) > MOST_HELD:
            raise UnsupportedSchema(
                f"'unevaluatedProperties' or 'unevaluatedItems' would need more than {MOST_HELD} combinations of its "
                f"{len(parts)} schemas, as of 7 of which all may hold; let a property tell them apart"
            )
    return tuple([branch for some in several for branch in some])
