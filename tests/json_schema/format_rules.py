"""The rules of each `format`, written from the standards and independent of the code under test."""

from __future__ import annotations

import base64
import binascii
import datetime
import ipaddress
import re
from collections.abc import Callable
from decimal import Decimal

import idna
import numpy as np

_HOST_LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
_SUBDOMAINS = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*")
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_MAILBOX = re.compile(
    rf"""({_ATOM}(?:\.{_ATOM})*|"(?:[ !#-\[\]-~]|\\[ -~])*")@(\[[^\]]*\]|[^@\[\]]+)""",
)
_TIME = re.compile(r"(\d\d):(\d\d):(\d\d)(?:\.\d+)?(?:[Zz]|([+-])(\d\d):(\d\d))", re.ASCII)
_DURATION = re.compile(
    r"P(?:\d+W|(?:\d+Y(?:\d+M(?:\d+D)?)?|\d+M(?:\d+D)?|\d+D)(?:T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S))?"
    r"|T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S))",
    re.ASCII,
)
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_POINTER = re.compile(r"(?:/(?:[^~/]|~[01])*)*", re.DOTALL)
_RELATIVE_POINTER = re.compile(r"(?:0|[1-9]\d*)(?:#|(?:/(?:[^~/]|~[01])*)*)", re.ASCII | re.DOTALL)

# RFC 3986; {more} is what RFC 3987 adds to the unreserved characters (`ucschar`), {private} what it adds to a query (`iprivate`).
_MORE = "\\u00a0-\\ud7ff\\uf900-\\ufdcf\\ufdf0-\\uffef\\U000e1000-\\U000efffd" + "".join(
    f"\\U{plane:04x}0000-\\U{plane:04x}fffd" for plane in range(1, 14)
)
_PRIVATE = "\\ue000-\\uf8ff\\U000f0000-\\U000ffffd\\U00100000-\\U0010fffd"


def _reference(more: str, private: str) -> tuple[str, str]:
    character = rf"(?:[A-Za-z0-9._~!$&'()*+,;=:@{more}-]|%[0-9A-Fa-f]{{2}})"
    authority = (
        rf"(?:(?:[A-Za-z0-9._~!$&'()*+,;=:{more}-]|%[0-9A-Fa-f]{{2}})*@)?"
        rf"(?:\[(?P<literal>[^\]]*)\]|(?:[A-Za-z0-9._~!$&'()*+,;={more}-]|%[0-9A-Fa-f]{{2}})*)(?::[0-9]*)?"
    )
    tail = rf"(?:\?(?:{character}|[/?{private}])*)?(?:#(?:{character}|[/?])*)?"
    segments = rf"(?:/{character}*)*"
    path = rf"(?://{authority}{segments}|/(?:{character}+{segments})?|{character}+{segments}|)"
    without_colon = character.replace(":@", "@")
    relative = rf"(?://{authority}{segments}|/(?:{character}+{segments})?|{without_colon}+{segments}|)"
    return rf"[A-Za-z][A-Za-z0-9+.-]*:{path}{tail}", relative + tail


_URI, _RELATIVE = map(re.compile, _reference("", ""))
_IRI, _RELATIVE_IRI = map(re.compile, _reference(_MORE, _PRIVATE))
_TEMPLATE = re.compile(
    rf"(?:[!#$&'-;=?-\[\]_a-z~{_MORE}{_PRIVATE}]|%[0-9A-Fa-f]{{2}}|"
    r"\{[+#./;?&=,!@|]?"
    r"(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})(?:\.?(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2}))*(?::[1-9]\d{0,3}|\*)?"
    r"(?:,(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})(?:\.?(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2}))*(?::[1-9]\d{0,3}|\*)?)*\})*",
    re.ASCII,
)


def _date(text: str) -> bool:
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII):
        return False
    year, month, day = map(int, text.split("-"))
    try:
        datetime.date(year or 2000, month, day)  # year 0 is a leap year, as 2000
    except ValueError:
        return False
    return True


def _time(text: str) -> bool:
    found = _TIME.fullmatch(text)
    if not found:
        return False
    hour, minute, second = (int(found[i]) for i in (1, 2, 3))
    offset = 0
    if found[4]:
        if int(found[5]) > 23 or int(found[6]) > 59:
            return False
        offset = (int(found[5]) * 60 + int(found[6])) * (1 if found[4] == "+" else -1)
    if second == 60:  # a leap second is the last one of a day in UTC
        return hour < 24 and minute < 60 and (hour * 60 + minute - offset) % 1440 == 1439
    return hour < 24 and minute < 60 and second < 60


def _date_time(text: str) -> bool:
    return len(text) > 11 and text[10] in "Tt" and _date(text[:10]) and _time(text[11:])


def _hostname(text: str) -> bool:
    if len(text) > 253 or not all(_HOST_LABEL.fullmatch(label) for label in text.split(".")):
        return False
    return all(_is_punycode(label) for label in text.split(".") if label[2:4] == "--")


def _is_punycode(label: str) -> bool:
    if label[:4].lower() != "xn--":
        return False
    try:
        idna.decode(label)
    except (idna.IDNAError, UnicodeError):
        return False
    return True


def _address(text: str, version: Callable[[str], object]) -> bool:
    try:
        version(text)
    except ValueError:
        return False
    return text.isascii() and "%" not in text and "/" not in text


def _ipv4(text: str) -> bool:
    return _address(text, ipaddress.IPv4Address)


def _ipv6(text: str) -> bool:
    return _address(text, ipaddress.IPv6Address)


def _email(text: str) -> bool:
    found = _MAILBOX.fullmatch(text)
    if not found:
        return False
    domain = found[2]
    if domain.startswith("["):
        literal = domain[1:-1]
        return _ipv6(literal[5:]) if literal[:5].lower() == "ipv6:" else _ipv4(literal)
    return bool(_SUBDOMAINS.fullmatch(domain))


def _absolute_or_relative(*forms: re.Pattern[str]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        found = next(filter(None, (form.fullmatch(text) for form in forms)), None)
        if found is None:
            return False
        literal = found["literal"]
        return (
            literal is None or _ipv6(literal) or bool(re.fullmatch(r"[vV][0-9A-Fa-f]+\.[\w.~!$&'()*+,;=:-]+", literal))
        )

    return check


def _base64(text: str, padded: bool = True, altchars: bytes | None = None) -> bool:
    """Whether Python writes the text for some bytes."""
    try:
        content = base64.b64decode(text + "=" * (0 if padded else -len(text) % 4), altchars, validate=True)
    except (binascii.Error, ValueError):
        return False
    written = base64.b64encode(content, altchars).decode()
    return text == (written if padded else written.rstrip("="))


_COLOR_NAMES = "aqua black blue fuchsia gray green lime maroon navy olive orange purple red silver teal white yellow"


RULES: dict[str, Callable[[str], bool]] = {
    "date": _date,
    "time": _time,
    "date-time": _date_time,
    "duration": lambda text: bool(_DURATION.fullmatch(text)),
    "email": _email,
    "hostname": _hostname,
    "ipv4": _ipv4,
    "ipv6": _ipv6,
    "uuid": lambda text: bool(_UUID.fullmatch(text)),
    "uri": _absolute_or_relative(_URI),
    "uri-reference": _absolute_or_relative(_URI, _RELATIVE),
    "iri": _absolute_or_relative(_IRI),
    "iri-reference": _absolute_or_relative(_IRI, _RELATIVE_IRI),
    "uri-template": lambda text: bool(_TEMPLATE.fullmatch(text)),
    "json-pointer": lambda text: bool(_POINTER.fullmatch(text)),
    "relative-json-pointer": lambda text: bool(_RELATIVE_POINTER.fullmatch(text)),
    "byte": _base64,
    "base64url": lambda text: _base64(text, True, b"-_") or _base64(text, False, b"-_"),
    "char": lambda text: len(text) == 1,
    "url": _absolute_or_relative(_URI),
    "color": lambda text: (
        bool(re.fullmatch("#[0-9a-fA-F]{3}([0-9a-fA-F]{3})?", text))
        or (text.isascii() and text.lower() in _COLOR_NAMES.split())
    ),
}


def _within(least: int, most: int) -> Callable[[float | Decimal], bool]:
    return lambda number: number == int(number) and least <= number <= most


NUMBER_RULES: dict[str, Callable[[float | Decimal], bool]] = {
    "double-int": _within(-(2**53) + 1, 2**53 - 1),
    **{
        name: _within(int(np.iinfo(name).min), int(np.iinfo(name).max))
        for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
    },
}
