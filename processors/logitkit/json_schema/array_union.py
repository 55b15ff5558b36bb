"""How a union of arrays is written where two items may be equal: which sets are left, and whether a row remembers the items.

By hand, for `anyOf` of three sets of arrays:

    integers that differ, any integers        the first is included in the second, so it is left out
    integers that differ, strings that differ a row remembers the items, whichever of the two it writes
    integers that differ, any strings         after `[`, it would have to remember items and not to: refused

The negation of `uniqueItems` asks for two equal items. Most often another branch excludes that: "integers that differ, and not
exactly two integers that differ" leaves the integers that differ, in another number. Where equal items are possible, the states
count them if there are few values, and the schema is refused otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from logitkit.json_schema.array_plan import array_plan
from logitkit.json_schema.arrays import Arrays
from logitkit.json_schema.layout import TOGETHER, Layout
from logitkit.json_schema.objects import Site
from logitkit.json_schema.plan import Item, Plan
from logitkit.json_schema.remembered_items import label_of_items, why_not_remembered
from logitkit.json_schema.unique_items import MOST_DIFFERENT, few_values, never_equal

if TYPE_CHECKING:
    from logitkit.json_schema.reader import Reader

__all__ = ["array_plans"]

# A row that can remember items does so from more values on: 10 values take 34,000 states, and 11 would take 76,000.
MOST_IN_STATES = 10

TOLD_APART = (
    "an automaton cannot tell whether they are different, unless they are of a few values (at most "
    f"{MOST_DIFFERENT}, as of an 'enum'; fewer if they are long) or there is at most one; lower 'maxItems' or give 'items' a "
    "short 'enum'"
)


class _Branch(NamedTuple):
    """One set of the union.

    Args:
        arrays: The set.
        may_repeat: Whether two items of an array may be equal.
        values: The values that each item may have, if they are few and it matters whether they are equal.
    """

    arrays: Arrays
    may_repeat: bool
    values: list[list[tuple[str, Item]]] | None

    @property
    def must_be_remembered(self) -> bool:
        """Whether no automaton can tell whether items differ, as they are of many values."""
        return bool(self.arrays.unique) and self.may_repeat and self.values is None

    @property
    def is_rather_remembered(self) -> bool:
        """Whether there would be states for many sets of values that have been used."""
        names = {name for items in self.values or () for name, _ in items}
        return bool(self.arrays.unique) and len(names) > MOST_IN_STATES


def array_plans(union: Sequence[Arrays], alone: bool, reader: Reader, layout: Layout) -> list[Plan]:
    """Return the graphs of what follows the opening bracket, with the closing one: any of them.

    Args:
        union: Sets of arrays.
        alone: Whether no other array may begin in the same place.
        reader: Knows the schemas.
        layout: The white space around items.

    Raises:
        UnsupportedSchema: A bound cannot be kept exactly.
    """
    if not any(some.unique or some.repeated for some in union):
        return [array_plan(some, reader, layout) for some in union]
    branches = [_branch(some, reader, layout) for some in _without_included(union)]
    branches = [branch for branch in branches if branch.may_repeat or not branch.arrays.repeated]
    for branch in branches:
        if branch.arrays.repeated and branch.values is None:
            _leave_out(branch.arrays.repeated, "its negation asks for two equal items, and " + TOLD_APART, reader)
    label = None
    remembered = [branch for branch in branches if branch.must_be_remembered]
    if remembered or any(branch.is_rather_remembered for branch in branches):
        differ = [branch.arrays for branch in branches if branch.arrays.unique or not branch.may_repeat]
        alone &= len(differ) == len(branches)
        forgets = layout.forgets or (None if alone else TOGETHER) or why_not_remembered(differ, reader)
        label = label_of_items(differ, reader) if forgets is None else None
        for branch in remembered if forgets else ():
            _leave_out(branch.arrays.unique, f"{forgets}, a row cannot remember its items, and {TOLD_APART}", reader)
    return [array_plan(branch.arrays, reader, layout, None if label else branch.values, label) for branch in branches]


def _branch(arrays: Arrays, reader: Reader, layout: Layout) -> _Branch:
    asks = bool(arrays.unique or arrays.repeated)
    may_repeat = not never_equal(arrays, reader)
    values = few_values(arrays, reader, layout) if asks and may_repeat else None
    return _Branch(arrays, may_repeat, values)


def _leave_out(sites: Sequence[Site], reason: str, reader: Reader) -> None:
    """Leave out what asks whether items are equal. Without it, there are only more arrays, whatever it is inside of.

    Raises:
        UnsupportedSchema: Nothing may be left out.
    """
    for error in [site.refuse(reason) for site in sites]:
        if not reader.left_out.also(error):
            raise error


def _without_included(union: Sequence[Arrays]) -> list[Arrays]:
    """Return a union without sets that others include, for sure."""
    kept: list[Arrays] = []
    for at, some in enumerate(union):
        if not any(_includes(other, some) for other in (*kept, *union[at + 1 :])):
            kept.append(some)
    return kept


def _includes(one: Arrays, other: Arrays) -> bool:
    """Whether a set that does not ask whether items are equal includes another one, for sure."""
    if one.unique or one.repeated or one.minimum > other.minimum or not {*one.contains} <= {*other.contains}:
        return False
    if one.maximum is not None and (other.most is None or other.most > one.maximum):
        return False
    places = range(max(len(one.prefix), len(other.prefix)) + 1)
    return all({*one.at(place)} <= {*other.at(place)} for place in places)
