"""The patterns of network addresses, host names and e-mail addresses."""

from __future__ import annotations

import unicodedata

_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
IPV4 = rf"(?:{_OCTET}(?:\.{_OCTET}){{3}})"
"""RFC 2673, section 3.2, without leading zeros."""

_GROUP = "[0-9A-Fa-f]{1,4}"
_LAST_TWO = f"(?:{_GROUP}:{_GROUP}|{IPV4})"


def _shortened(before: int) -> str:
    """Return the pattern of an address in which `::` has up to so many groups before it."""
    left = f"(?:{_GROUP}(?::{_GROUP}){{0,{before - 1}}})?" if before else ""
    behind = 7 - before
    if behind < 2:
        return f"{left}::{_GROUP * behind}"
    return f"{left}::(?:{_GROUP}:){{{behind - 2}}}{_LAST_TWO}"


IPV6 = f"(?:(?:{_GROUP}:){{6}}{_LAST_TWO}|" + "|".join(_shortened(before) for before in range(8)) + ")"
"""RFC 4291, section 2.2, without zones."""

_LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
HOSTNAME = rf"(?:{_LABEL}(?:\.{_LABEL})*)"
"""RFC 1123: labels of up to 63 characters. The length of the whole name is no part of the grammar."""

_ATOM = r"A-Za-z0-9!#$%&'*+/=?^_`{|}~\-"
_SNUM = "(?:25[0-5]|2[0-4][0-9]|[01]?[0-9]{1,2})"
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
    address = rf"\[(?:{_SNUM}(?:\.{_SNUM}){{3}}|[Ii][Pp][Vv]6:{_MAIL_IPV6})\]"
    return rf"(?:(?:{local}|{quoted})@(?:{subdomain}(?:\.{subdomain})*|{address}))"


_SUBDOMAIN = "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
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


_LETTERS = "A-Za-z0-9" + _plain_letters()
IDN_EMAIL = _mailbox("\x80-\ud7ff\ue000-\U0010ffff", f"[{_LETTERS}](?:[{_LETTERS}-]*[{_LETTERS}])?")
"""The `Mailbox` of RFC 6531; in domains, of the scripts beyond ASCII, Latin, Greek, Cyrillic, kana, Han and Hangul."""
