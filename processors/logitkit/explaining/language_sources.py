"""The innermost parts of a language that refuse a byte."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from logitkit.explaining.findings import Source
from logitkit.explaining.open_json import as_json, read_json
from logitkit.explaining.pattern_sources import automaton, is_legal, pattern_sources
from logitkit.explaining.schema_sources import schema_sources
from logitkit.explaining.token_texts import shortened
from logitkit.grammars.chart import TooManyItems
from logitkit.languages.combined import InOrder, OneOf, Repeated, sequence
from logitkit.languages.dispatching import Dispatch
from logitkit.languages.free_text import AnyText
from logitkit.languages.language import Language
from logitkit.languages.schemas import JsonValue, LocatedSchema
from logitkit.languages.texts import LiteralText, OneText, RegexText, SpecialToken
from logitkit.languages.xml_arguments import XmlArguments
from logitkit.patterns.charset import ANY
from logitkit.structural_tags.triggered import TriggeredText
from logitkit.tools.ordered_calls import OrderedCalls
from logitkit.tools.turn_language import CallLoop
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["language_sources"]

# A text that can be split in more ways is not followed any further.
_MOST_STEPS = 500_000
_MOST_SOURCES = 4


def language_sources(
    language: Language, written: bytes, rest: bytes, vocabulary: Vocabulary, tools: Mapping[Language, str] | None = None
) -> tuple[Source, ...]:
    """Return which parts of a language refuse a byte.

    The text before the byte is split over the parts in all ways that are legal. If no part can be blamed, because a number of
    repetitions or the text after the byte is the reason, or because there are too many ways, none is returned.

    Args:
        language: The language.
        written: The text before the byte, with special tokens by their names; it is the beginning of a legal text.
        rest: The text from that byte on, as far as it is known; empty where the text ends too early.
        vocabulary: The tokens, which have the names of special tokens.
        tools: The names of tools, by the parts of the language that are their calls.

    Example:
        >>> from logitkit.languages import choice, json_schema, sequence
        >>> answer = sequence(choice(["yes", "no"]), ": ", json_schema({"maximum": 5, "type": "integer"}))
        >>> vocabulary = Vocabulary([b"a", None], eos_ids=[1])
        >>> language_sources(answer, b"no: ", b"7", vocabulary)[0].text
        'maximum: 5'
    """
    search = _PartSearch(written + rest, len(written), vocabulary, tools or {})
    try:
        search.endings(language, 0, None)
        refusing = ((part, source) for part in search.refusing() for source in search.sources(part))
        found = dict.fromkeys(
            replace(source, tool=part.tool if source.kind != "tool" else None) for part, source in refusing
        )
    except TooManyItems:
        found = {}
    return (*found,)[:_MOST_SOURCES]


class _OpenPart(NamedTuple):
    """A part without parts that has not ended before the byte.

    Args:
        language: The part, with special tokens by their names.
        start: Where it begins in the text.
        complete: Whether it might end before the byte.
        tool: The tool whose call it belongs to.
    """

    language: Language
    start: int
    complete: bool
    tool: str | None


class _PartSearch:
    def __init__(self, text: bytes, at: int, vocabulary: Vocabulary, tools: Mapping[Language, str]) -> None:
        self.text, self.at, self.tools, self.steps = text, at, tools, 0
        self.vocabulary = vocabulary
        self.open: list[_OpenPart] = []
        self.known: dict[tuple[Language, int], set[int]] = {}

    def endings(self, part: Language, start: int, tool: str | None) -> set[int]:
        """Return where a part of the language that begins somewhere may end, up to the byte."""
        if (part, start) not in self.known:
            tool = self.tools.get(part, tool)
            graph = _graph(part)
            found = self._leaf(part, start, tool) if graph is None else self._through(graph, start, tool)
            self.known[part, start] = found
        return self.known[part, start]

    def refusing(self) -> Iterator[_OpenPart]:
        """Return the open parts that refuse the byte, those that have begun first."""
        for part in sorted(self.open, key=lambda part: part.start == self.at):
            continues = is_legal(part.language, self.text[part.start : self.at + 1], complete=False)
            if continues is not None and not (continues and self.at < len(self.text)):
                yield part

    def sources(self, part: _OpenPart) -> tuple[Source, ...]:
        """Return where an open part is defined."""
        language, start, complete, tool = part
        written, rest = self.text[start : self.at], self.text[self.at :]
        if isinstance(language, JsonValue) and language.strings == "json":
            if complete and read_json(written + rest[:1])[1] <= len(written):
                return ()
            return schema_sources(language.schema, written, rest, language.whitespace)
        if isinstance(language, XmlArguments):
            begun, whole = as_json(language, written), as_json(language, written + rest)
            after = whole.removeprefix(begun) if whole.startswith(begun) and whole != begun else b"}"
            return schema_sources(language.schema, begun, after, language.whitespace)
        if isinstance(language, LiteralText) and tool is not None and len(written) <= len(tool.encode()):
            names = ", ".join(dict.fromkeys(self.tools.values()))
            return (Source("tool", shortened(f"the name of a tool: {names}")),)
        if isinstance(language, RegexText):
            return pattern_sources(language.pattern, written.decode("utf-8", "ignore"), ANY)
        text = _words(language, written, complete)
        return (Source("text", shortened(text)),) if text else ()

    def _through(self, graph: _Graph, start: int, tool: str | None) -> set[int]:
        rows, accepting = graph
        reached = [(0, start)]
        for state, position in reached:
            for part, target in rows[state] if state < len(rows) else ():
                places = ((target, end) for end in sorted(self.endings(part, position, tool)))
                reached += [place for place in places if place not in reached]
        return {position for state, position in reached if state in accepting}

    def _leaf(self, part: Language, start: int, tool: str | None) -> set[int]:
        part = self._spelled(part)
        dfa = automaton(part)
        if dfa is None:
            return set()
        found = [*dfa.endings(self.text[start : self.at])]
        self.steps += len(found)
        if self.steps > _MOST_STEPS:
            raise TooManyItems
        if start + len(found) - 1 == self.at:
            self.open.append(_OpenPart(part, start, found[-1], tool))
        return {start + size for size, ends in enumerate(found) if ends}

    def _spelled(self, part: Language) -> Language:
        """Return a part with special tokens by their names, and free text without a token limit."""
        if isinstance(part, SpecialToken):
            return LiteralText(self._name(part))
        if isinstance(part, AnyText):
            until, exclude = (tuple(map(self._name, markers)) for markers in (part.until, part.exclude))
            return AnyText(until, exclude)
        return part

    def _name(self, marker: str | SpecialToken) -> str:
        token = marker if isinstance(marker, str) else marker.token
        return (
            token if isinstance(token, str) else self.vocabulary.special_names.text([token]).decode("utf-8", "replace")
        )


# For each state the parts that may come next, each with the state after it; and the states in which the text may end.
_Graph = tuple[list[list[tuple[Language, int]]], tuple[int, ...]]


def _graph(part: Any) -> _Graph | None:
    """Return the order of the parts of a language, or None if it has none that are followed."""
    match part:
        case InOrder() | LocatedSchema():
            return [[(item, n + 1)] for n, item in enumerate(part.parts)], (len(part.parts),)
        case OneOf(options):
            return [[(option, 1) for option in options]], (1,)
        case Repeated(item, least, _, separator):
            again = (item, 1) if separator is None else (separator, 0)
            return [[(item, 1)], [again]], (0, 1) if least == 0 else (1,)
        case CallLoop(call, between, end):
            return [[(call, 1)], [(end, 2), *([(between, 0)] if between else [])]], (2,)
        case OrderedCalls():
            return part.paths()
        case TriggeredText(starts):
            tags = [(s.trigger, s.begin if isinstance(s.begin, str) else "", s.rest) for s in starts]
            rests = [(t, sequence(begin[len(t) if isinstance(t, str) else 0 :], rest)) for t, begin, rest in tags]
            return _triggered(part, rests)
        case Dispatch(triggers, inside):
            return _triggered(part, [*zip(triggers, inside, strict=True)])
    return None


def _triggered(part: Dispatch | TriggeredText, rests: list[tuple[str | SpecialToken, Language]]) -> _Graph:
    """Return free text with tags in it, given what follows each trigger."""
    triggers = dict.fromkeys(trigger for trigger, _ in rests)
    after = len(rests) + 1 if part.stop_after_first else 0
    first: list[tuple[Language, int]] = [(AnyText((), (*triggers, *part.exclude)), after)]
    for number, (trigger, _) in enumerate(rests):
        others = tuple(other for other in triggers if other != trigger)
        first.append((AnyText((trigger,), (*others, *part.exclude)), number + 1))
    return [first, *([(rest, after)] for _, rest in rests)], (0, len(rests) + 1)


def _words(language: Language, written: bytes, complete: bool) -> str:
    """Return what may follow the beginning of a text in words; "" if it is complete and nothing may follow it."""
    if isinstance(language, OneText):
        options = [o for o in language.options if o.encode().startswith(written) and len(o.encode()) > len(written)]
        return f"one of {', '.join(map(repr, options))}" if options else ""
    if complete and isinstance(language, AnyText | LiteralText) and written:
        return "" if isinstance(language, LiteralText) or language.until else "free text"
    if isinstance(language, LiteralText):
        return language.text
    return f"text up to {' or '.join(map(repr, language.until))}" if isinstance(language, AnyText) else repr(language)
