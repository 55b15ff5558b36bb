"""Sets of JSON arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from logitkit.json_schema.conjunction import ANYTHING, NOTHING, Conjunction, both, negations
from logitkit.json_schema.objects import Site


class Contains(NamedTuple):
    """How many items satisfy a conjunction, of those from some index on."""

    value: Conjunction
    minimum: int
    maximum: int | None
    begin: int
    site: Site


@dataclass(frozen=True, eq=False, slots=True)
class Arrays:
    """The arrays whose items are as said.

    Args:
        prefix: The conjunctions that the first items satisfy, one by one.
        items: The conjunction that the items after them satisfy.
        minimum: Fewest items.
        maximum: Most items; None: any number.
        contains: Bounds on the numbers of items of some kind.
        unique: The keywords that ask for items of which no two are equal.
        repeated: The keywords whose negation asks for two items that are equal.
        evaluated: How many items some keyword has looked at, as far as `unevaluatedItems` has to know; None: all.
        whole: The one array that it is, where nothing else is asked of it.
    """

    prefix: tuple[Conjunction, ...] = ()
    items: Conjunction = ANYTHING
    minimum: int = 0
    maximum: int | None = None
    contains: tuple[Contains, ...] = ()
    unique: tuple[Site, ...] = ()
    repeated: tuple[Site, ...] = ()
    evaluated: int | None = 0
    whole: list[Any] | None = None

    @property
    def most(self) -> int | None:
        """The largest number of items; None: any number."""
        end = next((i for i, item in enumerate(self.prefix) if item == NOTHING), None)
        if end is None and self.items == NOTHING:
            end = len(self.prefix)
        bounds = [bound for bound in (self.maximum, end) if bound is not None]
        return min(bounds, default=None)

    @property
    def is_everything(self) -> bool:
        """Whether every array is of the set, for sure."""
        asks = any(self.prefix) or self.items or self.minimum or self.contains or self.unique or self.repeated
        return not asks and self.maximum is None

    @property
    def is_empty(self) -> bool:
        """Whether no array is of the set, for sure."""
        most = self.most
        if (most is not None and self.minimum > most) or (self.unique and self.repeated):
            return True
        return any(c.maximum is not None and c.minimum > c.maximum for c in self.contains)

    @property
    def size(self) -> int:
        """How much work it is to look at all of it."""
        return 1 + len(self.prefix) + len(self.contains)

    def at(self, index: int) -> Conjunction:
        """Return what the item of an index satisfies."""
        return self.prefix[index] if index < len(self.prefix) else self.items

    def __and__(self, other: Arrays) -> Arrays:
        length = max(len(self.prefix), len(other.prefix))
        most = [bound for bound in (self.maximum, other.maximum) if bound is not None]
        evaluated = None
        if self.evaluated is not None and other.evaluated is not None:
            evaluated = max(self.evaluated, other.evaluated)
        return Arrays(
            tuple([both(self.at(i), other.at(i)) for i in range(length)]),
            both(self.items, other.items),
            max(self.minimum, other.minimum),
            min(most, default=None),
            tuple(dict.fromkeys(self.contains + other.contains)),
            tuple(dict.fromkeys(self.unique + other.unique)),
            tuple(dict.fromkeys(self.repeated + other.repeated)),
            evaluated,
        )

    def complement(self) -> list[Arrays]:
        """Return the arrays that are not of the set, as a union."""
        found = [Arrays(minimum=2, repeated=self.unique)] if self.unique else []
        found += [Arrays(unique=self.repeated)] if self.repeated else []
        if self.minimum:
            found.append(Arrays(maximum=self.minimum - 1))
        if self.maximum is not None:
            found.append(Arrays(minimum=self.maximum + 1))
        for index, item in enumerate(self.prefix):
            before = (ANYTHING,) * index
            found += [Arrays((*before, wrong), minimum=index + 1) for wrong in negations(item) if item]
        for item in negations(self.items) if self.items else []:
            if item == ANYTHING:
                found.append(Arrays(minimum=len(self.prefix) + 1))
            else:
                site = Site("#", "not")
                found.append(Arrays(contains=(Contains(item, 1, None, len(self.prefix), site),)))
        for some in self.contains:
            wrong = some._replace(site=Site("#", "not"))
            if some.minimum:
                found.append(Arrays(contains=(wrong._replace(minimum=0, maximum=some.minimum - 1),)))
            if some.maximum is not None:
                found.append(Arrays(contains=(wrong._replace(minimum=some.maximum + 1, maximum=None),)))
        return found


EVERY_ARRAY = Arrays()
