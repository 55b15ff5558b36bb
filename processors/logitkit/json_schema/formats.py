"""The formats of strings, as languages."""

from __future__ import annotations

from functools import lru_cache

from logitkit.budget import outside_budget
from logitkit.compiler.text_language import TextLanguage
from logitkit.errors import UnsupportedSchema
from logitkit.json_schema import addresses, dates, uris
from logitkit.limits import Limits

_HEX = "[0-9A-Fa-f]"
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
}

# What some meant before draft 7.
_OLD_PATTERNS = {"hostname": addresses.OLD_HOSTNAME}

FORMATS = frozenset(_PATTERNS)
"""The names of the formats that are supported."""

REFUSED = {
    "idn-hostname": "which labels IDNA allows depends on context and normalisation",
    "regex": "the language of regular expressions is not regular",
}
"""Formats of the standard that are not, and why."""


def format_language(name: str, limits: Limits, old: bool = False) -> TextLanguage:
    """Return the strings of a format.

    Args:
        name: The format.
        limits: Bounds on its automaton.
        old: Whether it is meant as before draft 7.

    Raises:
        UnsupportedSchema: The format is not supported.
        PatternTooLarge: A limit is exceeded.

    Example:
        >>> from logitkit.limits import DEFAULT_LIMITS
        >>> format_language("date", DEFAULT_LIMITS).contains("2023-02-29")
        False
    """
    if name in REFUSED:
        raise UnsupportedSchema(f"the format {name!r} is not supported: {REFUSED[name]}")
    if name not in _PATTERNS:
        raise UnsupportedSchema(f"the format {name!r} is not known; known are {', '.join(sorted(FORMATS))}")
    return _language(_OLD_PATTERNS.get(name, _PATTERNS[name]) if old else _PATTERNS[name], limits)


@lru_cache(maxsize=64)
@outside_budget()
def _language(pattern: str, limits: Limits) -> TextLanguage:
    return TextLanguage.of_pattern(pattern, limits)
