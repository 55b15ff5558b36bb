"""Reading JSON text, or arguments between tags, that may stop anywhere, into a tree whose last values may be open."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from decimal import Decimal

from logitkit.languages.xml_arguments import XmlArguments
from logitkit.tools.json_values import value_of_text

__all__ = ["JsonNode", "as_json", "closed_at_the_end", "read_json"]

_CHARACTERS = rb"""(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"""
_STRING = re.compile(b'"' + _CHARACTERS + rb'("|\\(?:u[0-9a-fA-F]{0,3})?(?!.))?', re.DOTALL)
_DIGITS = rb"(?:0|[1-9][0-9]*)"
_SCALAR = re.compile(rb"-?" + _DIGITS + rb"(?:\.(?:[0-9]+(?:[eE][-+]?[0-9]*)?)?|[eE][-+]?[0-9]*)?|-|[a-z]+")
_EXPONENT = re.compile(rb"[eE]([-+]?[0-9]*)$")
# The largest exponent that is written out.
_MOST_DIGITS = 3
_LITERALS = {b"true": "boolean", b"false": "boolean", b"null": "null"}
_BRACKETS = {"object": "{", "array": "["}


@dataclass(frozen=True, slots=True)
class JsonNode:
    """A JSON value, or the beginning of one.

    Args:
        kind: Its JSON type; `unknown` for a value that has not begun, or begins with a byte that cannot.
        raw: Its text, as far as it is there; empty if it is not known.
        closed: Whether the text of the value is complete.
        keys: For an object, the names of its members; the last one may be open.
        children: The values of the members, or the items; None for a member whose value has not begun.
        more: Whether a comma follows the last child, so that another one is expected.
    """

    kind: str
    raw: bytes
    closed: bool
    keys: tuple[JsonNode, ...] = ()
    children: tuple[JsonNode | None, ...] = ()
    more: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the members of an object."""
        return tuple(key.text for key in self.keys)

    @property
    def members(self) -> list[tuple[JsonNode, JsonNode | None]]:
        """The names and values of the members of an object."""
        return [*zip(self.keys, self.children, strict=True)]

    @property
    def open_brackets(self) -> str:
        """The brackets that are open at the end, outermost first."""
        if self.closed or self.kind not in _BRACKETS:
            return ""
        last = self.children[-1] if self.children else None
        return _BRACKETS[self.kind] + (last.open_brackets if last else "")

    @property
    def text(self) -> str:
        """The characters of a string, without an incomplete one at its end."""
        (written,) = re.findall(b"^" + _CHARACTERS, self.raw[1 : -1 if self.closed else None])
        return str(json.loads('"' + written.decode("utf-8", "ignore") + '"'))

    @property
    def respelled(self) -> bytes:
        r"""The text of a string without needless escapes, or that of a number without an exponent; other text as it is.

        Example:
            >>> read_json(rb'["\u0061", 15e-1, 1]')[0].children[0].respelled
            b'"a"'
        """
        if self.kind == "string" and b"\\" in self.raw:
            found = json.dumps(self.text, ensure_ascii=False).encode("utf-8", "surrogatepass")
            return found if self.closed else found[:-1]
        exponent = _EXPONENT.search(self.raw) if self.kind == "number" else None
        if exponent is None:
            return self.raw
        digits = exponent[1].lstrip(b"+-")
        # While its digits are missing, the number may still become any other one.
        return format(Decimal(self.raw.decode()), "f").encode() if 0 < len(digits) <= _MOST_DIGITS else b""


def read_json(text: bytes) -> tuple[JsonNode | None, int]:
    """Read JSON text as far as it goes.

    Args:
        text: The text; it may stop anywhere.

    Returns:
        The value, or None if it has not begun; and how many bytes there are before the end, or before a byte that cannot stand
        there in any JSON text.

    Example:
        >>> read_json(b'[1,{"a"')[0].children[1].names
        ('a',)
        >>> read_json(b"[1 2]")[1]
        3
    """
    reader = _Reader(text)
    node = reader.value()
    reader.peek()
    return node, reader.at


def closed_at_the_end(
    node: JsonNode, every: bool = False, following: JsonNode | None = None, after_comma: bool = True
) -> JsonNode:
    """Return a value that is closed where it stands.

    After a comma, it gets one unknown child more instead. A name without a value is left out.

    Args:
        node: The value.
        every: Whether to close all open values, and not only the innermost one.
        following: The name of the member after a comma at the end; None: it is not known.
        after_comma: Whether a child follows a comma at the end; if not, the comma is left out.
    """
    last = node.children[-1] if node.children else None
    if node.more and after_comma:
        name = following or JsonNode("string", b'"\\u0000"', closed=True)
        keys = (*node.keys, name) if node.keys else ()
        return replace(node, keys=keys, children=(*node.children, JsonNode("unknown", b"", closed=False)))
    if last is not None and not last.closed:
        inside = closed_at_the_end(last, every, following, after_comma)
        return replace(node, children=(*node.children[:-1], inside), raw=b"", closed=every)
    if node.kind in ("array", "object"):
        named = len(node.children) - (node.kind == "object" and last is None)
        keys, children = node.keys[:named], node.children[:named]
        return replace(node, raw=b"", closed=True, keys=keys, children=children, more=False)
    word = next((word for word in _LITERALS if word.startswith(node.raw)), node.raw)
    # With an exponent, it might be any number.
    digit = b"" if _EXPONENT.search(node.raw) else b"1"
    ended = {"string": node.raw + b'"', "number": node.raw + digit * (not node.raw[-1:].isdigit())}
    return node if node.closed else replace(node, raw=ended.get(node.kind, word), closed=True)


class _Reader:
    def __init__(self, text: bytes) -> None:
        self.text, self.at = text, 0

    def peek(self) -> bytes:
        """Return the next byte that is not white space, and stop there."""
        while self.text[self.at : self.at + 1] in (b" ", b"\t", b"\n", b"\r"):
            self.at += 1
        return self.text[self.at : self.at + 1]

    def takes(self, byte: bytes) -> bool:
        """Read a byte if it is the next one."""
        found = self.peek() == byte
        self.at += found
        return found

    def value(self) -> JsonNode | None:
        first = self.peek()
        if first and first in b"{[":
            return self.container("object", b"}") if first == b"{" else self.container("array", b"]")
        found = (_STRING if first == b'"' else _SCALAR).match(self.text, self.at)
        raw = found.group() if found else b""
        if first == b'"':
            kind, closed = "string", bool(found and found.group(1) == b'"')
        elif first and first in b"-0123456789":
            kind, closed = "number", raw[-1:].isdigit() and self.at + len(raw) < len(self.text)
        else:
            word = next((word for word in _LITERALS if raw and word.startswith(raw)), None)
            if word is None:
                return JsonNode("unknown", raw or first, closed=False) if first and first not in b"]},:" else None
            kind, closed = _LITERALS[word], raw == word
        self.at += len(raw)
        return JsonNode(kind, raw, closed)

    def container(self, kind: str, end: bytes) -> JsonNode:
        start = self.at
        keys: list[JsonNode] = []
        children: list[JsonNode | None] = []
        self.at += 1
        more, closed = False, self.takes(end)
        while not closed:
            child = self.value() if kind == "array" or self.peek() == b'"' else None
            if child is None:
                break
            if kind == "object":
                keys.append(child)
                child = self.value() if self.takes(b":") else None
            children.append(child)
            ended = child is not None and child.closed
            closed = ended and self.takes(end)
            more = ended and not closed and self.takes(b",")
            if not more:
                break
        return JsonNode(kind, self.text[start : self.at], closed, (*keys,), (*children,), more)


def as_json(language: XmlArguments, text: bytes) -> bytes:
    r"""Return the members of an object between tags as JSON, as far as they are there.

    Args:
        language: The language of the members.
        text: The tags; they may stop anywhere.

    Example:
        >>> language = XmlArguments({"properties": {"n": {"type": "integer"}}}, "<p={name}>", "</p>", "")
        >>> as_json(language, b'<p=s>a"b</p><p=n>3')
        b'{"s":"a\\"b","n":3'
    """
    tags = language.tags
    if not tags.before_name:
        # Where no text stands before names, it is not known where members begin.
        return b"{"
    found = []
    for part in text.decode("utf-8", "ignore").split(tags.before_name)[1:]:
        after = next((after for after in tags.after_names if after in part), tags.after_names[0])
        name, named, rest = part.partition(after)
        value, ended, _ = rest.partition(language.end)
        is_string = after == tags.after_names[0] if tags.tells_kinds and named else _is_string(language, name)
        if not is_string:
            found.append(f"{json.dumps(name)}:{_in_json(language, value, ended=bool(ended))}")
        elif named:
            found.append(f"{json.dumps(name)}:{json.dumps(value, ensure_ascii=False)}"[: None if ended else -1])
        else:
            found.append(json.dumps(name)[:-1])
    return ("{" + ",".join(found)).encode()


def _in_json(language: XmlArguments, value: str, *, ended: bool) -> str:
    """Return the JSON text of a value that is written as Python shows it, or nothing while it goes on."""
    if language.strings != "python":
        return value
    try:
        return json.dumps(value_of_text(value, language.literals, language.strings)) if ended else ""
    except (ValueError, RecursionError):
        return ""


def _is_string(language: XmlArguments, name: str) -> bool:
    """Whether a value is written as raw text."""
    schema = language.schema.get("properties", {}).get(name, {}) if isinstance(language.schema, dict) else {}
    return not isinstance(schema, dict) or schema.get("type", "string") == "string"
