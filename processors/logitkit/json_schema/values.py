"""Sets of JSON values, type by type."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from typing import Any, TypeVar

from logitkit.budget import outside_budget, spend
from logitkit.errors import UnsupportedSchema
from logitkit.json_schema.arrays import EVERY_ARRAY, Arrays
from logitkit.json_schema.number_set import NumberSet
from logitkit.json_schema.objects import EVERY_OBJECT, Clause, Objects
from logitkit.json_schema.string_set import StringSet
from logitkit.json_schema.string_union import united
from logitkit.limits import Limits

# The cost of joining two branches, whatever their sizes are.
PAIR_STEPS = 16

# Branches that are told apart, and what may be done to tell them.
MOST_BRANCHES = 4096
MOST_WORK = 300_000
# The most steps where a clause can say the same.
MOST_ATTEMPT = 60_000
STEPS_OF_WORK = 8

Branch = TypeVar("Branch", Objects, Arrays)

# The characters that have a meaning in a pattern.
_SYNTAX = re.compile(r"[\\^$.*+?()\[\]{}|/]")


@dataclass(eq=False, slots=True)
class Work:
    """Counts what is done, so that a schema whose branches multiply is refused in time."""

    done: int = 0
    most: int = MOST_WORK

    @contextmanager
    def attempt(self, has_other_way: bool) -> Iterator[None]:
        """Allow a part of the work for what can also be done in another way; if it is refused, it does not count."""
        done, most = self.done, self.most
        self.most = min(most, done + MOST_ATTEMPT) if has_other_way else most
        try:
            yield
        except UnsupportedSchema:
            self.done = done if has_other_way else self.done
            raise
        finally:
            self.most = most

    def add(self, steps: int) -> None:
        """Count some steps.

        Raises:
            UnsupportedSchema: They are too many; the pointer is the caller's to say.
        """
        self.done += steps
        spend(STEPS_OF_WORK * steps)
        if self.done > self.most:
            raise UnsupportedSchema("the schema has too many combinations of branches; simplify it")


@dataclass(frozen=True, eq=False, slots=True)
class Values:
    """A set of values: those of each type.

    Args:
        null: Whether null is one of them.
        booleans: Which booleans are.
        numbers: The numbers.
        strings: The strings.
        objects: The objects, as a union.
        arrays: The arrays, as a union.
        doubtful: The strings together with others of which it is not known whether they are in the set; None: there are none.
    """

    null: bool
    booleans: frozenset[bool]
    numbers: NumberSet
    strings: StringSet
    objects: tuple[Objects, ...]
    arrays: tuple[Arrays, ...]
    doubtful: StringSet | None = None

    @property
    def is_exact(self) -> bool:
        """Whether it is known of each string whether it is in the set."""
        return self.doubtful is None

    @property
    def possible_strings(self) -> StringSet:
        """The strings, with those of which it is not known whether they are in the set."""
        return self.strings if self.doubtful is None else self.doubtful

    @classmethod
    def everything(cls, limits: Limits, free_of: tuple[str, ...] = ()) -> Values:
        """Return the set of all values, whose strings do not contain some texts."""
        strings, numbers = _strings_free_of(free_of, limits), NumberSet.everything(limits)
        return cls(True, frozenset((False, True)), numbers, strings, (EVERY_OBJECT,), (EVERY_ARRAY,))

    @classmethod
    def nothing(cls, limits: Limits) -> Values:
        """Return the empty set."""
        return cls(False, frozenset(), NumberSet.of_values([], limits), StringSet.of_values([], limits), (), ())

    def of_types(self, types: frozenset[str], nothing: Values) -> Values:
        """Return the values of some types, and `nothing` of the others; integers are numbers that the caller sees to."""
        return Values(
            self.null and "null" in types,
            self.booleans if "boolean" in types else frozenset(),
            (self if "number" in types else nothing).numbers,
            (self if "string" in types else nothing).strings,
            self.objects if "object" in types else (),
            self.arrays if "array" in types else (),
            self.doubtful if "string" in types else None,
        )

    def intersection(self, other: Values, work: Work) -> Values:
        """Return the values of both; members of objects come in the order of this one, then in the other's."""
        numbers, strings = self.numbers, self.strings
        return Values(
            self.null and other.null,
            self.booleans & other.booleans,
            other.numbers
            if numbers.is_everything
            else numbers
            if other.numbers.is_everything
            else numbers & other.numbers,
            _both(strings, other.strings),
            common(self.objects, other.objects, work),
            common(self.arrays, other.arrays, work),
            None if self.is_exact and other.is_exact else _both(self.possible_strings, other.possible_strings),
        )

    def union(self, other: Values, apart: bool = False) -> Values:
        """Return the values of either; `apart` keeps branches that others include, for what keywords have looked at there."""
        return Values(
            self.null or other.null,
            self.booleans | other.booleans,
            other.numbers if self.numbers.is_empty else self.numbers | other.numbers,
            other.strings if self.strings.is_empty else united(self.strings, other.strings),
            either(self.objects, other.objects, apart),
            either(self.arrays, other.arrays, apart),
            None if self.is_exact and other.is_exact else united(self.possible_strings, other.possible_strings),
        )

    def complement(self, work: Work) -> Values:
        """Return all other values.

        Raises:
            UnsupportedSchema: There is no such form of them; the pointer is the caller's to say.
        """
        return Values(
            not self.null,
            frozenset((False, True)) - self.booleans,
            ~self.numbers,
            ~self.possible_strings,
            others_than(self.objects, work, EVERY_OBJECT),
            others_than(self.arrays, work, EVERY_ARRAY),
            None if self.is_exact else ~self.strings,
        )

    def with_objects(self, change: Callable[[Objects], Objects]) -> Values:
        """Return the set with all its objects changed."""
        return replace(self, objects=tuple(map(change, self.objects)))

    def with_arrays(self, change: Callable[[Arrays], Arrays]) -> Values:
        """Return the set with all its arrays changed."""
        return replace(self, arrays=tuple(map(change, self.arrays)))


def _both(one: StringSet, other: StringSet) -> StringSet:
    return other if one.is_everything else one if other.is_everything else one & other


def common(
    one: tuple[Branch, ...], other: tuple[Branch, ...], work: Work, as_clause: bool = True
) -> tuple[Branch, ...]:
    """Return what two unions have in common, as a union.

    Args:
        one: The first union.
        other: The second one.
        work: Counts what is done.
        as_clause: Whether branches that multiply may become clauses.

    Raises:
        UnsupportedSchema: There are too many branches; the pointer is the caller's to say.
    """
    for some, rest in ((one, other), (other, one)):
        if len(some) == 1 and some[0] in (EVERY_OBJECT, EVERY_ARRAY):
            return rest
    as_clause = as_clause and len(one) > 1 and len(other) > 1 and may_be_clause(one + other)
    try:
        with work.attempt(as_clause):
            return _pairs(one, other, work)
    except UnsupportedSchema:
        if not as_clause:
            raise
        return (_as_one(one) & _as_one(other),)


def may_be_clause(branches: Iterable[Branch]) -> bool:
    """Whether some branches are objects of which a clause may tell how many hold."""
    return all(isinstance(branch, Objects) and branch.may_be_in_clause for branch in branches)


def _as_one(union: tuple[Branch, ...]) -> Any:
    return union[0] if len(union) == 1 else Objects.of_clause(Clause(1, None, (union,)))  # type: ignore[arg-type]


def _pairs(one: tuple[Branch, ...], other: tuple[Branch, ...], work: Work) -> tuple[Branch, ...]:
    found: list[Branch] = []
    for a in one:
        for b in other:
            work.add(a.size + b.size)
            spend(PAIR_STEPS)
            joined = a & b
            if not joined.is_empty:
                found.append(joined)
        if len(found) > MOST_BRANCHES:
            raise UnsupportedSchema(f"it has more than {MOST_BRANCHES} branches; simplify the schema")
    return tuple(found)


def either(one: tuple[Branch, ...], other: tuple[Branch, ...], apart: bool) -> tuple[Branch, ...]:
    """Return what any of two unions holds; `apart` keeps branches that others include."""
    joined = tuple(dict.fromkeys(one + other))
    every = None if apart else next((branch for branch in joined if branch in (EVERY_OBJECT, EVERY_ARRAY)), None)
    return joined if every is None else (every,)


def others_than(
    branches: tuple[Branch, ...], work: Work, everything: Branch | None = None, as_clause: bool = True
) -> tuple[Branch, ...]:
    """Return what a union does not hold; `everything` is to be given where it may be of no branches.

    Args:
        branches: The union.
        work: Counts what is done.
        everything: The set of all objects, or of all arrays.
        as_clause: Whether branches that multiply may become clauses.

    Raises:
        UnsupportedSchema: There is no such form of it; the pointer is the caller's to say.
    """
    everything = everything or (EVERY_OBJECT if isinstance(branches[0], Objects) else EVERY_ARRAY)

    def excluded(left: tuple[Branch, ...], branch: Branch) -> tuple[Branch, ...]:
        return common(left, tuple(branch.complement()), work, as_clause) if left else left

    return reduce(excluded, branches, (everything,))


@lru_cache(maxsize=64)
@outside_budget()
def _strings_free_of(texts: tuple[str, ...], limits: Limits) -> StringSet:
    """Return the strings that do not contain some texts."""
    found = StringSet.everything(limits)
    for text in texts:
        found -= StringSet.matching(_SYNTAX.sub(r"\\\g<0>", text), limits)
    return found
