"""The parts of a grammar as deterministic automata over characters, in which calls are told apart by their bracket alone.

Where one bracket may begin calls of several rules, what is called is all of them at once, each marked at its end: which of
them the text belongs to is known there, and with it which states of the caller are possible.

Source: Alur and Madhusudan, Visibly pushdown languages (2004), for why that is always possible.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from logitkit.compiler.characters.symbols import Symbol
from logitkit.compiler.nested_grammars.nested_grammar import (
    NestedGrammar,
    NestedRule,
    RenumberedRule,
    Strings,
    TextFragment,
)
from logitkit.compiler.nested_grammars.overlaps import Resolver
from logitkit.compiler.nested_grammars.part import Called, KnownParts, Part
from logitkit.compiler.nested_grammars.token_limits import text_checks
from logitkit.compiler.nested_grammars.tree_dfa import TreeDfa
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


def parts_of(grammar: NestedGrammar, limits: Limits) -> dict[Called, Part]:
    """Return the main part, as `()`, and all that it and they call; strings only where several sets of them may begin.

    Args:
        grammar: The grammar.
        limits: Bounds on the parts.

    Raises:
        PatternTooLarge: A limit is exceeded.
    """
    return _Finder(grammar, limits).all()


class _Finder:
    """Finds the parts of a grammar, one after another."""

    def __init__(self, grammar: NestedGrammar, limits: Limits) -> None:
        self.grammar, self.limits = grammar, limits
        self.parts: dict[Called, Part] = {}
        self.known: dict[Called, Part] = {}
        self.unfinished: set[Called] = set()
        self.trees: dict[int, TreeDfa] = {}

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
        if nests and places > MOST_MARKS and not is_known:
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
        tree = self._tree_dfa(_tree(called, self.grammar))
        if tree.dfa is None:
            made = Part(None, tree.alphabet)
        else:
            made = Resolver(tree, self.grammar, self.limits, self.marks_of, self._tree_of).part()
        self.unfinished.discard(called)
        return made

    def _tree_of(self, symbol: int) -> TreeDfa:
        """Return the automaton of what a symbol of a call or a word stands for, after its first character."""
        found = self.trees.get(symbol)
        if found is None:
            number = Symbol.number(symbol)
            if Symbol.is_word(symbol):
                text = self.grammar.words[number].decode()[1:]
                body: Node = Concat(tuple([Characters(CharSet.single(ord(c))) for c in text]))
            else:
                body = self.grammar.rules[number].body
            found = self.trees[symbol] = self._tree_dfa(Concat((body, _mark(0))))
        return found

    def _tree_dfa(self, tree: Node) -> TreeDfa:
        return TreeDfa.of(tree, self.limits, lambda positions: text_checks(positions, self.grammar))


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
    marked = [Concat((grammar.rules[d].body, _mark(mark))) for d, mark in called]
    return Alternate(tuple(marked)) if len(marked) > 1 else marked[0]


def _mark(number: int) -> Node:
    return Characters(CharSet.single(Symbol.mark(number)))
