"""Patterns of texts that pydantic's validators accept, for types whose JSON Schema says less than the validator checks.

Each describes a subset: every text of it is valid, and it holds the texts that `dump_json` writes, except rare ones.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from logitkit.json_schema.addresses import IPV4, IPV6
from logitkit.json_schema.dates import DATE

NEVER = "(?!)"
"""No text."""

DAY = f"^(?!0000){DATE}$"
"""A day of the years 0001 to 9999."""

_HOUR_MINUTE = "(?:[01][0-9]|2[0-3]):[0-5][0-9]"
CLOCK = rf"{_HOUR_MINUTE}:[0-5][0-9](?:\.[0-9]{{1,6}})?"
OFFSET = f"(?:Z|[+-]{_HOUR_MINUTE})"


def _some(*units: str) -> str:
    """Return the pattern of one or more units in their order."""
    return "(?:" + "|".join(u + "".join(f"(?:{v})?" for v in units[i + 1 :]) for i, u in enumerate(units)) + ")"


# More digits could exceed the largest timedelta, or what the parser counts in.
_DAYS = _some("[0-9]{1,6}Y", "[0-9]{1,6}M", "[0-9]{1,8}D")
_TIMES = "T" + _some("[0-9]{1,5}H", "[0-9]{1,6}M", r"[0-9]{1,8}(?:\.[0-9]{1,6})?S")
DURATION = f"^-?P(?:[0-9]{{1,6}}W|{_DAYS}(?:{_TIMES})?|{_TIMES})$"

NUMBER = r"(?:0|[1-9][0-9]*)(?:\.[0-9]+)?"
INTEGER = "^(?:0|-?[1-9][0-9]*)$"
COMPLEX = f"^-?(?:{NUMBER}[+-])?{NUMBER}j$"
FRACTION = "^-?(?:0|[1-9][0-9]*)(?:/[1-9][0-9]*)?$"
SIZE = r"^[0-9]{1,9}(?:\.[0-9]{1,6})? ?(?:[kmgtpeKMGTPE]i?)?[bB]$"

# A shorter maximum is counted over the whole text; a longer one is kept by the lengths of the parts, which takes fewer states.
SHORT_URL = 512
_PORT = "(?::(?:[0-9]{1,4}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?"
_CHARACTER = "A-Za-z0-9._~!$&'()*+,;=:@-"
_ESCAPED = "%[0-9A-Fa-f]{2}"
_USER = f"(?:[A-Za-z0-9._~!$&*+-]|{_ESCAPED})"
_HOSTED = ("http", "https", "ws", "wss", "ftp")


def url(schemes: Sequence[str] | None, longest: int | None, *, files: bool = True, opaque: bool = True) -> str:
    """Return the pattern of URLs. With a maximum, they have no user; with a large one, a path may take a part of it only.

    Args:
        schemes: The allowed schemes, None for any.
        longest: The maximum number of characters, None for no maximum.
        files: Whether the scheme may be `file`, whose URLs have no host here.
        opaque: Whether others may have no host, as `urn:isbn:1`.

    Example:
        >>> import re
        >>> bool(re.search(url(["http"], 2083), "http://example.org/a%20b?c=1#d"))
        True
    """
    parts = longest is not None and longest >= SHORT_URL
    # 24 are for `://`, the port, the separators and what follows the units. A unit has at most seven characters: four, and a
    # percent sign with two digits.
    units = ((longest or 0) - max(map(len, schemes or [""])) - _LONGEST_HOST - 24) // 7

    def text(more: str, share: float) -> str:
        plain = f"[{more}{_CHARACTER}]"
        if not parts:
            return f"(?:{plain}|{_ESCAPED})*"
        return f"(?:{plain}{{5}}|{plain}{{0,4}}{_ESCAPED}){{0,{int(units * share)}}}{plain}{{0,4}}"

    tail = rf"(?:\?{text('/?', 0.3)})?(?:#{text('/?', 0.1)})?"
    path = f"(?:/{text('/', 0.6)})?{tail}"
    user = "" if longest is not None else f"(?:{_USER}+(?::{_USER}*)?@)?"
    hosted = rf"://{user}(?:{_domain(parts)}|{IPV4}|\[{IPV6}\]){_PORT}{path}"
    file = f"file:///{text('/', 0.6)}"
    if schemes is not None:
        escaped = "|".join(re.escape(name) for name in schemes if name != "file")
        local = [file] if "file" in schemes and files else []
        return f"^(?:{'|'.join([*local, *([f'(?:{escaped}){hosted}'] if escaped else [])])})$"
    known = "|".join(_HOSTED)
    # The hosts of other schemes are not parsed; without a host it may be, for example, `urn:isbn:1`.
    other = rf"//[A-Za-z0-9.-]+{_PORT}{path}"
    other = rf"(?:{other}|[{_CHARACTER}]{text('/', 0.6)}{tail})" if opaque else other
    before = f"{file}|" if files else ""
    return f"^(?:(?:{known}){hosted}|{before}(?!(?:{known}|file):)[a-z][a-z0-9+.-]*:{other})$"


def _domain(bounded: bool) -> str:
    """Return the pattern of host names.

    No label has two hyphens in a row, so none is Punycode, whose decoded text would have to be valid too. The last label begins
    with a letter, because a host that ends in a number is read as an IPv4 address.
    """
    count, labels = ("{0,30}", "{0,3}") if bounded else ("*", "*")
    return rf"(?:[A-Za-z0-9](?:-?[A-Za-z0-9]){count}\.){labels}[A-Za-z](?:-?[A-Za-z0-9]){count}"


_LONGEST_HOST = 3 * 62 + 61


def uuid(version: int) -> str:
    """Return the pattern of UUIDs of a version."""
    x = "[0-9A-Fa-f]"
    return f"^{x}{{8}}-{x}{{4}}-{version}{x}{{3}}-[89ABab]{x}{{3}}-{x}{{12}}$"


_BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


def base64(last: str, ascii_only: bool = False, lengths: tuple[int, int | None] = (0, None)) -> str:
    """Return the pattern of Base64 with padding.

    Args:
        last: The last two letters of the alphabet: `"+/"` or `"-_"`.
        ascii_only: Whether only ASCII characters are encoded.
        lengths: The minimum and the maximum number of encoded bytes.

    Example:
        >>> import re
        >>> bool(re.search(base64("+/", ascii_only=True), "YWI="))
        True
    """
    letters = _BASE64 + last

    def clear(bits: int) -> str:
        """Return the class of letters in which some bits are zero."""
        return "[" + "".join(c.replace("-", r"\-") for value, c in enumerate(letters) if not value & bits) + "]"

    # The highest bit of each byte is zero in ASCII.
    first, second, third = (clear(bits * ascii_only) for bits in (32, 8, 2))
    one, two = clear(15 | 8 * ascii_only), clear(3)
    least, most = lengths
    choices = []
    for rest, end in enumerate(("", f"{first}{one}==", f"{first}{second}{two}=")):
        low, high = max(least - rest + 2, 0) // 3, None if most is None else (most - rest) // 3
        if high is None or high >= low:
            choices.append(f"(?:{first}{second}{third}{clear(0)}){{{low},{'' if high is None else high}}}{end}")
    return f"^(?:{'|'.join(choices) or NEVER})$"


def _up_to(least: int, most: int) -> str:
    return "(?:" + "|".join(map(str, range(least, most + 1))) + ")"


def _network4(length: int) -> str:
    """Return the pattern of IPv4 networks with a prefix of some bits; the others are zero."""
    whole, part = divmod(length, 8)
    octet = IPV4[3:].partition("(?:\\.")[0]
    shifted = ["(?:" + "|".join(str(v) for v in range(0, 256, 1 << (8 - part))) + ")"] if part else []
    return r"\.".join([octet] * whole + shifted + ["0"] * (4 - whole - len(shifted))) + f"/{length}"


_GROUP = "[0-9A-Fa-f]{1,4}"
_INTERFACE4, _INTERFACE6 = f"{IPV4}(?:/{_up_to(0, 32)})?", f"{IPV6}(?:/{_up_to(0, 128)})?"
_NETWORK4 = "|".join([IPV4, *map(_network4, range(33))])
# Prefixes that hold all groups before `::`.
_NETWORK6 = "|".join(
    [f"{IPV6}(?:/128)?", f"::/{_up_to(0, 128)}", *(f"(?:{_GROUP}:){{{n}}}:/{_up_to(16 * n, 128)}" for n in range(1, 8))]
)

_RESERVED = "(?:arpa|example|invalid|local|localhost|onion|test)"
_MAIL_LABEL = "[a-z0-9](?:-?[a-z0-9]){0,20}"
_EMAIL = rf"^[A-Za-z0-9](?:[._+-]?[A-Za-z0-9]){{0,30}}@(?:{_MAIL_LABEL}\.){{1,3}}(?!{_RESERVED}$)[a-z]{{2,20}}$"

PYDANTIC_FORMATS = {
    "email": _EMAIL,
    "name-email": _EMAIL,
    "ipvanyaddress": f"^(?:{IPV4}|{IPV6})$",
    "ipv4interface": f"^{_INTERFACE4}$",
    "ipv6interface": f"^{_INTERFACE6}$",
    "ipvanyinterface": f"^(?:{_INTERFACE4}|{_INTERFACE6})$",
    "ipv4network": f"^(?:{_NETWORK4})$",
    "ipv6network": f"^(?:{_NETWORK6})$",
    "ipvanynetwork": f"^(?:{_NETWORK4}|{_NETWORK6})$",
}
"""Formats of pydantic's schemas and their patterns."""


def decimal(digits: int | None, places: int | None, sign: str = "-?") -> str:
    """Return the pattern of decimals with at most some digits, of which some are after the point.

    Args:
        digits: The maximum number of digits, None for no maximum.
        places: The maximum number after the point, None for no maximum.
        sign: The pattern before the first digit.

    Example:
        >>> import re
        >>> [bool(re.search(decimal(3, 2), text)) for text in ("-1.25", "12.5")]
        [True, False]
    """

    def form(whole: str, after: int | None) -> str:
        return whole if after == 0 else whole + rf"(?:\.[0-9]{'+' if after is None else f'{{1,{after}}}'})?"

    if digits is None:
        return f"^{sign}{form('(?:0|[1-9][0-9]*)', places)}$"
    if places is not None:
        if digits <= places:
            # Zero has a digit before the point.
            return rf"^{sign}(?!0\.0*$)0\.[0-9]{{1,{places}}}$"
        more = f"|[1-9][0-9]{{0,{digits - places - 1}}}"
        return f"^{sign}{form(f'(?:0{more})', places)}$"
    longer = [form(f"[1-9][0-9]{{{n}}}", digits - n - 1) for n in range(digits)]
    return f"^{sign}(?:{'|'.join([form('0', digits), *longer])})$"
