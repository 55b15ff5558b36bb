r"""The texts of the rules that a grammar captures, as `name[capture]: ...` and `stop_capture="..."` ask for.

The text is parsed once more, when it is complete. If it can be read in several ways, one of them is taken, from the whole text
down to its parts: of a rule, the part that comes first is as long as possible, then the second one, and so on. Of parts of the
same length, the one that stands first in the grammar is taken. When all of the text is read, the rule ends as soon as it can. No
rule is read inside of itself with the same text.

By hand, for `e[capture]: e "+" e | "x"` and `x+x+x`: the first part of the whole text is the longest `e`, which is `x+x`, and so
on. The captures are `x`, `x`, `x+x`, `x` and `x+x+x`, in the order in which they end.

Ignored text around a rule is not part of it. A marker of `suffix` is not part of its own rule, and one of `stop` of no rule.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import takewhile
from typing import NamedTuple, TypeAlias

from logitkit.compiler.text_language import TextLanguage
from logitkit.errors import OutputError, PatternTooLarge
from logitkit.grammars.chart import Chart, TooManyItems, ends_in
from logitkit.grammars.output_text import OutputText
from logitkit.grammars.rule_positions import BEGIN, RulePositions
from logitkit.grammars.rule_set import RuleMarker, RuleSet
from logitkit.limits import Limits
from logitkit.patterns.syntax import Machine

__all__ = ["Capture", "CapturingParser", "captured_texts"]

# A text is not followed any further after this many items have been looked at, which takes about ten seconds.
_MOST_ITEMS = 3_000_000

# A rule, and where its text begins and ends.
_Span: TypeAlias = tuple[int, int, int]


class Capture(NamedTuple):
    """A capture.

    Args:
        name: Its name.
        places: The places of its characters and special tokens in the text.
    """

    name: str
    places: list[int]


@dataclass(eq=False, slots=True)
class _OpenRule:
    """A rule whose parts are being read.

    Args:
        rule: Its number.
        begin: Where its text begins.
        parts: Its parts that have not been read yet.
        own: Where its first terminal begins, and where its last one ends; None before the first terminal.
        marker: Where its marker begins, if it has one.
    """

    rule: int
    begin: int
    parts: Iterator[_Span]
    own: tuple[int, int] | None = None
    marker: int | None = None

    def add(self, own: tuple[int, int] | None) -> None:
        """Add the text of a part."""
        if own is not None:
            self.own = ((self.own or own)[0], own[1])


class CapturingParser:
    """Finds the captures in complete texts.

    Args:
        rules: The grammar.
        limits: Bounds on the automata.

    Attributes:
        names: The names of all captures, in the order of the grammar.

    Raises:
        PatternTooLarge: A limit is exceeded.
    """

    def __init__(self, rules: RuleSet, limits: Limits) -> None:
        self.limits = limits
        self.rules = rules.rules
        self.start = rules.start
        self.positions = [RulePositions(rule.body, limits, has_conditions=True) for rule in rules.rules]
        in_order = sorted(rules.rules, key=lambda rule: rule.begin)
        named = [name for rule in in_order for name in (rule.capture, rule.marker.name if rule.marker else None)]
        self.names = list(dict.fromkeys([name for name in named if name is not None]))
        self._ignored = {number for number, rule in enumerate(self.rules) if rule.name == "%ignore"}
        self._leaves = {
            number
            for number, rule in enumerate(self.rules)
            if rule.is_terminal or None in self.positions[number].called
        }
        self._machines: dict[int, tuple[Machine, Machine]] = {}

    def chart(self, symbols: Sequence[int]) -> Chart:
        """Read a text.

        Raises:
            TooManyItems: The text can be read in too many ways.
        """
        return Chart(self.positions, self.start, symbols, _MOST_ITEMS)

    def captures(self, chart: Chart) -> list[Capture]:
        """Return the captures of a text that the grammar has, in the order in which they end, inner ones first.

        Raises:
            TooManyItems: The text can be read in too many ways.
        """
        found, hidden = list[tuple[Capture, bool]](), set[int]()
        stack = [_OpenRule(self.start, 0, _parts(chart, (self.start, 0, len(chart.symbols))))]
        while stack:
            top = stack[-1]
            part = next(top.parts, None)
            if part is None:
                stack.pop()
                begin, end = top.own or (top.begin, top.begin)
                if (name := self.rules[top.rule].capture) is not None:
                    found.append((Capture(name, [*range(begin, end if top.marker is None else top.marker)]), False))
                if stack:
                    stack[-1].add(top.own)
            elif part[0] in self._leaves:
                end = self._own_end(chart, part)
                top.add((part[1], end) if end > part[1] else None)
                if (marker := self.rules[part[0]].marker) is not None:
                    top.marker = self._marker_begin(chart, part[0], marker, part[1], end)
                    if marker.name is not None and top.marker is not None:
                        found.append((Capture(marker.name, [*range(top.marker, end)]), True))
                    if marker.is_hidden and top.marker is not None:
                        hidden.update(range(top.marker, end))
            else:
                stack.append(_OpenRule(part[0], part[1], _parts(chart, part)))
        return [
            capture
            if is_marker
            else capture._replace(places=[place for place in capture.places if place not in hidden])
            for capture, is_marker in found
        ]

    def _own_end(self, chart: Chart, part: _Span) -> int:
        """Return where the text of a terminal ends without the ignored text after it: as late as possible."""
        rule, begin, end = part
        if rule in self._ignored:
            return begin
        positions = self.positions[rule]
        ignoring = [(p, called) for p in positions.last if (called := positions.called[p]) in self._ignored]
        for at in range(end, begin - 1, -1) if ignoring else ():
            for position, called in ignoring:
                is_called = (rule, position, begin) in chart.columns[at].callers.get(called or 0, ())
                if is_called and end in chart.ends.get((called or 0, at), ()):
                    return at
        return end

    def _marker_begin(self, chart: Chart, rule: int, marker: RuleMarker, begin: int, end: int) -> int | None:
        """Return where the marker at the end of a terminal begins: as late as possible. None: a limit of tokens came first."""
        if rule not in self._machines:
            body = TextLanguage.of_tree(marker.body, self.limits)
            if marker.max_chars is not None:
                body &= TextLanguage.of_length(0, marker.max_chars, self.limits)
            self._machines[rule] = body.machine(), TextLanguage.of_tree(marker.end, self.limits).machine()
        body_machine, marker_machine = self._machines[rule]
        bodies = [*takewhile(lambda at: at <= end, ends_in(body_machine, chart.symbols, begin))]
        ending = (
            at
            for at in reversed(bodies)
            if end in takewhile(lambda after: after <= end, ends_in(marker_machine, chart.symbols, at))
        )
        return next(ending, None)


def _parts(chart: Chart, whole: _Span) -> Iterator[_Span]:
    """Return the rules that the text of a rule consists of, from left to right, by a search in the order of preference."""
    rule, begin, end = whole
    positions = chart.rules[rule]
    first = (BEGIN, begin)
    seen = {first}
    # The places that lead to each other, with the part before each and what has not been tried yet.
    path: list[tuple[tuple[int, int], _Span | None, Iterator[tuple[int, int, _Span | None]]]] = [
        (first, None, _steps(chart, whole, *first))
    ]
    while not (path[-1][0][1] == end and positions.may_end(path[-1][0][0])):
        for after, position, part in path[-1][2]:
            chart.work += 1
            if chart.work > chart.most_items:
                raise TooManyItems
            if (place := (position, -after)) not in seen:
                seen.add(place)
                path.append((place, part, _steps(chart, whole, *place)))
                break
        else:
            path.pop()
    return iter([part for _, part, _ in path if part is not None])


def _steps(chart: Chart, whole: _Span, position: int, at: int) -> Iterator[tuple[int, int, _Span | None]]:
    """Return the next texts that a rule may read: minus the end of the text, the position, and the rule that it calls.

    The longest text comes first, then the position that stands first in the grammar.
    """
    rule, _, end = whole
    positions = chart.rules[rule]
    found: list[Iterator[tuple[int, int, _Span | None]]] = []
    for p in dict.fromkeys(positions.after(position)):
        called = positions.called[p]
        if called is not None:
            found.append(_calls(chart, whole, p, called, at))
        elif p in positions.conditions:
            if chart.holds(positions.conditions[p], at):
                found.append(iter([(-at, p, None)]))
        elif at < end and chart.symbols[at] in positions.charsets[p]:
            found.append(iter([(-at - 1, p, None)]))
    return merge(*found, key=lambda step: step[:2])


def _calls(chart: Chart, whole: _Span, position: int, called: int, at: int) -> Iterator[tuple[int, int, _Span | None]]:
    """Yield the texts of a rule that is called, the longest first."""
    known = chart.ends.get((called, at), {})
    # They were found from left to right, and all parts of a rule before it. So a rule that may be inside of itself with the
    # same text takes only those that were found before.
    ends, own = list(known), chart.ends[whole[0], whole[1]]
    for index in range(bisect_right(ends, whole[2]) - 1, -1, -1):
        end = ends[index]
        if (at, end) != whole[1:] or not chart.is_inside(whole[0], called, at, end) or known[end] < own[end]:
            yield -end, position, (called, at, end)


def captured_texts(parser: CapturingParser, output: OutputText) -> dict[str, list[str]]:
    """Return the captured texts of an output by name, in the order in which they end.

    Args:
        parser: The grammar.
        output: The output.

    Raises:
        OutputError: The output is not a complete text of the grammar.
        PatternTooLarge: It can be read in too many ways.
    """
    try:
        chart = parser.chart(output.symbols)
        length, read = len(output.symbols), len(chart.columns) - 1
        if length not in chart.ends.get((parser.start, 0), ()):
            text = "".join(output.texts)
            if chart.columns[-1].items:
                raise OutputError("the output is not complete: the grammar needs more text after it", text)
            where = f"{output.texts[read - 1]!r} at {output.what} {output.places[read - 1]}"
            raise OutputError(
                f"the grammar refuses {where} of the output; explain(...) says what is allowed there",
                text,
            )
        captures = parser.captures(chart)
    except TooManyItems:
        raise PatternTooLarge(
            f"an output of {len(output.symbols)} characters can be read in too many ways; make the grammar less ambiguous"
        ) from None
    found: dict[str, list[str]] = {name: [] for name in parser.names}
    for name, places in captures:
        found[name].append("".join([output.texts[place] for place in places]))
    return found
