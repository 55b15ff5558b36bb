"""Reads a text with one of our formats, whole and in random pieces, and keeps what was read."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from logitkit import ToolFormat, Tools
from logitkit.errors import LogitkitError
from logitkit.tools.formats.call_ids import pieces_of
from logitkit.tools.turn import Turn

# The most characters of a piece, and how often a text is cut.
LONGEST_PIECE = 12
CUTS = 3


@dataclass(frozen=True)
class Reading:
    """A text that a test gave to a parser, and how we read it.

    Args:
        parser: The name of the parser.
        text: The text.
        turn: The turn that was read.
        in_pieces: Whether the same was read in random pieces.
        has_marker: Whether the text that begins calls in the format stands in it, where the format allows calls.
    """

    parser: str
    text: str
    turn: Turn
    in_pieces: bool
    has_marker: bool

    @property
    def writable(self) -> bool:
        """Whether the constraint could have written the text."""
        return self.turn.complete


def definitions_in(form: ToolFormat, given: Any, text: str) -> str:
    """Return the tools of a test as JSON; where it has none, each name that a call in the text may have, with any arguments.

    Args:
        form: The format.
        given: The tools as the test has them: dicts or objects, or None.
        text: The text.
    """
    defined = [one for one in map(_definition, given if isinstance(given, list | tuple) else []) if one is not None]
    return json.dumps(defined or [{"name": name} for name in _names(form, text)])


@cache
def tools_of(form: ToolFormat, definitions: str) -> Tools:
    """Return tools that are defined in JSON; where a schema is refused, they take any arguments."""
    found = json.loads(definitions)
    anything = {"type": "object", "additionalProperties": True}
    try:
        tools = Tools([{"name": one["name"], "parameters": one.get("parameters") or anything} for one in found], form)
        tools.language()
    except LogitkitError:
        return Tools([{"name": one["name"], "parameters": anything} for one in found], form)
    return tools


def _definition(tool: Any) -> dict[str, Any] | None:
    """Return the name and the parameters of a tool."""
    inner = _member(tool, "function")
    name, parameters = (_member(tool if inner is None else inner, key) for key in ("name", "parameters"))
    if not isinstance(name, str):
        return None
    return {"name": name, "parameters": parameters if isinstance(parameters, Mapping) else None}


def _member(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _names(form: ToolFormat, text: str) -> list[str]:
    """Return what may be the names of calls in a text: words after what stands before a name, or before what follows one."""
    found: dict[str, None] = {}
    for begin, end in form.heads:
        before = (pieces_of(begin) or [""])[-1][-3:]
        after = "" if before else end[:1]
        for word in re.findall(re.escape(before) + r"([\w.:/-]+)" + re.escape(after), text):
            # Between the name and what follows, a format may have a number.
            found |= dict.fromkeys((word, word.partition(":")[0]) if ":" in word else (word,))
    return [name for name in found if re.fullmatch(r"[\w./-]+", name)] or ["no_name_found"]


def read(parser: str, forms: Sequence[ToolFormat], given: Any, text: str, reasoning: bool = False) -> Reading:
    """Read a text whole, and in random pieces, with the format of several that can write it, or that finds calls in it.

    Args:
        parser: The name of the parser.
        forms: The formats.
        given: The tools of the test.
        text: The text.
        reasoning: Whether it begins with reasoning.
    """
    found = [_read(parser, form, definitions_in(form, given, text), text, reasoning) for form in forms]
    return max(found, key=lambda one: (one.writable and bool(one.turn.calls), len(one.turn.calls), one.has_marker))


@cache
def _read(parser: str, form: ToolFormat, definitions: str, text: str, reasoning: bool) -> Reading:
    tools = tools_of(form, definitions)
    tools = replace(tools, reasoning=True) if reasoning else tools
    turn = tools.parse(text)
    draw = random.Random(text)
    alike = True
    for _ in range(CUTS):
        stream, at = tools.stream(), 0
        while at < len(text):
            size = draw.randint(1, LONGEST_PIECE)
            stream.feed(text[at : at + size])
            at += size
        alike = alike and stream.finish()[1] == turn
    return Reading(parser, text, turn, alike, has_marker(form, text))


def has_marker(form: ToolFormat, text: str) -> bool:
    """Whether calls begin in a text: at a trigger; without one, at the beginning only."""
    if form.trigger is not None:
        return form.trigger in text
    begins = [(pieces_of(form.calls_begin + begin) or [""])[0] for begin, _ in form.heads]
    return any(text.lstrip().startswith(begin) for begin in begins)
