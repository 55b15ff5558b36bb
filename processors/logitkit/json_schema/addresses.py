"""The patterns of network addresses, host names, e-mail addresses, URIs and JSON pointers."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from functools import partial

_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
IPV4 = rf"(?:{_OCTET}(?:\.{_OCTET}){{3}})"
"""RFC 2673, section 3.2, without leading zeros."""

_GROUP = "[0-9A-Fa-f]{1,4}"
_LAST_TWO = f"(?:{_GROUP}:{_GROUP}|{IPV4})"


def _shortened(before: int) -> str:
    """Return the pattern of an address in which `::` has up to `before` groups before it."""
    left = f"(?:{_GROUP}(?::{_GROUP}){{0,{before - 1}}})?" if before else ""
    groups_after = 7 - before
    if groups_after < 2:
        return f"{left}::{_GROUP * groups_after}"
    return f"{left}::(?:{_GROUP}:){{{groups_after - 2}}}{_LAST_TWO}"


IPV6 = f"(?:(?:{_GROUP}:){{6}}{_LAST_TWO}|" + "|".join(_shortened(before) for before in range(8)) + ")"
"""RFC 4291, section 2.2, without zones."""

_ASCII = "A-Za-z0-9"


def _label(letters: str, most: int, marks: str = "") -> str:
    """Return the pattern of a label of at most `most` characters: no hyphen at its ends, nor two in the third place.

    Args:
        letters: The characters that it may begin with.
        most: Most characters.
        marks: Characters that it may also hold, but not begin with.
    """
    first, some, any_ = f"[{letters}]", f"[{letters}{marks}]", f"[{letters}{marks}-]"
    longer = f"{first}{any_}(?:{some}{any_}|-{some}){any_}{{0,{most - 5}}}{some}"
    return f"(?:{first}(?:{any_}{{0,2}}{some})?|{longer})"


LONGEST_HOSTNAME = 253
"""RFC 1034, section 3.1: 255 octets, of which one is the length of each label but the first, and two are those of the ends."""

# Numbers of labels, and the characters that each may have, so that they are never too long together.
_SHORT_ENOUGH = ((3, 63), (4, 62), (6, 41), (8, 30), (12, 20), (25, 9))


def _hostnames(label: Callable[[int], str]) -> tuple[str, str]:
    """Return the pattern of all host names, whatever their length, and that of those which are short enough for sure."""
    short = [rf"{label(size)}(?:\.{label(size)}){{0,{count - 1}}}" for count, size in _SHORT_ENOUGH]
    return rf"(?:{label(63)}(?:\.{label(63)})*)", f"(?:{'|'.join(short)})"


def _old_label(most: int) -> str:
    return f"[{_ASCII}](?:[{_ASCII}-]{{0,{most - 2}}}[{_ASCII}])?"


HOSTNAME, SHORT_HOSTNAME = _hostnames(partial(_label, _ASCII))
"""RFC 1123 and RFC 5891, without A-labels, which begin with `xn--`: labels of up to 63 characters."""

_ANY_LABEL = f"(?:{_label(_ASCII, 63)}|[Xx][Nn]--[{_ASCII}-]{{0,58}}[{_ASCII}])"
ANY_HOSTNAME = rf"(?:{_ANY_LABEL}(?:\.{_ANY_LABEL})*)"
"""The same with A-labels, of which some are not valid: no automaton of a possible size decodes Punycode."""

OLD_HOSTNAME, SHORT_OLD_HOSTNAME = _hostnames(_old_label)
"""RFC 1123 alone, as before draft 7: two hyphens may stand anywhere inside a label."""

_ATOM = r"A-Za-z0-9!#$%&'*+/=?^_`{|}~\-"
# `::` stands for at least two groups there.
_MAIL_IPV6 = (
    f"(?:{_GROUP}(?::{_GROUP}){{7}}|{_GROUP}(?::{_GROUP}){{5}}:{IPV4}|"
    + "|".join(
        f"(?:{_GROUP}(?::{_GROUP}){{{n - 1}}})?::(?:{_GROUP}(?::{_GROUP}){{0,{5 - n}}})?"
        if n
        else f"::(?:{_GROUP}(?::{_GROUP}){{0,5}})?"
        for n in range(6)
    )
    + ")"
)


def _mailbox(more: str, subdomain: str) -> str:
    local = rf"[{_ATOM}{more}]+(?:\.[{_ATOM}{more}]+)*"
    quoted = rf'"(?:[\x20\x21\x23-\x5b\x5d-\x7e{more}]|\\[\x20-\x7e])*"'
    address = rf"\[(?:{IPV4}|[Ii][Pp][Vv]6:{_MAIL_IPV6})\]"
    return rf"(?:(?:{local}|{quoted})@(?:{subdomain}(?:\.{subdomain})*|{address}))"


# How long the parts may be is no matter of the grammar, which is what the standard refers to.
_SUBDOMAIN = f"[{_ASCII}](?:[{_ASCII}-]*[{_ASCII}])?"
EMAIL = _mailbox("", _SUBDOMAIN)
"""The `Mailbox` of RFC 5321, section 4.1.2."""


def _plain_letters() -> str:
    """Return the members of a class: lower-case letters that IDNA takes wherever they stand, up to the Cyrillic ones."""
    found = [
        c
        for c in map(chr, range(0xDF, 0x530))
        if unicodedata.category(c) == "Ll" and unicodedata.normalize("NFKC", c).casefold() == c
    ]
    return "".join(found) + "\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fff\uac00-\ud7a3"


# However far apart they are, eleven characters take no more than 63 in Punycode.
# The marks are those of which letters are put together where a text is not normalised.
_INTERNATIONAL = _label("a-z0-9" + _plain_letters(), 11, marks="\u0300-\u036f")
_BEYOND_ASCII = r"\x80-\ud7ff\ue000-\U0010ffff"
IDN_EMAIL = _mailbox(_BEYOND_ASCII, f"(?:{_SUBDOMAIN}|{_INTERNATIONAL})")
"""The `Mailbox` of RFC 6531; in domains, of the scripts beyond ASCII, Latin, Greek, Cyrillic, kana, Han and Hangul."""

ANY_IDN_EMAIL = _mailbox(_BEYOND_ASCII, f"[{_ASCII}{_BEYOND_ASCII}-]+")
"""The same with all domains of all scripts, of which some are not valid."""


_ESCAPED = "%[0-9A-Fa-f]{2}"
_UNRESERVED = "A-Za-z0-9._~-"
_DELIMITERS = "!$&'()*+,;="
# The additions of RFC 3987: to the unreserved characters, and to those of a query.
_UCS = "\xa0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef" + "".join(
    f"{chr(plane << 16 if plane != 0xE else 0xE1000)}-{chr(plane << 16 | 0xFFFD)}" for plane in range(1, 0xF)
)
_PRIVATE = "\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd"


def _character(members: str, more: str) -> str:
    # The hyphen is the last of the unreserved ones, so they come last.
    return f"(?:[{members}{_DELIMITERS}{more}{_UNRESERVED}]|{_ESCAPED})"


def _uri(more: str, private: str) -> tuple[str, str]:
    """Return the patterns of whole URIs and of relative references."""
    path = _character(":@", more)
    tail = _character("/?:@" + private, more)
    anything = f"(?:/{path}*)*"
    address = rf"\[(?:{IPV6}|[vV][0-9A-Fa-f]+\.[{_DELIMITERS}:{_UNRESERVED}]+)\]"
    authority = f"(?:{_character(':', more)}*@)?(?:{address}|{_character('', more)}*)(?::[0-9]*)?"
    absolute = f"/(?:{path}+{anything})?"
    after = rf"(?:\?{tail}*)?(?:#{_character('/?:@', more)}*)?"
    scheme = "[A-Za-z][A-Za-z0-9+.-]*"
    whole = f"(?:{scheme}:(?://{authority}{anything}|{absolute}|{path}+{anything}|){after})"
    relative = f"(?:(?://{authority}{anything}|{absolute}|{_character('@', more)}+{anything}|){after})"
    return whole, relative


URI, _RELATIVE = _uri("", "")
URI_REFERENCE = f"(?:{URI}|{_RELATIVE})"
"""RFC 3986."""
IRI, _RELATIVE = _uri(_UCS, _PRIVATE)
IRI_REFERENCE = f"(?:{IRI}|{_RELATIVE})"
"""RFC 3987."""

_LITERAL = rf"(?:[!#$&'()*+,\-./0-9:;=?@A-Z\[\]_a-z~{_UCS}{_PRIVATE}]|{_ESCAPED})"
_NAME_CHARACTER = f"(?:[A-Za-z0-9_]|{_ESCAPED})"
_NAME = rf"{_NAME_CHARACTER}(?:\.?{_NAME_CHARACTER})*"
_VARIABLE = rf"{_NAME}(?::[1-9][0-9]{{0,3}}|\*)?"
URI_TEMPLATE = rf"(?:{_LITERAL}|\{{[+#./;?&=,!@|]?{_VARIABLE}(?:,{_VARIABLE})*\}})*"
"""RFC 6570, section 2, with apostrophes in literals, which the official suite takes for valid."""

JSON_POINTER = "(?:/(?:[^~/]|~[01])*)*"
"""RFC 6901, section 5."""
RELATIVE_JSON_POINTER = f"(?:0|[1-9][0-9]*)(?:#|{JSON_POINTER})"
"""Relative JSON pointers, without the index manipulation of the latest draft."""
