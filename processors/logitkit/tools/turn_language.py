"""The language of a whole turn: reasoning, then text and calls."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from logitkit.languages import any_text, dispatch, either, literal, regex, sequence, special
from logitkit.languages.dispatching import Dispatch
from logitkit.languages.language import Language
from logitkit.languages.language_writer import LanguageWriter
from logitkit.languages.texts import SpecialToken
from logitkit.patterns.charset import CharSet
from logitkit.patterns.syntax import Characters, Graph, Node
from logitkit.tools.call_language import arguments_language, marker
from logitkit.tools.call_order import CallOrder
from logitkit.tools.definitions import ToolDefinition
from logitkit.tools.formats import ToolFormat
from logitkit.tools.ordered_calls import OrderedCalls

__all__ = ["CallLoop", "turn_language"]

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
        first: list[tuple[Node, int]] = []
        for label, target in graph.moves[0]:
            if target or not isinstance(label, Characters):
                first.append((label, target + 1))
                continue
            # Text goes on. The letters of a trigger, such as a space in it, have labels of their own.
            for charset, to in ((label.charset & WHITE_SPACE, 0), (label.charset - WHITE_SPACE - OPENINGS, 1)):
                first += [(Characters(charset), to)] if charset else []
        later = [tuple([(label, target + 1) for label, target in row]) for row in graph.moves]
        return Graph((tuple(first), *later), (False, *graph.accepting))


def turn_language(
    tools: Sequence[ToolDefinition],
    form: ToolFormat,
    *,
    text: bool,
    calls: bool,
    order: CallOrder,
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
        order: Which calls a turn with calls may have.
        reasoning: The free text of reasoning up to its end marker, which it includes; None: there is none.
        answer: The language of a turn without a call, in place of free text.
        preamble: Whether text may precede calls where there is no free text otherwise.
    """
    turn = (
        _triggered(tools, form, text, calls, order, answer, preamble)
        if form.trigger is not None
        else _anchored(tools, form, text, calls, order, answer)
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
    order: CallOrder,
    answer: Language | None,
    preamble: bool,
) -> Language:
    assert form.trigger is not None
    trigger: str | SpecialToken = special(form.trigger) if form.trigger in form.tokens else form.trigger
    if not calls:
        return answer if answer is not None else any_text(exclude=(trigger, *form.text_free_of))
    start = special(form.trigger) if form.trigger in form.tokens else literal(form.trigger)
    rest = len(form.trigger) if not form.calls_begin else 0
    loop = _calls(tools, form, rest, order, "" if form.calls_begin else form.trigger)
    block = sequence(start, marker(form, form.calls_begin.removeprefix(form.trigger)), loop)
    if text and answer is None:
        return dispatch({trigger: block}, stop_after_first=True, exclude=form.text_free_of)
    if not preamble:
        # Where a call is required, it comes at once: a model that goes on with text might never call.
        called = sequence(_leading(form), block)
        return called if answer is None else either(answer, called)
    called = dispatch({trigger: block}, 1, stop_after_first=True, exclude=form.text_free_of)
    return called if answer is None else either(answer, Preamble(called))


def _anchored(
    tools: Sequence[ToolDefinition],
    form: ToolFormat,
    text: bool,
    calls: bool,
    order: CallOrder,
    answer: Language | None,
) -> Language:
    options: list[Language] = []
    if text:
        options.append(sequence(marker(form, form.text_begin), _text(form) if answer is None else answer))
    if calls:
        loop = _calls(tools, form, 0, order, "")
        options.append(sequence(_leading(form), marker(form, form.calls_begin), loop))
    return either(*options)


def _leading(form: ToolFormat) -> Language:
    """Return the white space that may stand before calls."""
    return either("", form.leading_space) if form.leading_space else literal("")


def _text(form: ToolFormat) -> Language:
    """Return free text that cannot be taken for the beginning of a call."""
    rest = any_text(exclude=form.text_free_of)
    if form.text_begin:
        return rest
    begins = [form.calls_begin + begin for begin, _ in form.heads] + [*form.text_free_of]
    first = re.escape("".join(sorted({begin[0] for begin in begins})))
    return either(regex(r"\s*"), sequence(regex(rf"\s*[^\s{first}]"), rest))


def _calls(tools: Sequence[ToolDefinition], form: ToolFormat, rest: int, order: CallOrder, trigger: str) -> Language:
    """Return the language of all calls of a turn, without some characters of the first, which are the trigger of later ones."""
    between = None if form.separator is None or order.most == 1 else marker(form, form.separator + trigger)
    end = marker(form, form.calls_end)
    if order.is_plain:
        return CallLoop(_call(tools, form, rest), between, end)
    return OrderedCalls(tuple(tools), form, order, rest, between, end)


def _call(tools: Sequence[ToolDefinition], form: ToolFormat, rest: int) -> Language:
    """Return the language of one call, without some characters of its beginning."""
    arguments = {tool.name: arguments_language(tool, form) for tool in tools}
    # Markers that all tools share stand in the tree once.
    ways = [
        sequence(
            marker(form, begin[rest:]),
            either(*(sequence(marker(form, form.named(name, name_end)), inside) for name, inside in arguments.items())),
        )
        for begin, name_end in form.heads
    ]
    return sequence(either(*ways), marker(form, form.call_end))
