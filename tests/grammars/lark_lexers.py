"""Grammars in Lark's syntax whose terminals begin alike, and judges of how a lexer splits a text.

`Lark` is the library with both of its lexers for LALR(1). `Longest` is a lexer for which the longest terminal counts, written
here on Lark's parse table and Python's `re`; Lark has none.
"""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import lark
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from lark.parsers.lalr_analysis import Shift

from logitkit.compiler.grammars.dfa import pushdown_dfa
from logitkit.compiler.grammars.rules import Rules
from logitkit.errors import GrammarError, PatternTooLarge
from logitkit.grammars.lark import LarkLexer, read_lark
from logitkit.limits import DEFAULT_LIMITS
from tests.grammars.pushdowns import accepts

__all__ = ["LexerCase", "Longest", "lexer_cases", "parsers", "reads", "splitter"]

STRINGS = (
    *('"<"', '"<="', '"="', '"=="', '">"', '"."', '".."', '"a"', '"ab"', '"abc"', '"if"', '"i"', '"in"', '"-"', '"--"'),
    *('"1"', '"if"i', '"AB"i'),
)
# Lark joins the expressions of a terminal as texts, so a choice stands in a group.
EXPRESSIONS = (
    *(
        "/[a-z]+/",
        "/[a-z][a-z0-9]*/",
        "/[0-9]+/",
        r"/[0-9]+\.[0-9]+/",
        r"/[0-9]+(\.[0-9]+)?/",
        "/-?[0-9]+/",
        "/[<>=]+/",
    ),
    *(
        "/(?:a|ab)/",
        "/ab?/",
        "/(?:ab|a)/",
        "/<.*?>/",
        "/[^<]+/",
        "/i[a-z]/",
        "/--[^=]*/",
        "/[ai]{1,3}/",
        "/[a-z]+-[a-z]+/",
    ),
    *("/a+?1*/", r"/\.+/", "/a.?/", "/i/i", "/[A-Z]+/", "/(?:if|in)/", "/<[a-z]+>/"),
)
# The judge of the longest match does not know what follows a terminal.
ASSERTIONS = (r"/[a-z]+\b/", "/a(?!1)/", r"/if\b/")
IGNORED = ('" "', "/ +/", "/[ ]+/", "/--[^=]*/")
RULES = ("start", "x", "y")
NAMES = ("X", "Y", "Z", "W")
PRIORITIES = ("", "", "", "", "", ".1", ".2", ".-1")
CHARACTERS = "abifn1.<=>-A "


@dataclass(frozen=True)
class LexerCase:
    """A grammar, and characters of its texts."""

    grammar: str
    characters: str

    def texts(self) -> Iterator[str]:
        """Yield all texts of up to five characters."""
        for length in range(1, 6):
            yield from map("".join, itertools.product(self.characters, repeat=length))


@st.composite
def lexer_cases(draw: DrawFn, assertions: bool = False) -> LexerCase:
    """Draw a grammar, with assertions at the end of terminals or without."""
    literals = st.sampled_from((*STRINGS, *EXPRESSIONS, *(ASSERTIONS if assertions else ())))
    names = NAMES[: draw(st.integers(0, len(NAMES)))]
    bodies = st.one_of(
        literals,
        st.tuples(literals, literals).map(" | ".join),
        st.tuples(literals, literals).map(" ".join),
        st.tuples(literals, st.sampled_from("?*+"), st.sampled_from(STRINGS)).map(lambda p: f"({p[0]}){p[1]} {p[2]}"),
    )
    terminals = draw(st.lists(literals, min_size=3, max_size=7, unique=True))
    terminal, rules = st.sampled_from((*terminals, *names, *names)), RULES[: draw(st.integers(1, len(RULES)))]
    group = st.tuples(terminal, terminal, st.sampled_from("?*+")).map(lambda p: f"({p[0]} {p[1]}){p[2]}")
    part = st.one_of(terminal, terminal, terminal, terminal, st.sampled_from(rules), group)
    alternatives = st.lists(st.lists(part, min_size=1, max_size=4).map(" ".join), min_size=1, max_size=4).map(
        " | ".join
    )
    lines = [f"{rule}: {draw(alternatives)}" for rule in rules]
    lines += [f"{name}{draw(st.sampled_from(PRIORITIES))}: {draw(bodies)}" for name in names]
    if draw(st.integers(0, 2)) == 0:
        lines.append(f"%ignore {draw(st.sampled_from((*IGNORED, *names)))}")
    grammar = "\n".join(lines) + "\n"
    found = [c for c in CHARACTERS if c in grammar or (c in "ai1" and "[" in grammar)] or ["a"]
    used = draw(st.lists(st.sampled_from(found), min_size=1, max_size=4, unique=True))
    return LexerCase(grammar, "".join(used))


class _Conflicts(logging.Handler):
    """Counts the conflicts that Lark resolves by a shift: with one, its parser refuses texts of the grammar."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += record.getMessage().startswith("Shift/Reduce")


def parsers(grammar: str) -> tuple[lark.Lark, lark.Lark] | None:
    """Return Lark's parsers with a contextual and with a basic lexer; None if the grammar is not one of LALR(1)."""
    conflicts, level, handlers = _Conflicts(), lark.logger.level, lark.logger.handlers
    lark.logger.handlers = [conflicts]
    lark.logger.setLevel(logging.DEBUG)
    try:
        found = (
            lark.Lark(grammar, parser="lalr", lexer="contextual"),
            lark.Lark(grammar, parser="lalr", lexer="basic"),
        )
    except (lark.exceptions.GrammarError, lark.exceptions.LexError, AssertionError, AttributeError):
        # The last two are faults of Lark: names of terminals that it makes twice, and its check of terminals that begin alike.
        return None
    finally:
        lark.logger.handlers = handlers
        lark.logger.setLevel(level)
    return None if conflicts.count else found


def reads(parser: lark.Lark, text: str) -> bool:
    """Whether Lark reads a text."""
    try:
        parser.parse(text)
    except lark.exceptions.UnexpectedInput:
        return False
    return True


def splitter(grammar: str, lexer: LarkLexer | None) -> Callable[[str], bool] | None:
    """Return whether a text is accepted, and None for a grammar that is refused or, without a lexer, warned of."""
    try:
        rules = read_lark(grammar, lexer=lexer)
        dfa = pushdown_dfa(Rules(tuple([rule.body for rule in rules.rules]), rules.start), DEFAULT_LIMITS, splits=True)
    except (GrammarError, PatternTooLarge):
        return None
    if lexer is None and any("Lark" in warning for warning in rules.warnings):
        return None
    return lambda text: accepts(dfa, text.encode())


class Longest:
    """A parser whose lexer takes the longest of the terminals that are expected or ignored.

    Higher priorities come first, and a keyword comes before an expression. If terminals have the same text, all of them count.
    An expression may also end where a keyword of it goes on that is written in both cases.

    Args:
        parser: Lark's parser of a grammar without assertions.
    """

    def __init__(self, parser: lark.Lark) -> None:
        self.table = parser.parser.parser._parse_table
        self.start, self.end = self.table.start_states["start"], self.table.end_states["start"]
        self.terminals = {terminal.name: terminal for terminal in parser.terminals}
        self.expressions = {n: re.compile(t.pattern.to_regexp()) for n, t in self.terminals.items()}
        self.lazy = {n for n, t in self.terminals.items() if re.search(r"[*+?}]\?", t.pattern.to_regexp())}
        self.ignored = set(parser.ignore_tokens)
        self.strings = {n for n, t in self.terminals.items() if t.pattern.type == "str"}
        self.words = {n for n in self.strings if re.fullmatch(r"\w+", self.terminals[n].pattern.value)}
        self.mixed = {(n, w) for n in self.terminals for w in self.words if self._is_keyword_of(w, n)}

    def _is_keyword_of(self, word: str, name: str) -> bool:
        pattern = self.terminals[word].pattern
        if name in self.strings or "i" not in pattern.flags:
            return False
        return any(self.expressions[name].fullmatch(text) for text in (pattern.value.lower(), pattern.value.upper()))

    def reads(self, text: str) -> bool:
        """Whether a text is read."""
        todo: list[tuple[tuple[int, ...], int]] = [((self.start,), 0)]
        for stack, at in todo:
            if at == len(text):
                if self._fed(stack, "$END"):
                    return True
                continue
            for name, length in self._next(stack[-1], text, at):
                stacks = [stack] if name in self.ignored else []
                fed = self._fed(stack, name)
                for after in (*stacks, *([fed] if fed else [])):
                    if (after, at + length) not in todo:
                        todo.append((after, at + length))
        return False

    def _next(self, state: int, text: str, at: int) -> list[tuple[str, int]]:
        """Return the terminals that the lexer may find at a place, with their lengths."""
        expected = [name for name in {*self.table.states[state], *self.ignored} if name in self.terminals]
        lengths = {name: length for name in expected if (length := self._length(name, text, at))}
        if not lengths:
            return []
        first = max(self.terminals[name].priority for name in lengths)
        lengths = {name: length for name, length in lengths.items() if self.terminals[name].priority == first}
        found = []
        for name, length in lengths.items():
            longer = [n for n, other in lengths.items() if other > length and (name, n) not in self.mixed]
            words = [n for n, other in lengths.items() if other == length and n in self.words]
            if not longer and (name in self.strings or name in self.ignored or not words):
                found.append((name, length))
        return found

    def _length(self, name: str, text: str, at: int) -> int:
        expression = self.expressions[name]
        if name in self.lazy:
            found = expression.match(text, at)
            return found.end() - at if found else 0
        return next((end - at for end in range(len(text), at, -1) if expression.fullmatch(text, at, end)), 0)

    def _fed(self, before: tuple[int, ...], name: str) -> tuple[int, ...] | None:
        """Return the stack after a terminal, or None."""
        stack = [*before]
        while name in self.table.states[stack[-1]]:
            action, argument = self.table.states[stack[-1]][name]
            if action is Shift:
                return (*stack, argument)
            del stack[len(stack) - len(argument.expansion) :]
            stack.append(self.table.states[stack[-1]][argument.origin.name][1])
            if name == "$END" and stack[-1] == self.end:
                return tuple(stack)
        return None
