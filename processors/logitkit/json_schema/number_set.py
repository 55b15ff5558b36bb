"""Sets of numbers, as keywords describe them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, lru_cache

from logitkit.budget import outside_budget
from logitkit.compiler.text_language import TextLanguage
from logitkit.errors import ConfigurationError
from logitkit.json_schema.comparison import compared_with
from logitkit.json_schema.decimals import decimals_of, exact, explored, plain_text
from logitkit.json_schema.multiples import multiples_of
from logitkit.limits import Limits
from logitkit.patterns.parser import parse
from logitkit.patterns.syntax import Node

_ANY_NUMBER = parse(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


@dataclass(frozen=True, eq=False)
class NumberSet:
    """A set of numbers with a finite decimal expansion, by their exact values.

    Args:
        language: The plain decimals whose values are in the set, all of each value: `1.5` with `1.50`, `0` with `-0.0`.

    Example:
        >>> from logitkit.limits import DEFAULT_LIMITS
        >>> digits = NumberSet.at_least(0, DEFAULT_LIMITS) & NumberSet.at_most(9, DEFAULT_LIMITS)
        >>> (digits & NumberSet.multiples_of(4.5, DEFAULT_LIMITS)).values()
        [Decimal('0'), Decimal('4.5'), Decimal('9')]
    """

    language: TextLanguage

    @classmethod
    def everything(cls, limits: Limits) -> NumberSet:
        """Return the set of all numbers."""
        return _everything(limits)

    @classmethod
    def integers(cls, limits: Limits) -> NumberSet:
        """Return the set of all integers."""
        return _integers(limits)

    @classmethod
    def at_least(cls, bound: float | Decimal, limits: Limits, exclusive: bool = False) -> NumberSet:
        """Return the numbers from a bound on.

        Raises:
            ConfigurationError: The bound is not a finite number.
            PatternTooLarge: It has too many digits.
        """
        return cls(compared_with(exact(bound), frozenset({1} if exclusive else {0, 1}), limits))

    @classmethod
    def at_most(cls, bound: float | Decimal, limits: Limits, exclusive: bool = False) -> NumberSet:
        """Return the numbers up to a bound.

        Raises:
            ConfigurationError: The bound is not a finite number.
            PatternTooLarge: It has too many digits.
        """
        return cls(compared_with(exact(bound), frozenset({-1} if exclusive else {-1, 0}), limits))

    @classmethod
    def multiples_of(cls, divisor: float | Decimal, limits: Limits) -> NumberSet:
        """Return the multiples of a number.

        Raises:
            ConfigurationError: The divisor is not a positive number.
            PatternTooLarge: Too many remainders must be told apart.
        """
        by = exact(divisor)
        if by <= 0:
            raise ConfigurationError(f"multipleOf is {divisor!r}; allowed are numbers greater than 0")
        return cls(multiples_of(by, limits))

    @classmethod
    def of_values(cls, numbers: Iterable[float | Decimal], limits: Limits) -> NumberSet:
        """Return the set of some numbers.

        Raises:
            ConfigurationError: One is not a finite number.
            PatternTooLarge: There are too many digits.
        """
        texts = [plain_text(number, limits) for number in map(exact, numbers)]
        if not texts:
            return _none(limits)
        return cls(decimals_of([*texts, *(["-0"] if "0" in texts else [])], limits))

    def __and__(self, other: NumberSet) -> NumberSet:
        return NumberSet(self.language & other.language)

    def __or__(self, other: NumberSet) -> NumberSet:
        return NumberSet(self.language | other.language)

    def __sub__(self, other: NumberSet) -> NumberSet:
        return NumberSet(self.language - other.language)

    def __invert__(self) -> NumberSet:
        return _everything(self.language.limits) - self

    @property
    def is_empty(self) -> bool:
        """Whether no number is in the set."""
        return self.language.is_empty

    @cached_property
    def is_everything(self) -> bool:
        """Whether every number is in the set."""
        # Sets that are kept for all schemas know it already: it counts for none.
        with outside_budget():
            return (~self).is_empty

    @cached_property
    def _shortest(self) -> TextLanguage:
        """The shortest text of each value."""
        with outside_budget():
            return self.language & _shortest_texts(self.language.limits)

    def contains(self, number: float | Decimal) -> bool:
        """Whether a number is in the set."""
        return self.language.contains(plain_text(exact(number), self.language.limits))

    def values(self, most: int = 1000) -> list[Decimal] | None:
        """Return the numbers of the set, sorted, or None if there are more than `most`."""
        texts = self._shortest.texts(most)
        return None if texts is None else sorted(map(Decimal, texts))

    def tree(self) -> Node:
        """Return the syntax tree of the texts in which the numbers are written.

        Integers have no point. Where all numbers are in the set, exponents are allowed; where finitely many are, each is written
        in the shortest way; else they are plain decimals, trailing zeros allowed.

        Raises:
            ValueError: The set is empty.
        """
        return self._tree

    @cached_property
    def _tree(self) -> Node:
        with outside_budget():
            if self._shortest.longest is not None:
                return self._shortest.machine()
            if self.is_everything:
                return _ANY_NUMBER
            if (self.language - _integers(self.language.limits).language).is_empty:
                return self._shortest.machine()
            return self.language.machine()


_NINE = "123456789"
_TEN = "0" + _NINE


def _table(rows: list[list[tuple[str, int]]], accepting: set[int], limits: Limits) -> TextLanguage:
    return explored(0, rows.__getitem__, accepting.__contains__, limits)


@lru_cache(maxsize=8)
@outside_budget()
def _everything(limits: Limits) -> NumberSet:
    begin, zero, point = [("0", 2), (_NINE, 3)], [(".", 4)], [(_TEN, 5)]
    rows = [[("-", 1), *begin], begin, zero, [(_TEN, 3), (".", 4)], point, point]
    return NumberSet(_table(rows, {2, 3, 5}, limits))


@lru_cache(maxsize=8)
@outside_budget()
def _none(limits: Limits) -> NumberSet:
    return ~_everything(limits)


@lru_cache(maxsize=8)
@outside_budget()
def _integers(limits: Limits) -> NumberSet:
    begin, zero, point = [("0", 2), (_NINE, 3)], [(".", 4)], [("0", 5)]
    rows = [[("-", 1), *begin], begin, zero, [(_TEN, 3), (".", 4)], point, point]
    return NumberSet(_table(rows, {2, 3, 5}, limits))


@lru_cache(maxsize=8)
@outside_budget()
def _shortest_texts(limits: Limits) -> TextLanguage:
    """Return the plain texts without zeros that say nothing, and without `-0`."""
    fraction = [("0", 5), (_NINE, 6)]
    whole = [(_TEN, 3), (".", 5)]
    rows = [[("-", 1), ("0", 2), (_NINE, 3)], [("0", 4), (_NINE, 3)], [(".", 5)], whole, [(".", 5)], fraction, fraction]
    return _table(rows, {2, 3, 6}, limits)
