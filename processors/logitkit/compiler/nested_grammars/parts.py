"""The parts of a grammar as deterministic automata over characters, in which calls are told apart by their bracket alone.

Where one bracket may begin calls of several rules, what is called is all of them at once, each marked at its end: which of
them the text belongs to is known there, and with it which states of the caller are possible.

Source: Alur and Madhusudan, Visibly pushdown languages (2004), for why that is always possible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from logitkit.compiler.characters.alphabet import Alphabet
from logitkit.compiler.characters.minimise import minimise
from logitkit.compiler.characters.positions import positions_of
from logitkit.compiler.characters.subset import determinise
from logitkit.compiler.characters.symbols import Symbol
from logitkit.compiler.nested_grammars.nested_grammar import (
    NestedGrammar,
    NestedRule,
    RenumberedRule,
    Strings,
    TextFragment,
)
from logitkit.compiler.nested_grammars.overlaps import Resolver, bracket_checks
from logitkit.compiler.nested_grammars.part import Called, KnownParts, Part
from logitkit.compiler.nested_grammars.token_limits import text_checks
from logitkit.errors import PatternTooLarge
from logitkit.limits import Limits
from logitkit.patterns.charset import CharSet
from logitkit.patterns.construction import inside
from logitkit.patterns.syntax import Alternate, Call, Characters, Concat, Node

# The most places to which one bracket may lead a caller. Where it is not known which sets of them occur, each set gets a state;
# where it is, and more are wanted, there is a part for each set of calls that begin together.
MOST_MARKS = 4
# How many parts may be worked out one inside another.
DEEPEST = 30

_known_parts = KnownParts()


def parts_of(grammar: NestedGrammar, limits: Limits, many_ways: bool = False) -> dict[Called, Part]:
    """Return the main part, as `()`, and all that it and they call; strings only where several sets of them may begin.

    Args:
        grammar: The grammar.
        limits: Bounds on the parts.
        many_ways: Whether one bracket may begin calls that go on in many ways, unless they recur. Each set of calls that begin
            together is a part of its own, so that there may be very many.

    Raises:
        PatternTooLarge: A limit is exceeded.
    """
    return _Finder(grammar, limits, many_ways).all()


class _Finder:
    """Finds the parts of a grammar, one after another."""

    def __init__(self, grammar: NestedGrammar, limits: Limits, many_ways: bool) -> None:
        self.grammar, self.limits, self.many_ways = grammar, limits, many_ways
        self.parts: dict[Called, Part] = {}
        self.known: dict[Called, Part] = {}
        self.unfinished: set[Called] = set()

    def all(self) -> dict[Called, Part]:
        """Return the main part and all that it calls."""
        todo: list[Called] = [()]
        states = 0
        while todo:
            called = todo.pop()
            if called in self.parts or is_fragment(called, self.grammar):
                continue
            part = self.parts[called] = self._part(called)
            states += len(part.ends)
            self.limits.check_states(states)
            todo.extend(bracket.called for row in part.brackets for bracket in row.values())
        return self.parts

    def marks_of(self, called: Called) -> Iterable[int]:
        """Return the sets of marks, as bits, that may be met at the ends of what is called."""
        places = 1 + max(mark for _, mark in called)
        if places == 1:
            return (1,)
        opening = self.grammar.rules[called[0][0]].opening
        nests = opening in "[{"
        # Most sets never occur. Inside of a part itself, it is not known yet which do.
        is_known = not nests or (called not in self.unfinished and len(self.unfinished) <= DEEPEST)
        if nests and places > MOST_MARKS and not (is_known and self.many_ways):
            raise PatternTooLarge(
                f"in one place a {opening!r} may begin calls that go on in {places} different ways, of which "
                f"{MOST_MARKS} can be distinguished only when they end"
            )
        return sorted({marks for marks in self._part(called).ends if marks}) if is_known else range(1, 1 << places)

    def _part(self, called: Called) -> Part:
        if called not in self.known:
            self.known[called] = self._worked_out(called)
        return self.known[called]

    def _worked_out(self, called: Called) -> Part:
        rule = self.grammar.rules[called[0][0]] if len(called) == 1 else None
        if isinstance(rule, NestedRule | RenumberedRule) and rule.known_as is not None and not called[0][1]:
            return _known_parts.part(rule, partial(self._made, called), self.limits)
        return self._made(called)

    def _made(self, called: Called) -> Part:
        self.unfinished.add(called)
        made = _part(_tree(called, self.grammar), self.grammar, self.limits, self.marks_of)
        self.unfinished.discard(called)
        return made


def is_fragment(called: Called, grammar: NestedGrammar) -> bool:
    """Whether what is called is one set of strings or other texts, whose automaton is known."""
    return len(called) == 1 and isinstance(grammar.rules[called[0][0]], Strings | TextFragment)


def has_calls(tree: Node) -> bool:
    """Whether a tree calls anything; what stands in it many times is looked at once."""
    return _has_calls(tree, set())


def _has_calls(tree: Node, seen: set[int]) -> bool:
    if id(tree) in seen:
        return False
    seen.add(id(tree))
    return isinstance(tree, Call) or any(
        _has_calls(node, seen) for node in inside(tree) if type(node) is not Characters
    )


def _tree(called: Called, grammar: NestedGrammar) -> Node:
    if not called:
        return grammar.main
    marked: list[Node] = []
    for d, mark in called:
        rule = grammar.rules[d]
        # Such a text is never a part: its automaton is known.
        assert not isinstance(rule, TextFragment)
        marked.append(Concat((rule.body, Characters(CharSet.single(Symbol.mark(mark))))))
    return Alternate(tuple(marked)) if len(marked) > 1 else marked[0]


def _part(
    tree: Node,
    grammar: NestedGrammar,
    limits: Limits,
    marks_of: Callable[[Called], Iterable[int]],
) -> Part:
    positions = positions_of(tree, limits)
    special: dict[CharSet, int] = {}
    for charset in positions.charsets:
        if charset.ranges and not Symbol.is_character(charset.ranges[0][0]):
            special.setdefault(charset, len(special))
    alphabet = Alphabet.of(c for c in positions.charsets if c not in special)
    mask_of = {**alphabet.members, **{c: 1 << (alphabet.size + i) for c, i in special.items()}}
    checks = [*bracket_checks(positions, alphabet.members, special, grammar), *text_checks(positions, grammar)]
    dfa = minimise(determinise(positions, [mask_of[c] for c in positions.charsets], limits, checks), limits)
    if dfa is None:
        return Part(None, alphabet)
    return Resolver(dfa, alphabet, [c.ranges[0][0] for c in special], grammar, limits, marks_of).part()
