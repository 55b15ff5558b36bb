"""The language of a whole turn: reasoning, then text and calls."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from logitkit.languages import any_text, dispatch, either, json_schema, literal, regex, sequence, special, xml_arguments
from logitkit.languages.dispatching import Dispatch
from logitkit.languages.json_strings import JsonStringOf
from logitkit.languages.language import Language
from logitkit.languages.language_writer import LanguageWriter
from logitkit.languages.schemas import LocatedSchema
from logitkit.languages.texts import SpecialToken
from logitkit.patterns.charset import CharSet
from logitkit.patterns.syntax import Characters, Graph, Node
from logitkit.tools.custom_tools import INPUT
from logitkit.tools.definitions import ToolDefinition
from logitkit.tools.formats import ToolFormat

__all__ = ["CallLoop", "arguments_language", "turn_language"]

WHITE_SPACE, OPENINGS = CharSet.from_string(" \t\r\n"), CharSet.from_string('{["')


@dataclass(frozen=True)
class CallLoop(Language):
    """One or more calls with a text between two of them, and a text after the last; each call stands in the tree once."""

    call: Language
    between: Language | None
    end: Language

    @property
    def parts(self) -> tuple[Language, ...]:
        """The languages that it is built from."""
        return (self.call, self.end) if self.between is None else (self.call, self.between, self.end)

    def tree(self, writer: LanguageWriter) -> Node:
        """Return the syntax tree."""
        again = () if self.between is None else ((self.between.tree(writer), 0),)
        return Graph((((self.call.tree(writer), 1),), (*again, (self.end.tree(writer), 2)), ()), (False, False, True))


@dataclass(frozen=True)
class Preamble(Language):
    """Text up to calls. After white space if any, it does not begin with a brace, bracket or quote, as an answer may."""

    turn: Dispatch

    @property
    def parts(self) -> tuple[Language, ...]:
        """The language that it is built from."""
        return (self.turn,)

    def tree(self, writer: LanguageWriter) -> Node:
        """Return the syntax tree: that of the text, with a state before it."""
        graph = self.turn.tree(writer)
        others, *rest = graph.moves[0]
        assert isinstance(others[0], Characters)
        first = (
            (Characters(others[0].charset & WHITE_SPACE), 0),
            (Characters(others[0].charset - WHITE_SPACE - OPENINGS), 1),
            *((label, target + 1) for label, target in rest),
        )
        later = [tuple([(label, target + 1) for label, target in row]) for row in graph.moves]
        return Graph((first, *later), (False, *graph.accepting))


def arguments_language(tool: ToolDefinition, form: ToolFormat) -> Language:
    """Return the language of the arguments of a tool."""
    if tool.grammar is not None and form.arguments == "json":
        return sequence("{", regex(f'"{INPUT}": ?'), JsonStringOf(tool.grammar), "}")
    if tool.grammar is not None:
        return sequence(form.parameter_begin.replace("{name}", INPUT), tool.grammar, form.parameter_ends.longest)
    found: Language = (
        json_schema(tool.schema, whitespace=form.whitespace)
        if form.arguments == "json"
        else xml_arguments(
            tool.schema,
            begin=form.parameter_begin,
            end=form.parameter_end,
            end_also=form.parameter_end_also,
            separator="",
            whitespace=form.whitespace,
        )
    )
    # Of hundreds of tools, an error has to name the one that it is about.
    return LocatedSchema(found, f"tools[{tool.name!r}]")


def turn_language(
    tools: Sequence[ToolDefinition],
    form: ToolFormat,
    *,
    text: bool,
    calls: bool,
    parallel: bool,
    reasoning: Language | None,
    answer: Language | None,
    preamble: bool,
) -> Language:
    """Return the language of a turn.

    Args:
        tools: The tools that may be called.
        form: The format.
        text: Whether a turn without a call is allowed.
        calls: Whether a turn with a call is allowed.
        parallel: Whether several calls are allowed.
        reasoning: The free text of reasoning up to its end marker, which it includes; None: there is none.
        answer: The language of a turn without a call, in place of free text.
        preamble: Whether text may precede calls where there is no free text otherwise.
    """
    turn = (
        _triggered(tools, form, text, calls, parallel, answer, preamble)
        if form.trigger is not None
        else _anchored(tools, form, text, calls, parallel, answer)
    )
    if reasoning is None:
        return turn
    opened = [marker(form, form.reasoning_begin)] if form.reasoning_opened else []
    # In free text, white space after reasoning is text.
    free = form.trigger is not None and text and answer is None
    gap = [] if form.reasoning_opened or free else [regex("\n{0,2}")]
    return sequence(*opened, reasoning, *gap, turn)


def _triggered(
    tools: Sequence[ToolDefinition],
    form: ToolFormat,
    text: bool,
    calls: bool,
    parallel: bool,
    answer: Language | None,
    preamble: bool,
) -> Language:
    assert form.trigger is not None
    trigger: str | SpecialToken = special(form.trigger) if form.trigger in form.tokens else form.trigger
    if not calls:
        return answer if answer is not None else any_text(exclude=trigger)
    start = special(form.trigger) if form.trigger in form.tokens else literal(form.trigger)
    rest = len(form.trigger) if not form.calls_begin else 0
    call = _call(tools, form, rest)
    again = marker(form, (form.separator or "") + ("" if form.calls_begin else form.trigger))
    loop = CallLoop(call, again if parallel and form.separator is not None else None, marker(form, form.calls_end))
    block = sequence(start, loop)
    if text and answer is None:
        return dispatch({trigger: block}, stop_after_first=True)
    if not preamble:
        # Where a call is required, it comes at once: a model that goes on with text might never call.
        return block if answer is None else either(answer, block)
    called = dispatch({trigger: block}, 1, stop_after_first=True)
    return called if answer is None else either(answer, Preamble(called))


def _anchored(
    tools: Sequence[ToolDefinition], form: ToolFormat, text: bool, calls: bool, parallel: bool, answer: Language | None
) -> Language:
    options: list[Language] = []
    if text:
        options.append(sequence(marker(form, form.text_begin), _text(form) if answer is None else answer))
    if calls:
        between = marker(form, form.separator) if parallel and form.separator is not None else None
        loop = CallLoop(_call(tools, form, 0), between, marker(form, form.calls_end))
        options.append(sequence(marker(form, form.calls_begin), loop))
    return either(*options)


def _text(form: ToolFormat) -> Language:
    """Return free text that cannot be taken for the beginning of a call."""
    if form.text_begin:
        return any_text()
    first = re.escape("".join(sorted({(form.calls_begin + begin)[0] for begin, _ in form.heads})))
    return either(regex(r"\s*"), sequence(regex(rf"\s*[^\s{first}]"), any_text()))


def _call(tools: Sequence[ToolDefinition], form: ToolFormat, rest: int) -> Language:
    """Return the language of one call, without some characters of its beginning."""
    arguments = {tool.name: arguments_language(tool, form) for tool in tools}
    # Markers that all tools share stand in the tree once.
    ways = [
        sequence(
            marker(form, begin[rest:]),
            either(*(sequence(marker(form, name + name_end), inside) for name, inside in arguments.items())),
        )
        for begin, name_end in form.heads
    ]
    return sequence(either(*ways), marker(form, form.call_end))


def marker(form: ToolFormat, text: str) -> Language:
    """Return the language of a marker, in which some special tokens count only as tokens."""
    if not form.tokens:
        return literal(text)
    names = sorted(form.tokens, key=len, reverse=True)
    pieces = re.split(f"({'|'.join(map(re.escape, names))})", text)
    found = [special(piece) if piece in form.tokens else literal(piece) for piece in pieces if piece]
    return sequence(*found)
