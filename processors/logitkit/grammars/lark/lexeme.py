r"""A terminal as an automaton whose ends forbid some texts after them.

`/if\b/` has one text, and no letter may follow it: its automaton has states 0, 1 and 2, and state 2 is an end that forbids `\w`.
As a tree, an end is a negative `Look` before the last state.

Under a lexer, an end also forbids the texts with which a terminal goes on: `/[a-z]+/` forbids `[a-z]` in its only accepting
state. `beside` does the same for a terminal and another automaton that reads the same text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from logitkit.compiler.text_language import TextLanguage
from logitkit.grammars.lark.continuations import NOTHING, Continuation, Following
from logitkit.limits import Limits
from logitkit.patterns.charset import ANY, CharSet
from logitkit.patterns.syntax import Characters, Concat, Graph, Look, Machine, Node, Repeat

__all__ = ["EdgeAssertion", "Lexeme", "asserting_lexeme"]

# The costs of a pair of states, and of a pair of transitions.
_STATE_STEPS, _PAIR_STEPS = 20, 10

# Lookarounds at the edge of a terminal are tried with as many characters before and after it.
_TRIED = 4

_CHARACTER = Characters(ANY)
_TEXT = Repeat(_CHARACTER, 0, None)


# The continuations that an accepting state forbids, given those already forbidden, beside a state of another automaton. That is
# None where the other one has none, and the result is None if the text is not one any more.
Ends: TypeAlias = Callable[[Continuation, "int | None"], "Continuation | None"]


class EdgeAssertion(Exception):
    """An assertion at the edge of a terminal sees more than the next character; the message says what it sees."""


@dataclass(frozen=True, eq=False, slots=True)
class Lexeme:
    """The texts of a terminal.

    Args:
        machine: The deterministic automaton. Its `accepting` states are those with an entry in `forbidden`.
        forbidden: For each state, the texts that must not follow a text that ends there; None if none ends there.
    """

    machine: Machine
    forbidden: tuple[Continuation | None, ...]

    @classmethod
    def of_machine(cls, machine: Machine) -> Lexeme:
        """Return the lexeme of a machine; anything may follow it."""
        return cls(machine, tuple([NOTHING if accepts else None for accepts in machine.accepting]))

    @classmethod
    def of_sets(cls, charsets: Sequence[CharSet]) -> Lexeme:
        """Return the lexeme of a string, given as a set of characters for each place."""
        moves = [((charset, state + 1),) for state, charset in enumerate(charsets)]
        return cls.of_machine(Machine((*moves, ()), (*[False] * len(charsets), True)))

    @property
    def is_empty(self) -> bool:
        """Whether there are no texts."""
        return not any(self.machine.accepting)

    @property
    def first(self) -> CharSet:
        """The characters with which a text may begin."""
        return CharSet.union([charset for charset, _ in self.machine.moves[0]])

    def has(self, text: str) -> bool:
        """Whether a text is one of the terminal, whatever follows it."""
        state = 0
        for code_point in map(ord, text):
            found = [target for charset, target in self.machine.moves[state] if code_point in charset]
            if not found:
                return False
            (state,) = found
        return self.machine.accepting[state]

    def tree(self) -> Node:
        """Return the tree with its `Look` nodes."""
        if self.is_empty:
            return Characters(CharSet())
        if not any(self.forbidden):
            return self.machine
        end = len(self.forbidden)
        moves: list[tuple[tuple[Node, int], ...]] = []
        for row, forbidden in zip(self.machine.moves, self.forbidden, strict=True):
            edges: list[tuple[Node, int]] = [(Characters(charset), target) for charset, target in row]
            if forbidden:
                edges.append((Look(forbidden.node(), False, True, 0), end))
            moves.append(tuple(edges))
        accepting = [forbidden is not None and not forbidden for forbidden in self.forbidden]
        return Graph((*moves, ()), (*accepting, True))

    def followed_by(self, following: Following) -> Lexeme:
        """Forbid nothing that cannot follow anyway."""
        left = {f: f and f.within(following) for f in dict.fromkeys(self.forbidden)}
        forbidden = tuple([left[f] for f in self.forbidden])
        return self if forbidden == self.forbidden else Lexeme(self.machine, forbidden)

    def longest(
        self, other: Lexeme, exact: bool, following: Following | None, limits: Limits, stops: bool = False
    ) -> Lexeme:
        """Forbid what another terminal would go on with after the same text.

        Args:
            other: The terminal.
            exact: Whether it is forbidden exactly; see `Continuation.of`.
            following: The characters that may follow, if they are known.
            limits: Bound on the work.
            stops: See `beside`.
        """
        known: dict[int, Continuation] = {}

        def ends(forbidden: Continuation, state: int | None) -> Continuation:
            if state is None:
                return forbidden
            if state not in known:
                more = Continuation.of(other.machine, state, exact, limits)
                known[state] = more if following is None else more.within(following)
            return forbidden | known[state]

        return self.beside(other, ends, limits, stops)

    def unless(self, other: Lexeme, exact: bool, following: Following, limits: Limits) -> Lexeme:
        """Remove what another terminal reads before: the texts that begin with one of it, or would with what follows them."""
        return self.longest(other, exact, following, limits, stops=True)

    def without(self, other: Lexeme, limits: Limits) -> Lexeme:
        """Remove the texts of another terminal."""

        def ends(forbidden: Continuation, state: int | None) -> Continuation | None:
            return None if state is not None and other.machine.accepting[state] else forbidden

        return self.beside(other, ends, limits)

    def within(self, other: Lexeme, exact: bool, following: Following, limits: Limits) -> Lexeme:
        """Let another terminal read no text of it in part: it reads all of it and no more, or does not match there."""
        found = self.longest(other, exact, following, limits)
        if any(other.forbidden):
            found = found.both(other, limits)
        longer = TextLanguage.of_tree(Concat((other.machine, _CHARACTER, _TEXT)), limits)
        parts = TextLanguage.of_tree(self.machine, limits) & longer - TextLanguage.of_tree(other.machine, limits)
        return found if parts.is_empty else found.without(Lexeme.of_machine(parts.machine()), limits)

    def both(self, other: Lexeme, limits: Limits) -> Lexeme:
        """Forbid what either of two lexemes forbids, as far as the texts of this one are texts of the other one."""

        def ends(forbidden: Continuation, state: int | None) -> Continuation:
            theirs = None if state is None else other.forbidden[state]
            return forbidden | (theirs or NOTHING)

        return self.beside(other, ends, limits)

    def beside(self, other: Lexeme, ends: Ends, limits: Limits, stops: bool = False) -> Lexeme:
        """Run another terminal on the same text. If that changes nothing, return the lexeme itself.

        Args:
            other: The terminal.
            ends: The continuations that an accepting state forbids beside a state of the other terminal.
            limits: Bound on the work.
            stops: Whether no text is left that begins with a text of the other terminal, unless the next character must not
                follow that.
        """
        # Most other terminals have little in common with this one.
        reached = [(0, 0)]
        seen = set[tuple[int, int]]()
        for state, beside in reached:
            mine = self.forbidden[state]
            if (stops and seen and other.forbidden[beside] is not None) or (
                mine is not None and ends(mine, beside) != mine
            ):
                return self.product(other, ends, limits, stops)
            for charset, target in self.machine.moves[state]:
                for read, after in other.machine.moves[beside]:
                    limits.spend(_PAIR_STEPS + len(charset.ranges) + len(read.ranges))
                    if (target, after) not in seen and charset & read:
                        seen.add((target, after))
                        reached.append((target, after))
        return self

    def product(self, other: Lexeme, ends: Ends, limits: Limits, stops: bool = False) -> Lexeme:
        """Run another terminal on the same text; see `beside`."""
        pairs: list[tuple[int, int | None]] = [(0, 0)]
        number: dict[tuple[int, int | None], int] = {}
        moves: list[tuple[tuple[CharSet, int], ...]] = []
        forbidden: list[Continuation | None] = []
        for state, beside in pairs:
            limits.check_states(len(pairs))
            limits.spend(_STATE_STEPS)
            mine = self.forbidden[state]
            # The empty text at the beginning comes before no other one.
            theirs = other.forbidden[beside] if stops and moves and beside is not None else None
            forbidden.append(None if mine is None or theirs is not None else ends(mine, beside))
            row = []
            for charset, target in self.machine.moves[state]:
                limits.spend(_PAIR_STEPS)
                rest = charset if theirs is None else charset & theirs.now
                options: list[tuple[CharSet, int | None]] = []
                for read, after in other.machine.moves[beside] if beside is not None else ():
                    limits.spend(_PAIR_STEPS + len(rest.ranges) + len(read.ranges))
                    options.append((rest & read, after))
                    rest = rest - read
                for part, beside_after in (*options, (rest, None)):
                    if part:
                        pair = (target, beside_after)
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
        anything = Continuation(ANY)
        return Lexeme(alone.machine(), tuple([anything if accepts else None for accepts in alone.machine().accepting]))
    for after in (Repeat(_CHARACTER, _TRIED, _TRIED), _TEXT):
        if not _is_same(Concat((tree, _CHARACTER, after)), Concat((followed.machine(), after)), limits):
            raise EdgeAssertion("looks at more than one character after it")
    if not (followed - TextLanguage.of_tree(Concat((alone.machine(), _CHARACTER)), limits)).is_empty:
        raise EdgeAssertion("must be followed by a character")
    machine = followed.machine()

    def ends(_forbidden: Continuation, state: int | None) -> Continuation:
        moves = () if state is None else machine.moves[state]
        allowed = CharSet.union([charset for charset, target in moves if machine.accepting[target]])
        return Continuation(ANY - _SURROGATES - allowed)

    return Lexeme.of_machine(alone.machine()).product(Lexeme.of_machine(machine), ends, limits)


def _is_same(first: Node, second: Node, limits: Limits) -> bool:
    a, b = TextLanguage.of_tree(first, limits), TextLanguage.of_tree(second, limits)
    return (a - b).is_empty and (b - a).is_empty


# No text holds them, so no end needs to forbid them.
_SURROGATES = CharSet(((0xD800, 0xDFFF),))
