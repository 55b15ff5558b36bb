"""Parses a response by its template, as transformers does, to prove that a format writes what is read as the same calls.

Source: `transformers.utils.chat_parsing`, whose results the tests compare with.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from logitkit.tools.response_templates.anchors import pattern_anchor
from logitkit.tools.response_templates.call_shape import CallShape
from logitkit.tools.response_templates.document import Field, ResponseTemplate
from logitkit.tools.response_templates.matching import AnchorMatch, Matcher

__all__ = ["RESERVED", "Parsed", "ResponseParser"]

# Characters that stand for strings while JSON with other delimiters is read, so that no string may contain them.
RESERVED = ("\x01", "\x02")
_BARE_NAME = re.compile(r"(?<=[{,])(\w+):")


class Parsed(NamedTuple):
    """The parts of a response.

    Args:
        calls: The calls, each with its name, arguments and id.
        content: The text, without white space around it.
        reasoning: The reasoning, without white space around it.
    """

    calls: list[tuple[str, dict[str, Any], str | None]]
    content: str
    reasoning: str


class ResponseParser:
    """Parses whole responses.

    Args:
        template: The response template.
        shape: Where the parts of a call stand.
    """

    def __init__(self, template: ResponseTemplate, shape: CallShape) -> None:
        self.template, self.shape = template, shape
        self.matcher = Matcher()

    def parse(self, text: str) -> Parsed:
        """Parse a response.

        Raises:
            ValueError: A call cannot be read.
            ConfigurationError: It takes too many steps.
        """
        found: dict[str, list[tuple[str, AnchorMatch | None]]] = {field.name: [] for field in self.template.fields}
        implicit = next((field for field in self.template.fields if field.open is None), None)
        current, opened, start, at = implicit, None, 0, 0
        while True:
            nearest = self._nearest(current, implicit, text, at)
            end = len(text) if nearest is None else nearest[1].begin
            if current is not None and (current.open is not None or end > start):
                found[current.name].append((text[start:end], opened))
            if nearest is None:
                return self._parsed(found)
            field, place = nearest
            if field is None and place.begin == place.end == start:
                # A mark without width that closes nothing would be found again and again.
                return self._parsed(found)
            current, opened = (implicit, None) if field is None else (field, place)
            start = at = place.end

    def _nearest(
        self, current: Field | None, implicit: Field | None, text: str, at: int
    ) -> tuple[Field | None, AnchorMatch] | None:
        """Return the field that is opened next, or None if one is closed, and where."""
        if current is not implicit and current is not None:
            place = None if current.close is None else self.matcher.search(current.close, text, at)
            return None if place is None else (None, place)
        marks: list[tuple[tuple[int, int, int, str], Field | None, AnchorMatch]] = []
        for field in self.template.fields:
            for anchor, target, rank in ((field.open, field, 0), (field.close if field is implicit else None, None, 1)):
                place = None if anchor is None else self.matcher.search(anchor, text, at)
                if place is not None:
                    marks.append(((place.begin, place.begin - place.end, rank, field.name), target, place))
        best = min(marks, key=lambda mark: mark[0], default=None)
        return None if best is None else (best[1], best[2])

    def _parsed(self, found: Mapping[str, list[tuple[str, AnchorMatch | None]]]) -> Parsed:
        calls: list[tuple[str, dict[str, Any], str | None]] = []
        for text, opened in found[self.template.calls.name]:
            groups = {} if opened is None else opened.groups
            value = self._value(text)
            calls += [self._call(item, groups) for item in (value if self.shape.is_list else [value])]
        return Parsed(calls, self._text(self.template.content, found), self._text(self.template.reasoning, found))

    def _text(self, field: Field | None, found: Mapping[str, list[tuple[str, AnchorMatch | None]]]) -> str:
        if field is None:
            return ""
        texts = [text.strip() for text, _ in found[field.name]]
        return ((field.join or "").join(texts) if field.repeats else "".join(texts[-1:])).strip()

    def _value(self, text: str) -> Any:
        field = self.template.calls
        if field.delimiter is not None:
            return _delimited(text, field.delimiter)
        if field.parser == "json":
            return json.loads(text)
        if field.parser == "python-call-list":
            return _keyword_calls(text)
        return self._members(text)

    def _members(self, text: str) -> dict[str, Any]:
        arguments = self.template.calls.arguments or {}
        anchor, at, members = pattern_anchor(arguments["tag_pattern"], "'tag_pattern' of the response template"), 0, {}
        while (place := self.matcher.search(anchor, text, at)) is not None:
            if "key" not in place.groups:
                raise ValueError("a tag without a key")
            members[place.groups["key"]] = self._member(place.groups.get("value", ""), arguments.get("value_parser"))
            at = max(place.end, at + 1)
        return members

    def _member(self, text: str, parser: Mapping[str, Any] | None) -> Any:
        if parser is None:
            return text
        if parser.get("name", "text") == "json":
            try:
                return json.loads(text)
            except ValueError:
                pass
        return text.strip() if parser.get("args", {}).get("strip", True) else text

    def _call(self, item: Any, groups: Mapping[str, str]) -> tuple[str, dict[str, Any], str | None]:
        shape = self.shape
        name: Any = groups.get(shape.group) if shape.group is not None else _at(item, shape.name)
        arguments = _at(item, shape.arguments)
        found = None if shape.id is None else _at(item, shape.id)
        is_call = isinstance(name, str) and isinstance(arguments, dict) and isinstance(found, str | None)
        if not is_call:
            raise ValueError("a call without a name or arguments")
        return name, arguments, found


def _delimited(text: str, delimiter: str) -> Any:
    """Return the value of JSON with other delimiters of strings, and names without quotes.

    Raises:
        ValueError: It is not such a text.
    """
    if any(mark in text for mark in RESERVED):
        raise ValueError("the text contains a character that stands for a string")
    begin, end = RESERVED
    pieces = text.split(delimiter)
    if len(pieces) % 2 == 0:
        raise ValueError("a string does not end")
    strings = pieces[1::2]
    plain = "".join(
        piece + (f"{begin}{number}{end}" if number < len(strings) else "") for number, piece in enumerate(pieces[::2])
    )
    plain = _BARE_NAME.sub(r'"\1":', plain)
    for number, string in enumerate(strings):
        plain = plain.replace(f"{begin}{number}{end}", json.dumps(string))
    return json.loads(plain)


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        if not isinstance(value, dict) or key not in value:
            raise ValueError(f"there is no member {key!r}")
        value = value[key]
    return value


def _keyword_calls(text: str) -> list[dict[str, Any]]:
    """Return the calls of a list such as `[ping(), find(place="Bonn", limit=2)]`.

    Raises:
        ValueError: It is not such a list.
    """
    try:
        listed = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise ValueError("not a list of calls") from error
    items = listed.elts if isinstance(listed, ast.List) else []
    calls = [item for item in items if isinstance(item, ast.Call) and not item.args]
    if not items or len(calls) < len(items):
        raise ValueError("not a list of calls with names of arguments")
    return [{"name": ast.unparse(call.func), "arguments": _keywords(call)} for call in calls]


def _keywords(call: ast.Call) -> dict[str, Any]:
    return {str(keyword.arg): ast.literal_eval(_Literals().visit(keyword.value)) for keyword in call.keywords}


class _Literals(ast.NodeTransformer):
    """Replaces the literals of JSON by those of Python."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        known = {"true": True, "false": False, "null": None}
        return ast.Constant(known[node.id]) if node.id in known else node
