r"""Derives how values are written among strings between delimiters, as Gemma 4 writes them, and the order of members.

    city:<|"|>Bonn<|"|>,days:2,more:{tags:[<|"|>a<|"|>]}

The delimiter is the text around a string that does not stand around a number. All ways to write the other values are tried.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import product
from typing import NamedTuple, get_args

from logitkit.json_schema.layout import MemberOrder, ordered
from logitkit.languages.keyword_arguments import ValueLiterals
from logitkit.tools.delimited_values import text_of_delimited
from logitkit.tools.derivation.probes import FIRST, NAMES, SECOND, STRING, UPPER, VALUES
from logitkit.tools.derivation.turn_parts import not_derived

__all__ = ["delimited_way", "delimiter_between", "member_order"]

CallTexts = Mapping[str, str]


def member_order(texts: CallTexts) -> MemberOrder:
    """Return in which order a template writes members.

    Args:
        texts: The calls of the renderings, by the names of the probes.
    """
    if not _is_before(FIRST, SECOND, texts.get("swapped", "")):
        return "schema"
    return "sorted_ignoring_case" if _is_before(FIRST, UPPER, texts.get("cased", "")) else "sorted"


def _is_before(name: str, other: str, text: str) -> bool:
    """Whether both names stand in a call, and the first one before the other."""
    inside = text.partition(NAMES[0])[2]
    return 0 <= inside.find(name) < inside.find(other)


class _DelimitedWay(NamedTuple):
    """How values are written among strings between delimiters."""

    literals: ValueLiterals
    bare_names: bool
    is_compact: bool


def delimiter_between(texts: CallTexts, string: tuple[str, str], number: tuple[str, str]) -> str | None:
    """Return the text that stands before and after strings, but not around numbers; None if there is none.

    Args:
        texts: The calls of the renderings.
        string: The texts between the name and the value of a member that is a string, and after the value.
        number: Those of a member that is a number.

    Raises:
        ConfigurationError: A string with this text in it is written without escapes.
    """
    if not string[0].startswith(number[0]):
        return None
    found = string[0].removeprefix(number[0])
    if not found or not string[1].startswith(found) or number[1].startswith(found):
        return None
    if found in STRING:
        raise not_derived(
            f"strings stand between {found!r} without escapes, so it is not clear where one with {found!r} in it ends",
            texts["string"],
            texts["pinteger"],
        )
    return found


def delimited_way(
    texts: CallTexts, start: int, inside: str, rest: str, delimiter: str, order: MemberOrder
) -> _DelimitedWay:
    """Return how values are written among strings between delimiters; check all kinds of values."""
    ways = [_DelimitedWay(*way) for way in product(get_args(ValueLiterals), (True, False), (True, False))]
    for name, value in VALUES.items():
        arranged = {key: value[key] for key in ordered([*value], order)} if isinstance(value, dict) else value
        written = texts[name][start:].partition(name + inside)[2].removesuffix(rest)
        ways = [
            way
            for way in ways
            if written == text_of_delimited(arranged, delimiter, way.bare_names, way.literals, way.is_compact)
        ]
        if not ways:
            raise not_derived(
                f"the value {json.dumps(value)} of an argument is not written as others are, with strings between {delimiter!r}",
                texts[name],
                texts["string"],
            )
    return ways[0]
