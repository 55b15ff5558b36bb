"""Calls and words that are written in place, because other text begins like them.

In one branch of a schema, the value of `"a"` is any value, which is called. In another branch, it is an object that is written
in place. Both begin with `{`, and the automaton cannot push a frame for one of them only. So it *unfolds* the call: the states
of the rule are copied to this place, and the end of the copy leads to the states after the call. Members inside of the copy are
calls again, so a call is unfolded only as far as other text is possible beside it. Words, strings, raw text and blocks of items
are unfolded in the same way.

By hand: state 0 calls rule 0, whose only text is `{a}`, and continues in state 2. It also reads `{b}?`. The automaton has
states 0 to 5. That of the rule, without its `{`, has four states, which are added as 6 to 9. From this *original*, the copy 10
to 13 is made. Then `{` leads from state 0 to the state before `b` and to state 10. The rule ends in state 12, so state 12
stands for state 2.

Some words must not be unfolded (`NestedGrammar.unmixed`), because copies of many of them would cost more than words save. Where
other text begins like one of these, `WordsMixed` is raised, and the caller compiles the language without these words. It is
raised as well where many states read the same words on the way to the same states, as after `[0-9]{0,99}`: without words, each of
these states would read a few first characters, and all would share the rest.

If the other text may nest without limit itself, as `.*` may, unfolding would not end. A call would then be unfolded inside of
its own copy beside the same other text, and this is refused.

Invariants: for each symbol and the states after it, there is one copy. States below `_own` are those of the given automaton;
originals and copies follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from logitkit.compiler.bytes.literal_overrides import OVERLAPPING_BRACKET, BracketsOverlap
from logitkit.compiler.characters.alphabet import Alphabet
from logitkit.compiler.characters.symbols import Symbol
from logitkit.compiler.nested_grammars.nested_grammar import (
    NestedGrammar,
    NestedRule,
    RenumberedRule,
    Strings,
    TextFragment,
)
from logitkit.compiler.nested_grammars.remembered_arrays import MIXED, MixedArrays, is_label
from logitkit.compiler.nested_grammars.tree_dfa import TreeDfa, translated
from logitkit.limits import Limits
from logitkit.patterns.charset import CharSet

__all__ = ["Row", "Unfolding", "WordsMixed"]

# For each symbol of one kind, by its number, the states after it.
Targets: TypeAlias = dict[int, set[int]]

# The symbol of a call or word that is unfolded, and the states of the given automaton whose text begins like it.
Unfolded: TypeAlias = tuple[int, frozenset[int]]


# How many times words that must stand alone may be read in the states of a part, however few characters they save.
FREE_READS = 1_000


class WordsMixed(Exception):
    """Words that must stand alone cannot, or save nothing. The caller compiles the language without these words."""


@dataclass(slots=True, eq=False)
class Row:
    """The moves of a set of states together.

    Args:
        text: The moves by characters: the target of each, and its characters as bits.
        calls: The states after each call.
        words: The states after each word.
        special_tokens: The states after each special token.
        marks: The marks of the rules that end in these states, as bits.
        has_copies: Whether calls or words of these states have been unfolded.
    """

    text: list[tuple[int, int]] = field(default_factory=list)
    calls: Targets = field(default_factory=dict)
    words: Targets = field(default_factory=dict)
    special_tokens: Targets = field(default_factory=dict)
    marks: int = 0
    has_copies: bool = False


class Unfolding:
    """The states of an automaton, to which copies of rules and words are added where they are needed.

    Args:
        tree: The automaton.
        grammar: The grammar.
        limits: Bounds on the copies.
        tree_of: Returns the automaton of a rule or a word, without its first character, given its symbol.

    Attributes:
        alphabet: The alphabet of characters. It gets finer when copies are added.
        moves: The moves by characters of the part that `Resolver` builds. It appends them here, so that they are translated
            when the alphabet changes.
    """

    def __init__(
        self, tree: TreeDfa, grammar: NestedGrammar, limits: Limits, tree_of: Callable[[int], TreeDfa]
    ) -> None:
        assert tree.dfa is not None
        self.grammar, self.limits, self.tree_of = grammar, limits, tree_of
        self.alphabet = tree.alphabet
        self.moves: list[dict[int, int]] = []
        self._labels = frozenset([number for number, word in enumerate(grammar.words) if is_label(word)])
        self._rows = tree.dfa.moves
        self._own = len(self._rows)
        # The class of each first character in the alphabet, as far as it was asked for.
        self._classes: dict[str, int] = {}
        self._special = [*tree.special]
        self._numbered = _numbered(self._special)
        # For each symbol that is unfolded: the first state and the number of states of its original.
        self._originals: dict[int, tuple[int, int]] = {}
        # The first state of each copy, by its symbol and the states after it.
        self._copies: dict[tuple[int, frozenset[int]], int] = {}
        # For states in which a copy ends: the states that they stand for.
        self._after: dict[int, frozenset[int]] = {}
        # For states of copies: the copies that they are inside of, their own included.
        self._around: dict[int, frozenset[Unfolded]] = {}
        # Sets of words of which none begins another one.
        self._apart: set[frozenset[int]] = set()
        # Words that must stand alone, each with the states after it; how many times they are read; and the characters of these
        # ways, of which each would take a state if the word were written in place.
        self._ways: set[tuple[int, frozenset[int]]] = set()
        self._reads = self._saved = 0

    @property
    def has_copies(self) -> bool:
        """Whether anything has been unfolded."""
        return bool(self._copies)

    @property
    def has_strings(self) -> bool:
        """Whether strings have been unfolded."""
        calls = {Symbol.number(symbol) for symbol, _ in self._copies if Symbol.is_call(symbol)}
        return any(isinstance(self.grammar.rules[call], Strings) for call in calls)

    def after(self, target: int) -> frozenset[int]:
        """Return the states that a state stands for: those after the call at the end of a copy, elsewhere the state itself."""
        return self._after.get(target) or frozenset([target])

    def row(self, members: frozenset[int]) -> Row:
        """Return the moves of some states, after unfolding the calls and words that begin like other text.

        Raises:
            BracketsOverlap: Unfolding would not end.
            MixedArrays: Arrays whose items must differ and others begin there.
            PatternTooLarge: A limit is exceeded.
            WordsMixed: Other text begins like a word that must stand alone, or many states read the same ones.
        """
        row = self._gathered(members)
        if not self._labels.isdisjoint(row.words) and (len(row.words) > 1 or row.calls or row.text):
            raise MixedArrays(MIXED)
        alone = len(row.calls) + len(row.words) < 2
        alike = self._alike(row) if (row.calls or row.words) and (row.text or not alone) else set()
        if not self.grammar.unmixed.isdisjoint(row.words):
            self._check_unmixed(row, alike)
        if not alike:
            return row
        if not alike.issubset(self._originals):
            self._add_originals(alike)
            row = self._gathered(members)
        for symbol in sorted(alike):
            targets = row.words if Symbol.is_word(symbol) else row.calls
            opening = 1 << self._class_of(self._opening(symbol))
            beside = frozenset(
                [m for m in members if m < self._own and any(opening & mask for mask in self._rows[m].values())]
            )
            first = self._copy(symbol, frozenset(targets.pop(Symbol.number(symbol))), beside)
            row.text.append((first, opening))
        row.has_copies = True
        return row

    def _gathered(self, members: frozenset[int]) -> Row:
        row = Row()
        size, after = self.alphabet.size, self._after
        characters = (1 << size) - 1
        text, calls, words, special_tokens = row.text, row.calls, row.words, row.special_tokens
        for member in sorted(members) if len(members) > 1 else members:
            for target, mask in self._rows[member].items():
                if mask <= characters:
                    text.append((target, mask))
                    continue
                above = mask >> size
                if mask & characters:
                    text.append((target, mask & characters))
                while above:
                    kind, number = self._numbered[(above & -above).bit_length() - 1]
                    above &= above - 1
                    if kind == "mark":
                        row.marks |= 1 << number
                        continue
                    found = words if kind == "word" else special_tokens if kind == "special token" else calls
                    if number not in found:
                        found[number] = {*after[target]} if target in after else {target}
                    else:
                        found[number].update(after.get(target, (target,)))
        return row

    def _alike(self, row: Row) -> set[int]:
        """Return the symbols of the calls and words that begin like other text."""
        reading = 0
        for _, mask in row.text:
            reading |= mask
        rules = [self.grammar.rules[call] for call in row.calls]
        if not reading and all(type(rule) is Strings for rule in rules):
            # As most often: names, and the strings beside them.
            return set()
        openings = [*(rule.opening for rule in rules), *map(self._first_of, row.words)]
        taken = {opening for opening in {*openings} if reading >> self._class_of(opening) & 1} if reading else set()
        # A fragment of text is called only where nothing else begins with its byte.
        fragments = [rule.opening for rule in rules if isinstance(rule, TextFragment)]
        taken.update(opening for opening in fragments if openings.count(opening) > 1)
        blocks = {d.block for d in rules if isinstance(d, NestedRule | RenumberedRule) and d.opening == ","}
        if len(blocks) > 1:
            taken.add(",")
        if not taken:
            return set()
        symbols = [*map(Symbol.call, row.calls), *map(Symbol.word, row.words)]
        return {symbol for symbol, opening in zip(symbols, openings, strict=True) if opening in taken}

    def _check_unmixed(self, row: Row, alike: set[int]) -> None:
        """Raise `WordsMixed` if a word that must stand alone begins like text, like a call, or like all of another word.

        Or if many states read these words, and copies of them in place would take less.
        """
        texts, read = self.grammar.words, frozenset(row.words)
        unmixed = read & self.grammar.unmixed
        openings = {self.grammar.rules[call].opening for call in row.calls}
        self._reads += len(unmixed)
        self.limits.spend(len(unmixed))
        for word in unmixed:
            way = word, frozenset(row.words[word])
            if way not in self._ways:
                self._ways.add(way)
                self._saved += len(texts[word])
        if (
            self._reads > self._saved + FREE_READS
            or any(Symbol.word(word) in alike for word in read)
            or any(self._first_of(word) in openings for word in unmixed)
            or not self._are_apart(read)
        ):
            raise WordsMixed

    def _are_apart(self, read: frozenset[int]) -> bool:
        """Whether none of some words begins another one."""
        if read not in self._apart:
            words = sorted([self.grammar.words[word] for word in read])
            self.limits.spend(sum(map(len, words)))
            if any(after.startswith(before) for before, after in pairwise(words)):
                return False
            self._apart.add(read)
        return True

    def _first_of(self, word: int) -> str:
        """Return the first character of a word."""
        text = self.grammar.words[word]
        return chr(text[0]) if text[0] < 0x80 else text[:4].decode(errors="ignore")[0]

    def _opening(self, symbol: int) -> str:
        """Return the first character of the rule or word that a symbol stands for."""
        number = Symbol.number(symbol)
        return self._first_of(number) if Symbol.is_word(symbol) else self.grammar.rules[number].opening

    def _class_of(self, character: str) -> int:
        found = self._classes.get(character)
        if found is None:
            found = self._classes[character] = int(self.alphabet.symbol_at(np.array(ord(character)))[()])
        return found

    def _add_originals(self, alike: set[int]) -> None:
        """Add the originals of some symbols, and make the alphabet fine enough for all states."""
        # Text that begins like one word often begins like all of them. Adding these one by one would take long.
        openings = {self._opening(symbol) for symbol in alike}
        words = {s for s in self._special if Symbol.is_word(s) and self._opening(s) in openings}
        symbols = sorted((alike | words) - {*self._originals})
        trees = [self.tree_of(symbol) for symbol in symbols]
        first = [CharSet.single(ord(opening)) for opening in sorted(openings)]
        known = [*self.alphabet.members, *(charset for tree in trees for charset in tree.alphabet.members), *first]
        alphabet, before = Alphabet.of(known), self.alphabet
        special = [*dict.fromkeys([*self._special, *(s for tree in trees for s in tree.special)])]
        self._rows = translated(self._rows, before, self._special, alphabet, special)
        self.moves[:] = translated(self.moves, before, self._special, alphabet, special)
        for symbol, tree in zip(symbols, trees, strict=True):
            assert tree.dfa is not None
            rows = translated(tree.dfa.moves, tree.alphabet, tree.special, alphabet, special)
            begin = len(self._rows)
            self._rows += [{begin + target: mask for target, mask in row.items()} for row in rows]
            self._originals[symbol] = begin, len(rows)
        self.limits.spend(len(self._rows))
        self.alphabet, self._special, self._numbered = alphabet, special, _numbered(special)
        self._classes.clear()

    def _copy(self, symbol: int, after: frozenset[int], beside: frozenset[int]) -> int:
        """Return the first state of a copy.

        Args:
            symbol: The symbol of the call or word that is unfolded.
            after: The states after it.
            beside: The states of the given automaton whose text begins like it.
        """
        known = self._copies.get((symbol, after))
        if known is not None:
            return known
        around: frozenset[Unfolded] = frozenset().union(*[self._around[s] for s in after if s in self._around])
        if beside and (symbol, beside) in around:
            raise BracketsOverlap(OVERLAPPING_BRACKET)
        around |= {(symbol, beside)}
        original, count = self._originals[symbol]
        first = self._copies[symbol, after] = len(self._rows)
        self.limits.check_states(first + count)
        self.limits.spend(count)
        marks = sum(1 << self.alphabet.size + i for i, (kind, _) in enumerate(self._numbered) if kind == "mark")
        for state in range(original, original + count):
            row = self._rows[state]
            self._around[len(self._rows)] = around
            if any(mask & marks for mask in row.values()):
                if len(row) > 1:
                    raise BracketsOverlap("a rule must end with its closing bracket, after which nothing of it goes on")
                self._after[len(self._rows)] = after
                row = {}
            self._rows.append({target - original + first: mask for target, mask in row.items()})
        return first


def _numbered(special: Iterable[int]) -> list[tuple[str, int]]:
    return [(Symbol.kind(symbol), Symbol.number(symbol)) for symbol in special]
