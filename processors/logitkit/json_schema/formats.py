"""The values of `format`: those of JSON Schema, and those of the OpenAPI format registry.

Source: OpenAPI Initiative, Formats Registry, https://spec.openapis.org/registry/format/
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, NamedTuple

from logitkit.budget import outside_budget
from logitkit.compiler.text_language import TextLanguage
from logitkit.errors import UnsupportedSchema
from logitkit.json_schema import addresses, dates
from logitkit.json_schema import addresses as uris
from logitkit.limits import Limits

_HEX = "[0-9A-Fa-f]"
_COLORS = (
    *(
        "aqua",
        "black",
        "blue",
        "fuchsia",
        "gray",
        "green",
        "lime",
        "maroon",
        "navy",
        "olive",
        "orange",
        "purple",
        "red",
    ),
    *("silver", "teal", "white", "yellow"),
)


def _base64(more: str, padding: str) -> str:
    """Return the pattern of the texts that encoders write: the bits that stand for nothing are zero.

    Args:
        more: The last two digits, for a character class.
        padding: The pattern of one padding character.
    """
    digit = f"[A-Za-z0-9{more}]"
    return f"(?:{digit}{{4}})*(?:{digit}[AQgw]{padding}{padding}|{digit}{{2}}[AEIMQUYcgkosw048]{padding})?"


_PATTERNS = {
    "date": dates.DATE,
    "time": dates.TIME,
    "date-time": dates.DATE_TIME,
    "duration": dates.DURATION,
    "email": addresses.EMAIL,
    "idn-email": addresses.IDN_EMAIL,
    "hostname": addresses.HOSTNAME,
    "ipv4": addresses.IPV4,
    "ipv6": addresses.IPV6,
    "uri": uris.URI,
    "uri-reference": uris.URI_REFERENCE,
    "iri": uris.IRI,
    "iri-reference": uris.IRI_REFERENCE,
    "uri-template": uris.URI_TEMPLATE,
    "uuid": f"{_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}",
    "json-pointer": uris.JSON_POINTER,
    "relative-json-pointer": uris.RELATIVE_JSON_POINTER,
    # Of OpenAPI: RFC 4648, sections 4 and 5.
    "byte": _base64("+/", "="),
    "base64url": f"(?:{_base64('_-', '=')}|{_base64('_-', '')})",
    "char": "(?s:.)",
    # The name that Swagger's tools write for `uri`.
    "url": uris.URI,
    # Of draft 3: the hexadecimal colours and the names of CSS 2.1.
    "color": f"(?:#{_HEX}{{3}}|#{_HEX}{{6}}|(?ai:{'|'.join(_COLORS)}))",
}

# The meaning of some before draft 7.
_OLD_PATTERNS = {"hostname": addresses.OLD_HOSTNAME}

# The strings of a format with a limit on their length, of which these need no state for each length.
_LONGEST = {"hostname": addresses.LONGEST_HOSTNAME}
_COMPACT = {"hostname": addresses.SHORT_HOSTNAME}
_OLD_COMPACT = {"hostname": addresses.SHORT_OLD_HOSTNAME}

# All strings that may be of a format, where an automaton does not tell which of them are.
_POSSIBLE = {"hostname": addresses.ANY_HOSTNAME, "idn-email": addresses.ANY_IDN_EMAIL}
_OLD_POSSIBLE = {**_POSSIBLE, "hostname": addresses.OLD_HOSTNAME}

STRING_FORMATS = frozenset(_PATTERNS)
"""The names of the formats of strings that are enforced."""

INTEGERS = {
    **{f"int{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": (0, 2**bits - 1) for bits in (8, 16, 32, 64)},
    "double-int": (1 - 2**53, 2**53 - 1),
}
"""The smallest and the largest integer of each format of numbers that is enforced."""

# These say how a program stores a value, or shows it: any number or any string is of them.
_HINTS: dict[str, Literal["string", "number"]] = {
    **dict.fromkeys(("decimal", "decimal128", "double", "float"), "number"),
    **dict.fromkeys(("binary", "commonmark", "html", "password"), "string"),
}

NOT_ENFORCED = {
    "idn-hostname": "which labels IDNA allows depends on context and normalisation",
    "regex": "the language of regular expressions is not regular",
}
"""Formats of the standard that an automaton cannot decide, and why. They are annotations, like unknown formats."""


def described(name: str) -> Literal["string", "number"] | None:
    """Return the type of the values that a format describes; None if the format is not known.

    Example:
        >>> described("date"), described("int32"), described("phone")
        ('string', 'number', None)
    """
    if name in _PATTERNS or name in NOT_ENFORCED:
        return "string"
    return "number" if name in INTEGERS else _HINTS.get(name)


class FormatStrings(NamedTuple):
    """The strings of a format.

    Args:
        texts: The strings, of any length.
        longest: The most characters of a string; None if there is no limit.
        compact: Strings of them that are not too long, as an automaton without a state for each length; None without a limit.
        possible: Strings with those that may be of the format, although this is not known; None if there are no others.
    """

    texts: TextLanguage
    longest: int | None = None
    compact: TextLanguage | None = None
    possible: TextLanguage | None = None


def format_strings(name: str, limits: Limits, old: bool = False) -> FormatStrings:
    """Return the strings of a format.

    Args:
        name: The format.
        limits: Bounds on its automaton.
        old: Whether it is meant as before draft 7.

    Raises:
        UnsupportedSchema: The format is not one of strings that are enforced.
        PatternTooLarge: A limit is exceeded.

    Example:
        >>> from logitkit.limits import DEFAULT_LIMITS
        >>> format_strings("date", DEFAULT_LIMITS).texts.contains("2023-02-29")
        False
    """
    if _HINTS.get(name) == "string":
        return FormatStrings(TextLanguage.everything(limits))
    if name not in _PATTERNS:
        raise UnsupportedSchema(f"the format {name!r} is not one of strings that are enforced")
    patterns = [(_OLD_PATTERNS, _PATTERNS), (_OLD_COMPACT, _COMPACT), (_OLD_POSSIBLE, _POSSIBLE)]
    texts, compact, possible = (
        None if name not in of_name else _language(before.get(name, of_name[name]) if old else of_name[name], limits)
        for before, of_name in patterns
    )
    assert texts is not None
    return FormatStrings(texts, _LONGEST.get(name), compact, possible)


@lru_cache(maxsize=64)
@outside_budget()
def _language(pattern: str, limits: Limits) -> TextLanguage:
    return TextLanguage.of_pattern(pattern, limits)
