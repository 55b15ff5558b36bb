"""The characters that a pattern of one character matches, by `re` and by the parser."""

from __future__ import annotations

import re
from functools import cache

from logitkit.patterns import Characters, CharSet, parse


@cache
def every_character() -> str:
    """All code points, surrogates too, each at its own index."""
    return "".join(map(chr, range(0x110000)))


@cache
def set_by_re(pattern: str, flags: str = "") -> CharSet:
    """Ask `re` about every code point."""
    if "s" in flags and "." not in pattern:
        return set_by_re(pattern, flags.replace("s", ""))  # by the definition of this flag
    found = re.finditer(f"(?:{pattern})+" if not flags else f"(?{flags}:(?:{pattern})+)", every_character())
    return CharSet(tuple((match.start(), match.end() - 1) for match in found))


def set_by_parser(pattern: str, flags: str = "") -> CharSet:
    """Ask the parser."""
    tree = parse(f"(?{flags}:{pattern})" if flags else pattern)
    assert isinstance(tree, Characters)
    return tree.charset
