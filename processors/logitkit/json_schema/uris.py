"""The patterns of URIs, IRIs, URI templates and JSON pointers."""

from __future__ import annotations

from logitkit.json_schema.addresses import IPV6

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
