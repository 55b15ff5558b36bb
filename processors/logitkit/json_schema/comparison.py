"""The plain decimals that are less than, equal to or greater than a number."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import NamedTuple

from logitkit.compiler.text_language import TextLanguage
from logitkit.json_schema.decimals import DIGITS, digits_of, explored
from logitkit.limits import Limits


class Place(NamedTuple):
    """How far a text has been read.

    Args:
        part: Where it stands: at its start, after a minus, after a zero that no digit may follow, among the digits before the
            point, right after the point, or among the digits after it.
        sign: 1, or -1 after a minus.
        digits: How many digits of the bound, before or after the point, it has been compared with.
        order: How the digits so far compare with those of the bound, as -1, 0 or 1.
        longer: Whether it has more digits before the point than the bound.
    """

    part: str
    sign: int = 1
    digits: int = 0
    order: int = 0
    longer: bool = False


def compared_with(bound: Decimal, orders: frozenset[int], limits: Limits) -> TextLanguage:
    """Return the plain decimals that compare with a bound as -1 (less), 0 (equal) or 1 (greater).

    Raises:
        PatternTooLarge: The bound has too many digits.

    Example:
        >>> from logitkit.limits import DEFAULT_LIMITS
        >>> small = compared_with(Decimal("-0.5"), frozenset({-1}), DEFAULT_LIMITS)
        >>> small.contains("-0.51"), small.contains("-0.50"), small.contains("3")
        (True, False, False)
    """
    found = _Comparison(bound, orders, limits)
    return explored(Place("start"), found.moves, found.accepts, limits)


class _Comparison:
    """Compares the digits of a number with those of a bound, one by one."""

    def __init__(self, bound: Decimal, orders: frozenset[int], limits: Limits) -> None:
        self._bound, self._orders = bound, orders
        self._before, self._after = digits_of(bound, limits)

    def moves(self, place: Place) -> Iterator[tuple[str, Place]]:
        """Yield characters that may come next, with the place after them."""
        part, sign, digits, order, longer = place
        if part == "start":
            yield "-", Place("minus", -1)
        if part in ("start", "minus"):
            yield "0", Place("zero", sign, 1, 0 if self._before == "0" else -1)
            yield from _compared(DIGITS[1:], self._before[0], Place("before", sign, 1))
        elif part == "before":
            yield from self._digits_before(place)
        elif part in ("point", "fraction"):
            following = self._after[digits] if digits < len(self._after) else "0"
            counted = min(digits + 1, len(self._after))
            yield from _compared(DIGITS, following, Place("fraction", sign, counted, order))
        if part in ("zero", "before"):
            shorter = part == "before" and digits < len(self._before) and not longer
            yield ".", Place("point", sign, 0, -1 if shorter else order)

    def _digits_before(self, place: Place) -> Iterator[tuple[str, Place]]:
        _, sign, digits, order, longer = place
        if longer or digits == len(self._before):
            yield DIGITS, Place("before", sign, 0, 1, longer=True)
        else:
            yield from _compared(DIGITS, self._before[digits], Place("before", sign, digits + 1, order))

    def accepts(self, place: Place) -> bool:
        """Whether a number may end here."""
        part, sign, digits, order, longer = place
        if part not in ("zero", "before", "fraction"):
            return False
        if part == "before" and not longer and digits < len(self._before):
            order = -1
        # Digits of the bound are left, and the last of them is not zero.
        unread = len(self._after) if part != "fraction" else len(self._after) - digits
        if order == 0 and unread:
            order = -1
        if self._bound < 0:
            return (1 if sign > 0 else -order) in self._orders
        return (order if sign > 0 else -1 if self._bound > 0 else -order) in self._orders


def _compared(read: str, with_: str, then: Place) -> Iterator[tuple[str, Place]]:
    """Compare the next digits with that of the bound, unless the order is known."""
    if then.order:
        # How many digits there were matters only before the point.
        yield read, then._replace(digits=0) if then.part == "fraction" else then
        return
    for order, group in (
        (-1, [c for c in read if c < with_]),
        (0, [c for c in read if c == with_]),
        (1, [c for c in read if c > with_]),
    ):
        if group:
            counted = 0 if order and then.part == "fraction" else then.digits
            yield "".join(group), then._replace(order=order, digits=counted)
