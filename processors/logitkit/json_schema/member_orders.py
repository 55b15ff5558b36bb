"""Whether equal objects may have their members in two fixed orders, as branches of a union or items of two places may say.

By hand: one branch is `{"a":1,"b":N}`, the other `{"b":N,"a":1}`. If `{"a":1,"b":3}` is used, then `{"b":3` leads only to an
object that equals it, but no used item begins with that text. Where any number of members may follow, another object is always
left.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from logitkit.json_schema.arrays import Arrays
from logitkit.json_schema.conjunction import NOTHING, Conjunction, both
from logitkit.json_schema.emptiness import is_empty
from logitkit.json_schema.member_names import few_names, names_in_order
from logitkit.json_schema.objects import Objects

if TYPE_CHECKING:
    from logitkit.json_schema.reader import Reader

__all__ = ["has_two_orders"]


def has_two_orders(items: Iterable[Conjunction], reader: Reader) -> bool:
    """Whether equal objects within values of some conjunctions may be written in two orders, and have no other members then."""
    seen: set[frozenset[Conjunction]] = set()
    # Each group is of values in the same place within the items.
    todo = [frozenset(items)]
    while todo:
        group = todo.pop() - {NOTHING, ()}
        if not group or group in seen:
            continue
        seen.add(group)
        values = [reader.values(conjunction) for conjunction in group]
        objects = [branch for some in values for branch in some.objects]
        arrays = [branch for some in values for branch in some.arrays if branch.whole is None]
        if _constants_differ(objects) or _branches_differ(objects, reader):
            return True
        todo += [*_members(objects), *_items(arrays)]
    return False


def _members(objects: list[Objects]) -> list[frozenset[Conjunction]]:
    branches = [branch for branch in objects if branch.whole is None]
    names = dict.fromkeys(name for branch in branches for name in branch.properties)
    listed = [frozenset(branch.value_of(name) for branch in branches) for name in names]
    return [*listed, frozenset(piece.value for branch in branches for piece in branch.pieces)]


def _items(arrays: list[Arrays]) -> list[frozenset[Conjunction]]:
    longest = max((len(branch.prefix) for branch in arrays), default=-1)
    return [frozenset(branch.at(index) for branch in arrays) for index in range(longest + 1)]


def _constants_differ(objects: list[Objects]) -> bool:
    """Whether two equal objects, each given as a whole, have different orders."""
    texts: dict[str, str] = {}
    wholes = [branch.whole for branch in objects if branch.whole is not None]
    return any(texts.setdefault(json.dumps(one, sort_keys=True), json.dumps(one)) != json.dumps(one) for one in wholes)


def _branches_differ(objects: list[Objects], reader: Reader) -> bool:
    every = reader.everything.strings
    # None: other members may follow.
    orders = [([*branch.whole] if branch.whole is not None else few_names(branch, every), branch) for branch in objects]
    for (order, one), (other_order, other) in combinations(orders, 2):
        if (one.whole is not None and other.whole is not None) or (order is None and other_order is None):
            continue
        reader.work.add(1)
        names = names_in_order(one, every) if order is None else order
        others = names_in_order(other, every) if other_order is None else other_order
        if _differ(names, others, order is None, other_order is None) and not _are_apart(one, other, reader):
            return True
    return False


def _differ(names: Sequence[str], others: Sequence[str], is_open: bool, other_is_open: bool) -> bool:
    """Whether some of the names that two branches share have different orders, or any order in one of them."""
    if is_open or other_is_open:
        listed, closed = (names, others) if is_open else (others, names)
        # Names that are not listed come in any order, after the listed ones.
        if len(closed) > 1 and not {*closed} <= {*listed}:
            return True
    shared = [name for name in names if name in {*others}]
    return shared != [name for name in others if name in {*names}]


def _are_apart(one: Objects, other: Objects, reader: Reader) -> bool:
    """Whether some member that two branches must have has no value that suits both, for sure."""
    required = dict.fromkeys((*one.required, *other.required))
    return any(is_empty(reader, both(one.value_of(name), other.value_of(name))) for name in required)
