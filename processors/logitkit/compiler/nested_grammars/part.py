"""One part of a grammar: a deterministic automaton over characters, with what its brackets call and where it ends.

By hand, for the items of a list such as `[[],[]]`, after the opening bracket:

    state   `[` calls               reads `,`   reads `]`
    0       the list, then state 2  -           1
    1       -                       -           -           the list ends here
    2       -                       3           1
    3       the list, then state 2  -           -

The part of a rule that many grammars contain, such as that of any JSON value, is compiled once and kept (`KnownParts`). In the
kept part, rules and words have the numbers of their places in the rule's own lists.

Invariants: all lists of a part have one entry for each state. A state that ends a rule does nothing else, as `assembly` checks.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Literal, TypeAlias

from logitkit.budget import one_budget, outside_budget, spent
from logitkit.compiler.bounded_cache import BoundedCache
from logitkit.compiler.bytes.byte_dfa import ByteDfa
from logitkit.compiler.bytes.in_utf8 import to_bytes
from logitkit.compiler.bytes.pushdown_views import bits
from logitkit.compiler.characters.alphabet import Alphabet
from logitkit.compiler.characters.minimise import minimise
from logitkit.compiler.characters.subset import SymbolDfa
from logitkit.compiler.nested_grammars.nested_grammar import NestedRule, RenumberedRule
from logitkit.limits import Limits

__all__ = ["Bracket", "Called", "KnownParts", "Part"]

# The rules that one bracket calls, each with the mark at its end.
Called: TypeAlias = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Bracket:
    """The effect of an opening bracket in a state.

    Args:
        called: The rules that it calls.
        return_states: Sets of marks as bits, each with the state after an end that has these marks.
        excluded: Words that are also among the strings called. The state reads the word, and calls all other strings.
        beside_words: Whether the state also reads words that begin with this quote.
    """

    called: Called
    return_states: tuple[tuple[int, int], ...]
    excluded: tuple[int, ...] = ()
    beside_words: bool = False


@dataclass(frozen=True, slots=True)
class _Symbol:
    """Something that a state does besides reading characters, as a symbol of an automaton.

    Args:
        kind: The end of rules, a word or a special token that is read, or a bracket whose call returns.
        number: The marks of an end or of a return; the word; or the special token.
        opening: The bracket of a call.
        bracket: Its effect, without return states.
    """

    kind: Literal["end", "word", "special token", "bracket"]
    number: int
    opening: str = ""
    bracket: Bracket | None = None


@dataclass(frozen=True, eq=False)
class Part:
    """One part.

    Args:
        dfa: Its moves by characters; None: no text belongs to it.
        alphabet: The alphabet of these moves.
        brackets: For each state, the effects of opening brackets.
        words: For each state, where words lead.
        special_tokens: For each state, where special tokens lead.
        ends: For each state, the marks of the rules that end there, as bits; 0 for most states.
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
        """Return the same part, in which states that do the same are one.

        Raises:
            PatternTooLarge: It takes too many steps.
        """
        assert self.dfa is not None
        # Each other thing that a state does becomes a symbol after the characters. Ends lead to one more state.
        symbols: dict[_Symbol, int] = {}
        moves = [dict(row) for row in self.dfa.moves]
        for row, others in zip(moves, self._others(len(moves)), strict=False):
            for other, target in others:
                row[target] = row.get(target, 0) | 1 << self.alphabet.size + symbols.setdefault(other, len(symbols))
        dfa = minimise(SymbolDfa([*moves, {}], [*self.dfa.accepting, True]), limits)
        assert dfa is not None
        return self._of_symbols(dfa, [*symbols])

    def _others(self, end: int) -> Iterator[list[tuple[_Symbol, int]]]:
        """Yield for each state what it does besides reading characters, each with its target; that of ends is `end`."""
        for brackets, words, special_tokens, marks in zip(
            self.brackets, self.words, self.special_tokens, self.ends, strict=True
        ):
            found = [(_Symbol("end", marks), end)] if marks else []
            found += [(_Symbol("word", word), target) for word, target in words.items()]
            found += [(_Symbol("special token", token), target) for token, target in special_tokens.items()]
            for opening, bracket in brackets.items():
                call = replace(bracket, return_states=())
                found += [(_Symbol("bracket", m, opening, call), target) for m, target in bracket.return_states]
            yield found

    def _of_symbols(self, dfa: SymbolDfa, symbols: list[_Symbol]) -> Part:
        """Return the part of an automaton in which these symbols come after the characters."""
        characters = (1 << self.alphabet.size) - 1
        moves = [{target: mask & characters for target, mask in row.items() if mask & characters} for row in dfa.moves]
        part = Part(SymbolDfa(moves, dfa.accepting), self.alphabet, has_strings=self.has_strings)
        for row in dfa.moves:
            done = [(symbols[bit], t) for t, mask in row.items() for bit in bits(mask >> self.alphabet.size)]
            part.words.append({s.number: target for s, target in done if s.kind == "word"})
            part.special_tokens.append({s.number: target for s, target in done if s.kind == "special token"})
            part.ends.append(max([s.number for s, _ in done if s.kind == "end"], default=0))
            return_states: dict[tuple[str, Bracket], list[tuple[int, int]]] = {}
            for symbol, target in done:
                if symbol.bracket is not None:
                    call = symbol.opening, symbol.bracket
                    return_states.setdefault(call, []).append((symbol.number, target))
            part.brackets.append(
                {o: replace(call, return_states=tuple(sorted(after))) for (o, call), after in return_states.items()}
            )
        return part

    def renumbered(self, calls: Mapping[int, int], words: Mapping[int, int]) -> Part:
        """Return the same part with other numbers of rules and words. A word that is not listed keeps its number."""
        brackets = [_renumbered(row, calls, words) if row else row for row in self.brackets]
        read = (
            [{words.get(w, w): t for w, t in row.items()} if row else row for row in self.words]
            if words
            else self.words
        )
        found = Part(self.dfa, self.alphabet, brackets, read, self.special_tokens, self.ends, self.has_strings)
        if "_over_bytes" in self.__dict__:
            found.__dict__["_over_bytes"] = self.__dict__["_over_bytes"]
        return found


def _renumbered(brackets: dict[str, Bracket], calls: Mapping[int, int], words: Mapping[int, int]) -> dict[str, Bracket]:
    return {
        opening: Bracket(
            tuple([(calls[d], mark) for d, mark in bracket.called]),
            bracket.return_states,
            tuple([words.get(word, word) for word in bracket.excluded]),
            bracket.beside_words,
        )
        for opening, bracket in brackets.items()
    }


# The most bytes that are kept. A part takes a few bytes for each step of work on it.
REMEMBERED_BYTES = 64 * 2**20
BYTES_A_STEP = 8


class KnownParts:
    """Keeps the parts of rules that have names. A kept part calls a rule by its place in the `calls` of its own rule."""

    def __init__(self) -> None:
        self._parts: BoundedCache[Hashable, tuple[Part, int]] = BoundedCache(REMEMBERED_BYTES)
        self._lock = Lock()

    def part(self, rule: NestedRule | RenumberedRule, make: Callable[[], Part], limits: Limits) -> Part:
        """Return the part of a rule with a name. A known part counts against limits as if it were made now."""
        key = rule.known_as, rule.opening, limits
        # Another thread may drop the part at any time, so it is looked up once.
        known = self._parts.get(key)
        if known is None:
            with outside_budget(), one_budget(limits.work):
                made = make()
                made.over_bytes(limits)
                work = spent()
            found = made.renumbered(_numbers(rule.calls), _numbers(rule.words))
            with self._lock:
                self._parts.keep(key, (found, work), BYTES_A_STEP * work)
        else:
            found, work = known
        limits.spend(work)
        return found.renumbered(dict(enumerate(rule.calls)), dict(enumerate(rule.words)))


def _numbers(listed: tuple[int, ...]) -> dict[int, int]:
    return {number: place for place, number in enumerate(listed)}
