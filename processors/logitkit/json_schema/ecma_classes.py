"""Characters and classes of characters, as ECMA-262 patterns write them."""

from __future__ import annotations

from logitkit.patterns.charset import CharSet

__all__ = ["ranges", "written"]

_SPECIAL = frozenset("\\^$.*+?()[]{}|/-")


def written(code_point: int) -> str:
    r"""Return a character outside of a class.

    Example:
        >>> print(written(ord("a")), written(ord(".")), written(0x0A))
        a \. \x0a
    """
    character = chr(code_point)
    return "\\" + character if character in _SPECIAL else _end(code_point)


def ranges(charset: CharSet) -> str:
    r"""Return the inside of a class.

    Example:
        >>> print(ranges(CharSet.of([(0x2D, 0x2D), (0x61, 0x7A), (0x2028, 0x2028)])))
        \x2da-z\u{2028}
    """
    return "".join(_end(first) if first == last else f"{_end(first)}-{_end(last)}" for first, last in charset.ranges)


def _end(code_point: int) -> str:
    character = chr(code_point)
    if character.isprintable() and character not in _SPECIAL:
        return character
    return rf"\x{code_point:02x}" if code_point < 0x100 else rf"\u{{{code_point:x}}}"
