"""The parts of a grammar: deterministic automata over characters, in which the bracket alone decides what is called.

One bracket may begin calls of several rules, as the objects of an `anyOf` do. Then it calls all of these rules at once, and the
part of this call follows them all. Each rule has a *mark* at its end. The end of the call says which marks the text has, so it
is known there which rules the text belongs to, and in which states the caller continues.

By hand: a state calls rule 0, the objects with an `"id"`, and continues in state 5, or calls rule 1, all objects, and continues
in state 6. Its bracket calls ((0, 0), (1, 1)): rule 0 with mark 0, and rule 1 with mark 1. After `{"x": 1}` the marks are 0b10,
and the caller continues in state 6; after `{"id": 1}` they are 0b11, and it continues in both states.

Invariants: rules after which the caller continues in the same states have the same mark. The main part is `()`.

Source: Alur and Madhusudan, Visibly pushdown languages (2004), for why rules can always be followed together.
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

# The most marks of one call while it is not known which sets of them occur. Then each set gets a return state.
MOST_MARKS = 4
# How many parts may be in progress at once, each inside another one.
DEEPEST = 30

_known_parts = KnownParts()


def parts_of(grammar: NestedGrammar, limits: Limits) -> dict[Called, Part]:
    """Return the main part and all parts that are called, except those that are fragments.

    Args:
        grammar: The grammar.
        limits: Bounds on the parts.

    Raises:
        PatternTooLarge: A limit is exceeded.
    """
    return _Finder(grammar, limits).all()


class _Finder:
    """Finds the parts of a grammar, one after another.

    Attributes:
        parts: The result.
        known: The parts that are compiled, among them some that may turn out to be called by none.
        unfinished: The parts in progress.
        trees: The automata of rules and words that are written in place, by their symbols.
    """

    def __init__(self, grammar: NestedGrammar, limits: Limits) -> None:
        self.grammar, self.limits = grammar, limits
        self.parts: dict[Called, Part] = {}
        self.known: dict[Called, Part] = {}
        self.unfinished: set[Called] = set()
        self.trees: dict[int, TreeDfa] = {}

    def all(self) -> dict[Called, Part]:
        """Return the main part and all parts that are called."""
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
        """Return the sets of marks, as bits, that the ends of a call may have."""
        count = 1 + max(mark for _, mark in called)
        if count == 1:
            return (1,)
        opening = self.grammar.rules[called[0][0]].opening
        nests = opening in "[{"
        # Most sets never occur. While the part of the call is in progress, it is not known which ones do.
        is_known = not nests or (called not in self.unfinished and len(self.unfinished) <= DEEPEST)
        if nests and count > MOST_MARKS and not is_known:
            raise PatternTooLarge(
                f"in one place a {opening!r} may begin calls that go on in {count} different ways, of which "
                f"{MOST_MARKS} can be distinguished only when they end"
            )
        return sorted({marks for marks in self._part(called).ends if marks}) if is_known else range(1, 1 << count)

    def _part(self, called: Called) -> Part:
        if called not in self.known:
            self.known[called] = self._kept_or_made(called)
        return self.known[called]

    def _kept_or_made(self, called: Called) -> Part:
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
        """Return the automaton of a rule or a word, without its first character, given the symbol that stands for it."""
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
    """Whether a call is that of one set of strings or of other texts, whose automaton is a fragment."""
    return len(called) == 1 and isinstance(grammar.rules[called[0][0]], Strings | TextFragment)


def has_calls(tree: Node) -> bool:
    """Whether a tree calls anything."""
    # A node may stand in a tree many times, and is looked at once. Not recursive, as trees may be deep.
    todo, seen = [tree], {id(tree)}
    while todo:
        node = todo.pop()
        if isinstance(node, Call):
            return True
        for part in inside(node):
            if type(part) is not Characters and id(part) not in seen:
                seen.add(id(part))
                todo.append(part)
    return False


def _tree(called: Called, grammar: NestedGrammar) -> Node:
    if not called:
        return grammar.main
    marked = [Concat((grammar.rules[d].body, _mark(mark))) for d, mark in called]
    return Alternate(tuple(marked)) if len(marked) > 1 else marked[0]


def _mark(number: int) -> Node:
    return Characters(CharSet.single(Symbol.mark(number)))
