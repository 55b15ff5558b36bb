"""One part of a grammar: a deterministic automaton over characters, with what its brackets call and where it ends.

Parts of rules that stand in many grammars, such as that of any JSON value: each is worked out once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, TypeAlias

from logitkit.budget import one_budget, outside_budget, spent
from logitkit.compiler.bounded_cache import BoundedCache
from logitkit.compiler.bytes.byte_dfa import ByteDfa
from logitkit.compiler.bytes.in_utf8 import to_bytes
from logitkit.compiler.characters.alphabet import Alphabet
from logitkit.compiler.characters.minimise import minimise
from logitkit.compiler.characters.subset import SymbolDfa
from logitkit.compiler.nested_grammars.nested_grammar import NestedRule, RenumberedRule
from logitkit.limits import Limits

__all__ = ["Bracket", "Called", "KnownParts", "Part"]

# Rules that are called at once, each with the mark at its end.
Called: TypeAlias = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Bracket:
    """The effect of an opening bracket in a state.

    Args:
        called: The rules that are called.
        return_states: For each set of marks (as bits), the state after it.
        excluded: Words that are among the strings called: the state reads the word, and calls all other strings.
        beside_words: Whether the state also reads words that begin with this quote.
    """

    called: Called
    return_states: tuple[tuple[int, int], ...]
    excluded: tuple[int, ...] = ()
    beside_words: bool = False


@dataclass(frozen=True, eq=False)
class Part:
    """One part.

    Args:
        dfa: Its moves by characters; None: no text belongs to it.
        alphabet: The alphabet of these moves.
        brackets: For each state, what opening brackets do.
        words: For each state, where whole words lead.
        special_tokens: For each state, where special tokens lead.
        ends: For each state, the marks of the rules that end there, as bits; 0 for most.
        has_strings: Whether some strings are written in place, because other text begins like them.
    """

    dfa: SymbolDfa | None
    alphabet: Alphabet
    brackets: list[dict[str, Bracket]] = field(default_factory=list)
    words: list[dict[int, int]] = field(default_factory=list)
    special_tokens: list[dict[int, int]] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    has_strings: bool = False

    def over_bytes(self, limits: Limits) -> ByteDfa:
        """Return its moves over bytes.

        Raises:
            PatternTooLarge: A limit is exceeded.
        """
        found: ByteDfa | None = self.__dict__.get("_over_bytes")
        if found is None:
            found = self.__dict__["_over_bytes"] = to_bytes(self.dfa, self.alphabet, limits)
        return found

    def minimal(self, limits: Limits) -> Part:
        """Return the same part without states that do the same as others.

        Raises:
            PatternTooLarge: It takes too many steps.
        """
        assert self.dfa is not None
        # Whatever else a state does is a symbol after the characters. Those of ends lead to a state of their own.
        symbols: dict[tuple[Any, ...], int] = {}
        moves = [dict(row) for row in self.dfa.moves]
        for row, others in zip(moves, self._others(len(moves)), strict=False):
            for other, target in others:
                row[target] = row.get(target, 0) | 1 << self.alphabet.size + symbols.setdefault(other, len(symbols))
        dfa = minimise(SymbolDfa([*moves, {}], [*self.dfa.accepting, True]), limits)
        assert dfa is not None
        return self._of_symbols(dfa, [*symbols])

    def _others(self, end: int) -> Iterator[list[tuple[tuple[Any, ...], int]]]:
        """Return for each state what it does beside reading characters, and where that leads."""
        for brackets, words, special_tokens, marks in zip(
            self.brackets, self.words, self.special_tokens, self.ends, strict=True
        ):
            found: list[tuple[tuple[Any, ...], int]] = [(("end", marks), end)] if marks else []
            found += [(("word", word), target) for word, target in words.items()]
            found += [(("letter", special_token), target) for special_token, target in special_tokens.items()]
            for opening, bracket in brackets.items():
                called = "bracket", opening, bracket.called, bracket.excluded, bracket.beside_words
                found += [((*called, marks), target) for marks, target in bracket.return_states]
            yield found

    def _of_symbols(self, dfa: SymbolDfa, symbols: list[tuple[Any, ...]]) -> Part:
        """Return the part of an automaton in which these symbols come after the characters."""
        size = self.alphabet.size
        moves: list[dict[int, int]] = []
        part = Part(SymbolDfa(moves, dfa.accepting), self.alphabet, has_strings=self.has_strings)
        for row in dfa.moves:
            words: dict[int, int] = {}
            special_tokens: dict[int, int] = {}
            return_states: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
            ends = 0
            for target, mask in row.items():
                above = mask >> size
                while above:
                    kind, *what = symbols[(above & -above).bit_length() - 1]
                    above &= above - 1
                    if kind == "bracket":
                        return_states.setdefault(tuple(what[:4]), []).append((what[4], target))
                    elif kind == "end":
                        ends = what[0]
                    else:
                        (words if kind == "word" else special_tokens)[what[0]] = target
            part.brackets.append({o: Bracket(c, tuple(sorted(b)), *more) for (o, c, *more), b in return_states.items()})
            part.words.append(words)
            part.special_tokens.append(special_tokens)
            part.ends.append(ends)
            moves.append({t: mask & (1 << size) - 1 for t, mask in row.items() if mask & (1 << size) - 1})
        return part

    def renamed(self, names: Mapping[int, int], words: Mapping[int, int]) -> Part:
        """Return the same part with other numbers of what it calls, and of words; a word that is not listed keeps its number."""
        brackets = [_renamed(row, names, words) if row else row for row in self.brackets]
        read = (
            [{words.get(w, w): t for w, t in row.items()} if row else row for row in self.words]
            if words
            else self.words
        )
        found = Part(self.dfa, self.alphabet, brackets, read, self.special_tokens, self.ends, self.has_strings)
        if "_over_bytes" in self.__dict__:
            found.__dict__["_over_bytes"] = self.__dict__["_over_bytes"]
        return found


def _renamed(brackets: dict[str, Bracket], names: Mapping[int, int], words: Mapping[int, int]) -> dict[str, Bracket]:
    return {
        opening: Bracket(
            tuple([(names[d], mark) for d, mark in bracket.called]),
            bracket.return_states,
            tuple([words.get(word, word) for word in bracket.excluded]),
            bracket.beside_words,
        )
        for opening, bracket in brackets.items()
    }


# The limit on what is kept, in bytes. A part takes a few bytes for each step of work on it.
REMEMBERED_BYTES = 64 * 2**20
BYTES_A_STEP = 8


class KnownParts:
    """Keeps parts of rules with names; what a kept part calls is numbered as in the `calls` of its rule."""

    def __init__(self) -> None:
        self._parts: BoundedCache[Hashable, tuple[Part, int]] = BoundedCache(REMEMBERED_BYTES)
        self._lock = Lock()

    def part(self, rule: NestedRule | RenumberedRule, make: Callable[[], Part], limits: Limits) -> Part:
        """Return the part of a rule with a name; a known part costs the same as one that is made now."""
        key = rule.known_as, rule.opening, limits
        # Other threads may drop it meanwhile.
        known = self._parts.get(key)
        if known is None:
            with outside_budget(), one_budget(limits.work):
                made = make()
                made.over_bytes(limits)
                work = spent()
            found = made.renamed(_numbers(rule.calls), _numbers(rule.words))
            with self._lock:
                self._parts.keep(key, (found, work), BYTES_A_STEP * work)
        else:
            found, work = known
        limits.spend(work)
        return found.renamed(dict(enumerate(rule.calls)), dict(enumerate(rule.words)))


def _numbers(listed: tuple[int, ...]) -> dict[int, int]:
    return {number: place for place, number in enumerate(listed)}
