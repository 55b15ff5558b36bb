"""The plain decimals that are multiples of a number."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import TypeAlias

from logitkit.compiler.text_language import TextLanguage
from logitkit.errors import PatternTooLarge
from logitkit.json_schema.decimals import DIGITS, digits_of, explored
from logitkit.limits import Limits

# A state of the digits before the point: see `_Division.state`.
Before: TypeAlias = tuple[int, ...]
# A place: its part, the state before the point, the digits that may still follow after it, and what they must add.
Place: TypeAlias = tuple[str, Before, int, int]

# The most states for the digits before the point.
MOST_RESIDUES = 2000
# The most factors of two and five that a divisor may have.
MOST_FACTORS = 64


def multiples_of(divisor: Decimal, limits: Limits) -> TextLanguage:
    """Return the plain decimals that are multiples of a positive number.

    Raises:
        PatternTooLarge: Too many remainders must be told apart.

    Example:
        >>> from logitkit.limits import DEFAULT_LIMITS
        >>> quarters = multiples_of(Decimal("0.25"), DEFAULT_LIMITS)
        >>> [text for text in ("7", "-1.50", "0.3", "0.2500") if quarters.contains(text)]
        ['7', '-1.50', '0.2500']
    """
    before, fraction = digits_of(divisor, limits)
    return _Division(divisor, int(before + fraction), len(fraction), limits).language()


class _Division:
    """Divisibility by `modulus` of a text's digits, with `places` of them after the point."""

    def __init__(self, divisor: Decimal, modulus: int, places: int, limits: Limits) -> None:
        self.divisor = divisor
        self.modulus = modulus
        self.places = places
        self.limits = limits
        # The modulus without its factors of two and five, which some power of ten takes in.
        self.coprime, factors = modulus, 0
        for prime in (2, 5):
            count = 0
            while self.coprime % prime == 0:
                self.coprime //= prime
                count += 1
            factors = max(factors, count)
        if factors > MOST_FACTORS:
            raise self.too_large()
        self.factors = factors
        self.remainder: dict[Before, int] = {}

    def too_large(self) -> PatternTooLarge:
        return PatternTooLarge(
            f"too many remainders of a division by {self.divisor} must be told apart; at most {MOST_RESIDUES} can be"
        )

    def state(self, remainder: int) -> Before:
        """Return what matters of a remainder of the digits before the point: what must still come for a multiple.

        If `e` digits follow, their value must be `-remainder * 10^e`. From some `e` on that depends on the coprime part alone;
        below, it is known which value it is, or that no `e` digits have it.
        """
        state = [remainder % self.coprime]
        for e in range(self.places, self.factors):
            wanted = -remainder * 10**e % self.modulus
            state.append(wanted if wanted < 10**e else -1)
        found = tuple(state)
        self.remainder.setdefault(found, remainder)
        if len(self.remainder) > MOST_RESIDUES:
            raise self.too_large()
        return found

    def language(self) -> TextLanguage:
        start: Place = ("start", (), 0, 0)
        return explored(start, self.moves, self.accepts, self.limits)

    def moves(self, place: Place) -> Iterator[tuple[str, Place]]:
        part, before, left, wanted = place
        if part == "start":
            yield "-", ("minus", (), 0, 0)
        if part in ("start", "minus"):
            yield "0", ("zero", self.state(0), 0, 0)
            for digit in range(1, 10):
                yield DIGITS[digit], ("before", self.state(digit % self.modulus), 0, 0)
        elif part == "before":
            remainder = self.remainder[before]
            for digit in range(10):
                yield DIGITS[digit], ("before", self.state((remainder * 10 + digit) % self.modulus), 0, 0)
        elif part in ("point", "fraction"):
            yield from self._digits_after(left, wanted)
        if part in ("zero", "before"):
            wanted = self.wanted(before)
            if wanted < 10**self.places:
                yield ".", ("point", (), self.places, wanted)

    def _digits_after(self, left: int, wanted: int) -> Iterator[tuple[str, Place]]:
        if not left:
            yield "0", ("fraction", (), 0, 0)
            return
        for digit in range(10):
            rest = (wanted - digit * 10 ** (left - 1)) % self.modulus
            if rest < 10 ** (left - 1):
                yield DIGITS[digit], ("fraction", (), left - 1, rest)

    def wanted(self, before: Before) -> int:
        """Return what the digits after the point must add."""
        wanted: int = -self.remainder[before] * 10**self.places % self.modulus
        return wanted

    def accepts(self, place: Place) -> bool:
        part, before, _, wanted = place
        return (part in ("zero", "before") and self.wanted(before) == 0) or (part == "fraction" and wanted == 0)
