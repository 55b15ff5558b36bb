r"""The names inside `\p{...}`: general categories and scripts."""

from __future__ import annotations

from functools import lru_cache

from logitkit.patterns.charset import ANY, CharSet
from logitkit.patterns.unicode_classes import category_class
from logitkit.patterns.unicode_scripts import ALIASES, CATEGORIES, RANGES

# `L&` is another name of the cased letters.
_BY_NAME = {**CATEGORIES, "L&": "LC"}
_CATEGORY_KEYS = ("GC", "GENERALCATEGORY", "CATEGORY")
_SCRIPT_KEYS = ("SC", "SCRIPT")
_SPECIAL = {"ANY": ANY, "ASCII": CharSet(((0, 0x7F),))}


@lru_cache(maxsize=256)
def property_class(name: str) -> CharSet | None:
    r"""Return the characters that `\p{name}` matches, or None if there is no such property.

    Args:
        name: A general category (`Lu`, `Uppercase_Letter`, `gc=Lu`), a script (`Greek`, `Script=Greek`, `sc=Grek`), `Any`,
            `ASCII` or `Assigned`. Case, spaces, `_` and `-` are ignored.

    Example:
        >>> ord("π") in property_class("Greek"), ord("π") in property_class("Lu")
        (True, False)
    """
    key, equals, value = name.replace("_", "").replace("-", "").replace(" ", "").upper().partition("=")
    if not equals:
        value = key
    if not equals and value in _SPECIAL:
        return _SPECIAL[value]
    if not equals and value == "ASSIGNED":
        return ~category_class("Cn")
    if (not equals or key in _CATEGORY_KEYS) and value in _BY_NAME:
        return category_class(_BY_NAME[value])
    if (not equals or key in _SCRIPT_KEYS) and (ranges := RANGES.get(ALIASES.get(value, value))) is not None:
        return _script_class(ranges)
    return None


def _script_class(ranges: str) -> CharSet:
    pairs = (text.partition("-") for text in ranges.split())
    return CharSet(tuple((int(first, 16), int(last or first, 16)) for first, _, last in pairs))
