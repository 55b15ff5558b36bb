r"""The character classes that Python's Unicode data defines: `\w`, `\d`, `\s` and the general categories.

They are computed by the running interpreter on first use, so they always agree with its `re` and `unicodedata`.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

import numpy as np

from logitkit.patterns.charset import MAX_CODE_POINT, CharSet

ASSIGNED_PLANES = ((0, 0x3FFFF), (0xE0000, 0xEFFFF), (0xFFFFE, 0xFFFFF), (0x10FFFE, 0x10FFFF))
"""The code points that may have properties: planes 4 to 13 are unassigned, 15 and 16 private except for their ends."""

_UNASSIGNED = (0x40000, 0xDFFFF)
_PRIVATE = ((0xF0000, 0xFFFFD), (0x100000, 0x10FFFD))

GROUPS = {
    "L": ("Lu", "Ll", "Lt", "Lm", "Lo"),
    "LC": ("Lu", "Ll", "Lt"),
    "M": ("Mn", "Mc", "Me"),
    "N": ("Nd", "Nl", "No"),
    "P": ("Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po"),
    "S": ("Sm", "Sc", "Sk", "So"),
    "Z": ("Zs", "Zl", "Zp"),
    "C": ("Cc", "Cf", "Cs", "Co", "Cn"),
}
"""General categories of one letter (and `LC`, cased letters), mapped to the two-letter categories that they contain."""


@lru_cache(maxsize=16)
def perl_class(letter: str, ascii_only: bool) -> CharSet:
    r"""Return the set of `\d`, `\s`, `\w` or a negation of these.

    Args:
        letter: One of `dswDSW`.
        ascii_only: Whether the flag `(?a)` is set.

    Example:
        >>> perl_class("d", True).ranges
        ((48, 57),)
    """
    if letter.isupper():
        return ~perl_class(letter.lower(), ascii_only)
    limit = 0x7F if ascii_only else MAX_CODE_POINT
    # The flag matters even within ASCII: with it, the separators 1C to 1F are not spaces.
    members = re.compile(rf"\{letter}+", re.ASCII if ascii_only else 0)
    return CharSet.of(
        (first + match.start(), first + match.end() - 1)
        for first, last in ASSIGNED_PLANES
        for match in members.finditer(code_points(first, min(last, limit)))
    )


@lru_cache(maxsize=64)
def category_class(name: str) -> CharSet:
    """Return the characters of a general category, such as `Lu`, `L` or `LC`.

    Example:
        >>> ord("É") in category_class("Lu"), ord("é") in category_class("Lu")
        (True, False)
    """
    members = GROUPS.get(name, (name,))
    return CharSet.of(found for member in members for found in _categories()[member])


def code_points(first: int, last: int) -> str:
    """Return the text of all code points in an inclusive range, including surrogates."""
    return np.arange(first, last + 1, dtype="<u4").tobytes().decode("utf-32-le", "surrogatepass")


@lru_cache(maxsize=1)
def _categories() -> dict[str, tuple[tuple[int, int], ...]]:
    ranges: dict[str, list[tuple[int, int]]] = {"Cn": [_UNASSIGNED], "Co": list(_PRIVATE)}
    for first, last in ASSIGNED_PLANES:
        names = list(map(unicodedata.category, code_points(first, last)))
        # Names have two ASCII letters, so runs of equal names can be found as 16-bit integers, without a Python loop.
        codes = np.frombuffer("".join(names).encode("ascii"), dtype=np.uint16)
        edges = (np.flatnonzero(codes[1:] != codes[:-1]) + 1).tolist()
        for begin, end in zip([0, *edges], [*edges, len(names)], strict=True):
            ranges.setdefault(names[begin], []).append((first + begin, first + end - 1))
    return {name: tuple(found) for name, found in ranges.items()}
