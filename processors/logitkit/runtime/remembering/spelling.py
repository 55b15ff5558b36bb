"""When two JSON values are equal: numbers by value, objects whatever the order of their members.

A schema allows few spellings of a value, but more than one: `1.5` and `1.50`, and any order of the members that are not listed.
So values that are complete are replaced by one text for all that are equal. All other parts of a text stay as they are.

By hand: `{"b": 1.50, "a": 2}` becomes `{"b":1.5,"a":2}`, without white space. If `{"a":2,"b":1.5}` has been written before, it
becomes that text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import MAX_PREC, Context, Decimal

from logitkit.runtime.remembering.known_objects import KnownObjects, Member, Members

__all__ = ["spelled_number", "spelled_object"]

# Longer numbers are written with an exponent, whatever they look like, so that `1e999999` takes little memory.
MOST_DIGITS = 4000

_EXACT = Context(prec=MAX_PREC)

# Most numbers have the one text of their value already: without an exponent, and with no zero at the end of a fraction.
_is_spelled = re.compile(rb"(?!-0\Z)-?[0-9]+(\.[0-9]*[1-9])?").fullmatch
_is_fraction = re.compile(rb"-?[0-9]+\.[0-9]+").fullmatch


def spelled_number(text: bytes) -> bytes:
    """Return the one text of a JSON number.

    Example:
        >>> [spelled_number(text).decode() for text in (b"1.50", b"100", b"1e2", b"-0", b"12e-1", b"5e-9999")]
        ['1.5', '100', '100', '0', '1.2', '5e-9999']
    """
    if len(text) <= MOST_DIGITS:
        if _is_spelled(text):
            return text
        if _is_fraction(text):
            # It ends with zeros.
            short = text.rstrip(b"0").removesuffix(b".")
            return b"0" if short == b"-0" else short
    digits = text.removeprefix(b"-")
    mantissa, _, power = digits.lower().partition(b"e")
    whole, _, fraction = mantissa.decode().partition(".")
    # The exponent may have more digits than Python reads as an integer.
    exponent = _EXACT.subtract(Decimal(power.decode() or 0), len(fraction))
    written = (whole + fraction).lstrip("0")
    kept = written.rstrip("0")
    exponent = _EXACT.add(exponent, len(written) - len(kept))
    if not kept:
        return b"0"
    if 0 <= exponent <= MOST_DIGITS - len(kept):
        found = kept + "0" * int(exponent)
    elif -MOST_DIGITS <= exponent < 0 and len(kept) <= MOST_DIGITS:
        kept = kept.rjust(1 - int(exponent), "0")
        found = f"{kept[: int(exponent)]}.{kept[int(exponent) :]}"
    else:
        found = f"{kept}e{exponent:f}"
    return found.encode() if digits == text else b"-" + found.encode()


def spelled_object(text: bytes, members: Sequence[Member], known: KnownObjects) -> tuple[bytes, Members | None]:
    """Return the one text of an object, and its members if no equal object is known; None if its text says all.

    Args:
        text: Its text, with its brackets.
        members: Its members; if a name stands in it twice, the last value holds.
        known: The objects that have been written.

    Example:
        >>> members = ((b'"b"', b"1"), (b'"a"', b"2"))
        >>> known = KnownObjects().plus(frozenset(members), (b'"a"', b'"b"'), b'{"a":2,"b":1}')
        >>> spelled_object(b'{"b":1,"a":2}', members, known)
        (b'{"a":2,"b":1}', None)
    """
    values = dict(members)
    if len(values) < 2:
        return (text if len(values) == len(members) else b"{%s:%s}" % members[-1]), None
    key = frozenset(values.items())
    found = known.get(key)
    return (text, key) if found is None else (found, None)
