r"""A terminal as an automaton whose ends forbid some next characters.

`/if\b/` has one text, and no letter may follow it: its automaton has states 0, 1 and 2, and state 2 is an end that forbids `\w`.
As a tree, an end is a negative `Look` before the last state.

With longest match, an end also forbids the characters with which the automaton goes on: `/[a-z]+/` forbids `[a-z]` in its only
accepting state. `beside` does the same for a terminal and another automaton that reads the same text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from logitkit.compiler.text_language import TextLanguage
from logitkit.limits import Limits
from logitkit.patterns.charset import ANY, CharSet
from logitkit.patterns.syntax import Characters, Concat, Graph, Look, Machine, Node, Repeat

__all__ = ["EdgeAssertion", "Lexeme", "asserting_lexeme"]

# What a pair of transitions costs.
_PAIR_STEPS = 10

# Lookarounds at the edge of a terminal are tried with as many characters before and after it.
_TRIED = 4

_CHARACTER = Characters(ANY)
_TEXT = Repeat(_CHARACTER, 0, None)


class EdgeAssertion(Exception):
    """An assertion at the edge of a terminal sees more than the next character; the message says what it sees."""


@dataclass(frozen=True, eq=False, slots=True)
class Lexeme:
    """The texts of a terminal.

    Args:
        machine: The deterministic automaton. Its `accepting` states are those with a set in `forbidden`.
        forbidden: For each state, the characters that must not follow a text that ends there; None if none ends there.
    """

    machine: Machine
    forbidden: tuple[CharSet | None, ...]

    @classmethod
    def of_machine(cls, machine: Machine) -> Lexeme:
        """Return the lexeme of a machine; anything may follow it."""
        return cls(machine, tuple([CharSet() if accepts else None for accepts in machine.accepting]))

    @classmethod
    def of_sets(cls, charsets: Sequence[CharSet]) -> Lexeme:
        """Return the lexeme of a string, given as a set of characters for each place."""
        moves = [((charset, state + 1),) for state, charset in enumerate(charsets)]
        return cls.of_machine(Machine((*moves, ()), (*[False] * len(charsets), True)))

    def tree(self) -> Node:
        """Return the tree with its `Look` nodes."""
        if not any(self.forbidden):
            return self.machine
        end = len(self.forbidden)
        moves: list[tuple[tuple[Node, int], ...]] = []
        for row, forbidden in zip(self.machine.moves, self.forbidden, strict=True):
            edges: list[tuple[Node, int]] = [(Characters(charset), target) for charset, target in row]
            if forbidden:
                edges.append((Look(Characters(forbidden), False, True, 0), end))
            moves.append(tuple(edges))
        accepting = [forbidden is not None and not forbidden for forbidden in self.forbidden]
        return Graph((*moves, ()), (*accepting, True))

    def longest(self, other: Machine, limits: Limits) -> Lexeme:
        """Forbid the characters with which another automaton would go on after the same text."""

        def ends(forbidden: CharSet, state: int | None) -> CharSet:
            return forbidden if state is None else forbidden | CharSet.union([c for c, _ in other.moves[state]])

        return self.beside(other, ends, limits)

    def without(self, other: Machine, limits: Limits) -> Lexeme:
        """Remove the texts of another automaton."""

        def ends(forbidden: CharSet, state: int | None) -> CharSet | None:
            return None if state is not None and other.accepting[state] else forbidden

        return self.beside(other, ends, limits)

    def beside(self, other: Machine, ends: Callable[[CharSet, int | None], CharSet | None], limits: Limits) -> Lexeme:
        """Run another automaton on the same text; `ends` says what an accepting state forbids beside a state of it."""
        pairs: list[tuple[int, int | None]] = [(0, 0)]
        number = {pairs[0]: 0}
        moves: list[tuple[tuple[CharSet, int], ...]] = []
        forbidden: list[CharSet | None] = []
        for state, beside in pairs:
            limits.check_states(len(pairs))
            mine = self.forbidden[state]
            forbidden.append(None if mine is None else ends(mine, beside))
            row = []
            for charset, target in self.machine.moves[state]:
                rest = charset
                options: list[tuple[CharSet, int | None]] = []
                for other_set, other_target in other.moves[beside] if beside is not None else ():
                    limits.spend(_PAIR_STEPS)
                    options.append((rest & other_set, other_target))
                    rest = rest - other_set
                for part, after in (*options, (rest, None)):
                    if part:
                        pair = (target, after)
                        if pair not in number:
                            number[pair] = len(pairs)
                            pairs.append(pair)
                        row.append((part, number[pair]))
            moves.append(tuple(row))
        return Lexeme(Machine(tuple(moves), tuple([f is not None for f in forbidden])), tuple(forbidden))


def asserting_lexeme(tree: Node, limits: Limits) -> Lexeme:
    """Compile a tree with assertions, of which one at the end may see the next character.

    Raises:
        EdgeAssertion: One sees more than that.
        PatternTooLarge: A limit is exceeded.
    """
    alone = TextLanguage.of_tree(tree, limits)
    followed = TextLanguage.of_tree(Concat((tree, _CHARACTER)), limits)
    if alone.is_empty:
        raise EdgeAssertion("must be followed by a character" if not followed.is_empty else "has no text")
    for before in (Repeat(_CHARACTER, 1, 1), Repeat(_CHARACTER, _TRIED, _TRIED), _TEXT):
        if not _is_same(Concat((before, tree)), Concat((before, alone.machine())), limits):
            raise EdgeAssertion("looks at the text before it")
    if followed.is_empty:
        return Lexeme(alone.machine(), tuple([ANY if accepts else None for accepts in alone.machine().accepting]))
    for after in (Repeat(_CHARACTER, _TRIED, _TRIED), _TEXT):
        if not _is_same(Concat((tree, _CHARACTER, after)), Concat((followed.machine(), after)), limits):
            raise EdgeAssertion("looks at more than one character after it")
    if not (followed - TextLanguage.of_tree(Concat((alone.machine(), _CHARACTER)), limits)).is_empty:
        raise EdgeAssertion("must be followed by a character")
    machine = followed.machine()

    def ends(_forbidden: CharSet, state: int | None) -> CharSet:
        moves = () if state is None else machine.moves[state]
        return ANY - _SURROGATES - CharSet.union([charset for charset, target in moves if machine.accepting[target]])

    return Lexeme.of_machine(alone.machine()).beside(machine, ends, limits)


def _is_same(first: Node, second: Node, limits: Limits) -> bool:
    a, b = TextLanguage.of_tree(first, limits), TextLanguage.of_tree(second, limits)
    return (a - b).is_empty and (b - a).is_empty


# No text holds them, so no end needs to forbid them.
_SURROGATES = CharSet(((0xD800, 0xDFFF),))
