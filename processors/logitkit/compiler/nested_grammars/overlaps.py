"""Calls and words that begin alike in a state of a part, so that the automaton must follow several states at once.

There are two such cases:

- A bracket begins calls of several rules, such as the objects of an `anyOf`. The automaton calls all of them together. Each
  end of the call says which of them the text belongs to, and the automaton continues in the states after these.
- A word is also one of the strings that the state calls. For example, one branch of a schema lists the name `"a"`, and another
  branch accepts any name. Then `"a"` leads to the states of both branches, and the state calls all strings but `"a"`.

So a state of the result is a set of states of the part. Most of these sets have one member.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from logitkit.budget import spent, took
from logitkit.compiler.bytes.literal_overrides import OVERLAPPING_BRACKET, BracketsOverlap, CountsOverlap
from logitkit.compiler.characters.alphabet import Alphabet
from logitkit.compiler.characters.positions import Positions
from logitkit.compiler.characters.subset import Check, SymbolDfa
from logitkit.compiler.characters.symbols import Symbol, shared_symbols, split
from logitkit.compiler.nested_grammars.nested_grammar import (
    NestedGrammar,
    NestedRule,
    RenumberedRule,
    Strings,
    TextFragment,
)
from logitkit.compiler.nested_grammars.part import Bracket, Called, Part
from logitkit.limits import Limits
from logitkit.patterns.charset import CharSet

__all__ = ["Resolver", "bracket_checks"]

# The cost of a set of states, in steps: by itself, and for each state in it.
SET_STEPS, MEMBER_STEPS = 40, 2


def bracket_checks(
    positions: Positions, texts: Iterable[CharSet], special: Iterable[CharSet], grammar: NestedGrammar
) -> list[Check]:
    """Return functions that raise `BracketsOverlap` for a state in which a bracket begins a recursive call and other text.

    `Assembly` finds such a state too, if a text can lead there, but only after all parts have been compiled.

    Args:
        positions: The positions of a part.
        texts: The sets of characters that positions read.
        special: The special symbols that positions read.
        grammar: The grammar.
    """
    checks: list[Check] = []
    for bracket in "{[":
        calls = {c for c in special if _calls_recursively(bracket, c, grammar)}
        others = {c for c in texts if ord(bracket) in c} if calls else ()
        if others:
            calling = frozenset(p for p, c in enumerate(positions.charsets) if c in calls)
            reading = frozenset(p for p, c in enumerate(positions.charsets) if c in others)
            checks.append(partial(_check_bracket, calling, reading))
    return checks


def _check_bracket(calling: frozenset[int], reading: frozenset[int], future: tuple[int, ...]) -> None:
    if not (calling.isdisjoint(future) or reading.isdisjoint(future)):
        raise BracketsOverlap(OVERLAPPING_BRACKET)


def _calls_recursively(bracket: str, symbol: CharSet, grammar: NestedGrammar) -> bool:
    first = symbol.ranges[0][0]
    if not Symbol.is_call(first):
        return False
    rule = grammar.rules[Symbol.number(first)]
    return isinstance(rule, NestedRule | RenumberedRule) and rule.opening == bracket and rule.recurs


class Resolver:
    """Builds a part from an automaton over characters and special symbols.

    Args:
        dfa: The moves of the part, by characters and special symbols.
        alphabet: The alphabet of characters.
        special: The special symbols, in the order of their bits.
        grammar: The grammar.
        limits: Bounds on the part.
        marks_of: Returns the sets of marks, as bits, that may be met at the ends of what is called.
    """

    def __init__(
        self,
        dfa: SymbolDfa,
        alphabet: Alphabet,
        special: list[int],
        grammar: NestedGrammar,
        limits: Limits,
        marks_of: Callable[[Called], Iterable[int]],
    ) -> None:
        self.marks_of = marks_of
        self.dfa, self.alphabet, self.grammar, self.limits = dfa, alphabet, grammar, limits
        self.special = [(Symbol.kind(symbol), Symbol.number(symbol)) for symbol in special]
        self.number: dict[frozenset[int], int] = {frozenset([0]): 0}
        self.work, self.left = 0, limits.work - spent()
        self.sets = [frozenset([0])]
        self.single = {0: 0}
        self.words: dict[tuple[Called, int], int] = {}

    def _state(self, members: frozenset[int] | set[int]) -> int:
        if len(members) == 1:
            (member,) = members
            found = self.single.get(member)
            if found is None:
                found = self.single[member] = self._several(frozenset(members))
            return found
        return self._several(frozenset(members))

    def _several(self, members: frozenset[int]) -> int:
        found = self.number.setdefault(members, len(self.sets))
        if found == len(self.sets):
            self.limits.check_states(found)
            self._charge(SET_STEPS + MEMBER_STEPS * len(members))
            self.sets.append(members)
        return found

    def _charge(self, steps: int) -> None:
        self.work += steps
        # The functions that are called meanwhile count their own work.
        if self.work > self.left:
            self.limits.check_work(self.work)

    def part(self) -> Part:
        """Return the part.

        Raises:
            PatternTooLarge: There is too much to do, or too many calls cannot be told apart.
        """
        moves: list[dict[int, int]] = []
        brackets: list[dict[str, Bracket]] = []
        words: list[dict[int, int]] = []
        special_tokens: list[dict[int, int]] = []
        ends: list[int] = []
        try:
            for members in self.sets:
                text, calls, read, tokens, marks = self._row(members)
                moves.append(self._merged(text, members))
                brackets.append(self._brackets(calls, read) if calls else {})
                words.append({word: self._state(targets) for word, targets in read.items()} if read else {})
                special_tokens.append(
                    {special_token: self._state(targets) for special_token, targets in tokens.items()} if tokens else {}
                )
                ends.append(marks)
        finally:
            took(self.work)
        accepting = [any(self.dfa.accepting[s] for s in members) for members in self.sets]
        return Part(SymbolDfa(moves, accepting), self.alphabet, brackets, words, special_tokens, ends)

    def _row(
        self, members: frozenset[int]
    ) -> tuple[list[tuple[int, int]], dict[int, set[int]], dict[int, set[int]], dict[int, set[int]], int]:
        """Return the moves of some states by characters, calls, words and special tokens, and the marks of what ends there."""
        size = self.alphabet.size
        characters = (1 << size) - 1
        text: list[tuple[int, int]] = []
        calls: dict[int, set[int]] = {}
        words: dict[int, set[int]] = {}
        special_tokens: dict[int, set[int]] = {}
        marks = 0
        for member in sorted(members):
            for target, mask in self.dfa.moves[member].items():
                if mask <= characters:
                    text.append((target, mask))
                    continue
                above = mask >> size
                if mask & characters:
                    text.append((target, mask & characters))
                while above:
                    kind, number = self.special[(above & -above).bit_length() - 1]
                    above &= above - 1
                    if kind == "special token":
                        special_tokens.setdefault(number, set()).add(target)
                    elif kind == "word":
                        words.setdefault(number, set()).add(target)
                    elif kind == "mark":
                        marks |= 1 << number
                    else:
                        calls.setdefault(number, set()).add(target)
        return text, calls, words, special_tokens, marks

    def _merged(self, text: list[tuple[int, int]], members: frozenset[int]) -> dict[int, int]:
        row: dict[int, int] = {}
        if len(members) == 1:
            # One state leads to one other with each character.
            self._charge(len(text))
            for target, mask in text:
                found = self.single.get(target)
                row[self._state({target}) if found is None else found] = mask
            return row
        masks = tuple(mask for _, mask in text)
        self._charge(len(masks) * (1 + shared_symbols(masks).bit_count() // 2))
        for block, which in split(masks):
            target = self._state(frozenset(text[i][0] for i in which))
            row[target] = row.get(target, 0) | block
        return row

    def _brackets(self, calls: dict[int, set[int]], read: dict[int, set[int]]) -> dict[str, Bracket]:
        """Return the call of each bracket, given the targets of calls.

        Args:
            calls: The states after each call.
            read: The states after each word. Those of words that are also called strings are added to, in place.
        """
        found: dict[str, Bracket] = {}
        by_opening: dict[str, list[int]] = {}
        for d in sorted(calls):
            by_opening.setdefault(self.grammar.rules[d].opening, []).append(d)
        for opening, possible in sorted(by_opening.items()):
            places: dict[frozenset[int], int] = {}
            called = tuple([(d, places.setdefault(frozenset(calls[d]), len(places))) for d in possible])
            if len(possible) > 1 and any(isinstance(self.grammar.rules[d], TextFragment) for d in possible):
                raise CountsOverlap("texts that are fragments begin in the same place")
            return_states = [
                (marks, self._state({s for place, mark in places.items() if marks >> mark & 1 for s in place}))
                for marks in self.marks_of(called)
            ]
            excluded = []
            for word in read if opening == '"' else ():
                marks = self._marks_of_word(called, word)
                if marks:
                    excluded.append(word)
                    read[word] |= {s for place, mark in places.items() if marks >> mark & 1 for s in place}
            found[opening] = Bracket(called, tuple(return_states), tuple(excluded))
        return found

    def _marks_of_word(self, called: Called, word: int) -> int:
        """Return the marks of the rules whose strings include a word, as bits; 0 if none do."""
        marks = self.words.get((called, word))
        if marks is None:
            text = self.grammar.words[word]
            marks = 0
            for d, mark in called:
                rule = self.grammar.rules[d]
                if isinstance(rule, Strings) and rule.holds(text):
                    marks |= 1 << mark
            self.words[called, word] = marks
            self._charge(len(text))
        return marks
