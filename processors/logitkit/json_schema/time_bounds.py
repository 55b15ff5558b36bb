"""Patterns of the dates, times and durations within a bound, for types whose JSON Schema cannot say it.

Each is a lookahead at the beginning of the text, whose form another pattern describes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta

__all__ = ["DURATION", "clock_beyond", "day_beyond", "duration_beyond"]

_MICROSECOND = timedelta(microseconds=1)
_UP_TO_59 = "(?:[1-9]|[1-5][0-9])"
# Years have at most this many digits.
MOST_DIGITS = 6

_FRACTION = r"(?:\.[0-9]{1,6})?"
# A unit that is 0 is not written, except in `PT0S`.
_CLOCK = rf"(?:(?:[1-9]|1[0-9]|2[0-3])H)?(?:{_UP_TO_59}M)?(?:{_UP_TO_59}{_FRACTION}S|0\.[0-9]{{1,6}}S)?"
_DAYS = f"(?:[1-9][0-9]{{0,{MOST_DIGITS - 1}}}Y)?(?:(?:[1-9][0-9]?|[12][0-9]{{2}}|3[0-5][0-9]|36[0-4])D)?"
DURATION = f"^(?:PT0S|-?P(?!$){_DAYS}(?:T(?!$){_CLOCK})?)$"
"""Durations as pydantic writes them: years of 365 days, days, hours, minutes and seconds."""


def day_beyond(bound: date, earlier: bool, itself: bool) -> str:
    """Return a lookahead for the days after a bound, or before it, and perhaps for the bound itself.

    Example:
        >>> import re
        >>> [
        ...     bool(re.search("^" + day_beyond(date(2024, 2, 29), False, False), day))
        ...     for day in ("2024-02-29", "2024-11-01")
        ... ]
        [False, True]
    """
    text = bound.isoformat()
    return _lookahead([*_texts_beyond(text, earlier), *([text] if itself else [])])


def clock_beyond(bound: datetime | time, earlier: bool, itself: bool) -> str:
    """Return a lookahead for the times after a bound, or before it; offsets are left out, and the text has the bound's own.

    Example:
        >>> import re
        >>> late = "^" + clock_beyond(time(12, 0, 0, 500000), False, False)
        >>> [bool(re.search(late, text)) for text in ("12:00:00.5", "12:00:00.51", "12:00:00", "12:00:01")]
        [False, True, False, True]
    """
    text = bound.replace(tzinfo=None, microsecond=0).isoformat()
    fractions = _fractions_beyond(bound.microsecond, earlier, itself, r"(?![0-9.])")
    return _lookahead([*_texts_beyond(text, earlier), *(text + fraction for fraction in fractions)])


def duration_beyond(bound: timedelta, earlier: bool, itself: bool) -> str:
    """Return a lookahead for the durations, in the form of `DURATION`, that are longer than a bound, or shorter.

    Example:
        >>> import re
        >>> short = "^" + duration_beyond(timedelta(hours=-1), True, True)
        >>> [bool(re.search(short, text)) for text in ("-PT1H", "-PT59M", "-P1D", "PT5H")]
        [True, False, True, False]
    """
    size, is_negative = abs(bound) // _MICROSECOND, bound < timedelta(0)
    if is_negative:
        # A negative duration is less than another one if its size is greater.
        negative = [f"-P{choice}" for choice in _sizes_beyond(size, not earlier, itself)]
        return _lookahead(negative if earlier else ["P", *negative])
    positive = [f"P{choice}" for choice in _sizes_beyond(size, earlier, itself)]
    return _lookahead(["-", *positive] if earlier else positive)


def _lookahead(choices: list[str]) -> str:
    return f"(?={'|'.join(choices)})" if choices else "(?!)"


def _texts_beyond(text: str, earlier: bool) -> Iterator[str]:
    """Yield the beginnings of the texts of the same form after a text, or before it."""
    for place, digit in enumerate(text):
        others = "" if not digit.isdigit() else _digits(digit, earlier)
        if others:
            yield f"{text[:place]}[{others}]"


def _digits(digit: str, smaller: bool) -> str:
    return "0123456789"[: int(digit)] if smaller else "0123456789"[int(digit) + 1 :]


def _fractions_beyond(microsecond: int, earlier: bool, itself: bool, end: str) -> Iterator[str]:
    """Yield the fractions of a second, with the point, after one or before it; zeros at the end may be left out."""
    digits = f"{microsecond:06}"
    short = digits.rstrip("0")
    for fraction in _texts_beyond(digits, earlier):
        yield rf"\.{fraction}"
    if earlier:
        for kept in range(len(short)):
            yield (rf"\.{digits[:kept]}" if kept else "") + end
    if itself:
        yield rf"\.{short}0*{end}" if short else rf"(?:\.0+)?{end}"


def _sizes_beyond(size: int, earlier: bool, itself: bool) -> Iterator[str]:
    """Yield the durations without sign, from after the `P`, that are longer than some microseconds, or shorter."""
    seconds, fraction = divmod(size, 10**6)
    days, seconds = divmod(seconds, 24 * 60 * 60)
    units = {"Y": days // 365, "D": days % 365, "H": seconds // 3600, "M": seconds // 60 % 60}
    # The units so far in a duration of that size, those that it lacks after the last of them, and the letter before a clock.
    before, lacking, t = "", "", ""
    for unit, count in units.items():
        t = "T" if unit == "H" else t
        lacking += unit
        yield from (f"{before}{t}{number}{unit}" for number in _numbers_beyond(count, earlier))
        if earlier and count:
            yield f"{before}(?!T?[0-9]+[{lacking}])"
        if count:
            before, lacking, t = f"{before}{t}{count}{unit}", "", ""
    second = seconds % 60
    yield from (rf"{before}{t}{number}{_FRACTION}S" for number in _numbers_beyond(second, earlier))
    if earlier and second:
        yield rf"{before}{t}0\."
    is_whole = not second and not fraction
    if earlier and not is_whole:
        yield f"{before}(?!T?[0-9])"
    if earlier and size:
        yield "T0S"
    for part in _fractions_beyond(fraction, earlier, itself and not is_whole, "S"):
        yield f"{before}{t}{second}{part}"
    if itself and is_whole:
        yield f"{before}$" if size else "T0S"


def _numbers_beyond(number: int, smaller: bool) -> Iterator[str]:
    """Yield the numbers from 1 on that are greater than a number, or smaller, without zeros before them."""
    text = str(number)
    for choice in _texts_beyond(text, smaller) if number else ():
        # The first digit is not 0.
        first = re.sub(r"^\[0", "[", choice)
        if first != "[]":
            yield f"{first}[0-9]{{{len(text) - len(choice.partition('[')[0]) - 1}}}"
    digits = len(text) if number else 0
    if smaller and digits > 1:
        yield f"[1-9][0-9]{{0,{digits - 2}}}"
    elif not smaller and digits < MOST_DIGITS:
        yield f"[1-9][0-9]{{{digits},{MOST_DIGITS - 1}}}"
