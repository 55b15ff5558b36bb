"""Random grammars in Lark's syntax whose rules are captured, and two judges that share no code with the library.

The first one lists every way to read a text, and takes the one that the definition in `logitkit.grammars.captures` prefers. The
second one is Lark's LALR parser, for the grammars that it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import lark
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

__all__ = ["CaptureCase", "Reentered", "TooManyWays", "best_reading", "capture_cases", "lark_reader"]

NAMES = ("start", "x", "y")
MOST_WAYS = 3_000

# An element with its sign, the elements of an alternative, and the alternatives of a rule.
Element: TypeAlias = tuple[str, str]
Rules: TypeAlias = dict[str, tuple[tuple[Element, ...], ...]]
# A rule with the beginning and the end of its text.
Reading: TypeAlias = tuple[str, int, int]


class Reentered(Exception):
    """A rule is inside of itself with the same text."""


class TooManyWays(Exception):
    """A text can be read in too many ways to list them."""


@dataclass(frozen=True)
class CaptureCase:
    """A grammar and texts.

    Args:
        rules: The alternatives of each rule.
        blanks: Whether blanks are ignored.
        texts: The texts.
    """

    rules: Rules
    blanks: bool
    texts: tuple[str, ...]

    def grammar(self, captured: bool) -> str:
        """Return the grammar, with the attribute `capture` or without it."""
        lines = [
            f"{name}{'[capture]' * captured}: {' | '.join(' '.join(map(''.join, option)) for option in options)}"
            for name, options in self.rules.items()
        ]
        return "\n".join([*lines, *['%ignore " "'] * self.blanks]) + "\n"


@st.composite
def capture_cases(draw: DrawFn) -> CaptureCase:
    """Draw a grammar of three rules and some texts. In few of the grammars, a rule may be inside of itself with the same text."""
    blanks, is_any = draw(st.booleans()), draw(st.integers(0, 7)) == 7
    texts = st.lists(st.text("ab" + " " * blanks, max_size=6), min_size=1, max_size=6).map(tuple)
    return CaptureCase({name: draw(_bodies(i, is_any)) for i, name in enumerate(NAMES)}, blanks, draw(texts))


def _bodies(number: int, is_any: bool) -> st.SearchStrategy[tuple[tuple[Element, ...], ...]]:
    """Return alternatives of a rule: without `is_any`, they have a terminal in each text, or use later rules only."""
    terminal, sign = st.sampled_from(('"a"', '"b"')), st.sampled_from(("", "", "", *"?*+"))
    element = st.tuples(st.sampled_from(('"a"', '"b"', *NAMES)), sign)
    anything = st.lists(element, max_size=2)
    longer = st.tuples(anything, st.tuples(terminal, st.just("")), anything).map(
        lambda drawn: (*drawn[0], drawn[1], *drawn[2])
    )
    later = st.tuples(st.sampled_from(NAMES[number + 1 :] or ('"a"', '"b"')), sign)
    option = longer | st.lists(later, min_size=1, max_size=3).map(tuple)
    if is_any:
        option |= st.lists(element, min_size=1, max_size=2).map(tuple)
    return st.lists(option, min_size=1, max_size=3).map(tuple)


def best_reading(rules: Rules, text: str) -> tuple[list[Reading] | None, bool]:
    """Return the preferred way to read a text without blanks, and whether it is the only one.

    The rules stand in the order in which they end. None: there is no way.

    Raises:
        Reentered: Some way has a rule inside of itself with the same text.
        TooManyWays: There are too many.
    """
    lister = _Lister(rules, text)
    return lister.rule("start", 0, len(text), ()), lister.is_only_way


class _Lister:
    def __init__(self, rules: Rules, text: str) -> None:
        self.rules, self.text = rules, text
        self.known: dict[Reading, list[Reading] | None] = {}
        self.ways, self.is_only_way = 0, True

    def rule(self, name: str, begin: int, end: int, open_rules: tuple[Reading, ...]) -> list[Reading] | None:
        key = (name, begin, end)
        if key in open_rules:
            raise Reentered
        if key in self.known:
            return self.known[key]
        found: list[tuple[list[tuple[int, int]], list[Reading]]] = []
        number = 0
        for option in self.rules[name]:
            steps = [(number + i, element) for i, element in enumerate(option)]
            number += len(option)
            found += self.ways_of(steps, begin, end, (*open_rules, key))
        self.is_only_way &= len(found) < 2
        best = min(found, default=None)
        self.known[key] = None if best is None else [*best[1], key]
        return self.known[key]

    def ways_of(
        self, steps: list[tuple[int, Element]], at: int, end: int, open_rules: tuple[Reading, ...]
    ) -> Iterator[tuple[list[tuple[int, int]], list[Reading]]]:
        """Yield every way to read the rest of an alternative: minus the end of each part, and its number; and the rules in it."""
        self.ways += 1
        if self.ways > MOST_WAYS:
            raise TooManyWays
        if not steps:
            if at == end:
                yield [], []
            return
        (number, (what, sign)), *rest = steps
        if sign in ("?", "*", ">"):
            yield from self.ways_of(rest, at, end, open_rules)
        # Another copy of what is empty adds nothing.
        for stop in range(at + (sign == ">"), end + 1):
            if (part := self.part(what, at, stop, open_rules)) is None:
                continue
            again = [(number, (what, ">"))] if sign in ("*", "+", ">") else []
            for key, reading in self.ways_of([*again, *rest], stop, end, open_rules):
                yield [(-stop, number), *key], [*part, *reading]

    def part(self, what: str, begin: int, end: int, open_rules: tuple[Reading, ...]) -> list[Reading] | None:
        if what[0] == '"':
            return [] if self.text[begin:end] == what[1:-1] else None
        return self.rule(what, begin, end, open_rules)


def lark_reader(case: CaptureCase) -> Callable[[str], list[Reading] | None] | None:
    """Return Lark's LALR parser, which reads each text in one way; None if it does not take the grammar.

    The parser returns the rules of a text in the order in which they end, or None if it refuses the text or a rule is empty.
    """
    try:
        parser = lark.Lark(case.grammar(False), parser="lalr", propagate_positions=True, keep_all_tokens=True)
    except lark.exceptions.LarkError:
        return None

    def read(text: str) -> list[Reading] | None:
        found: list[Reading] = []
        try:
            _collect(parser.parse(text), found)
        except (lark.exceptions.UnexpectedInput, AttributeError):
            # The place of a rule without text is not known.
            return None
        return found

    return read


def _collect(tree: lark.Tree[lark.Token], found: list[Reading]) -> None:
    for child in tree.children:
        if isinstance(child, lark.Tree):
            _collect(child, found)
    found.append((str(tree.data), tree.meta.start_pos, tree.meta.end_pos))
