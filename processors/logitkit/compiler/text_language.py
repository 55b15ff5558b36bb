"""Regular languages over characters as values, with the operations of sets."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from logitkit.budget import made_once
from logitkit.compiler.characters.alphabet import SURROGATES, Alphabet
from logitkit.compiler.characters.lengths import has_all_lengths, longest, shortest
from logitkit.compiler.characters.minimise import minimise
from logitkit.compiler.characters.product import common_alphabet, in_symbols, product
from logitkit.compiler.characters.subset import SymbolDfa
from logitkit.compiler.characters.symbols import split
from logitkit.compiler.language import symbol_dfa_of
from logitkit.limits import Limits
from logitkit.patterns.charset import ANY, MAX_CODE_POINT, CharSet
from logitkit.patterns.parser import parse
from logitkit.patterns.syntax import Machine, Node


@dataclass(frozen=True, eq=False)
class TextLanguage:
    """A set of texts. No text holds a surrogate.

    Args:
        dfa: The minimal automaton, or None for the empty set.
        alphabet: Its alphabet.
        limits: Bounds on what is made from it.

    Example:
        >>> from logitkit.limits import DEFAULT_LIMITS
        >>> words = TextLanguage.of_pattern("[ab]{1,2}", DEFAULT_LIMITS)
        >>> (words - TextLanguage.of_pattern("a.*", DEFAULT_LIMITS)).texts(10)
        ['b', 'ba', 'bb']
    """

    dfa: SymbolDfa | None
    alphabet: Alphabet
    limits: Limits
    _charsets: dict[int, CharSet] = field(default_factory=dict, init=False, repr=False)

    @property
    def listed(self) -> tuple[str, ...] | None:
        """The texts, where they are listed: see `ListedTexts`."""
        return None

    @property
    def unlisted(self) -> TextLanguage | None:
        """The texts that are not in the set, where these are listed: see `UnlistedTexts`."""
        return None

    @classmethod
    def of_tree(cls, tree: Node, limits: Limits, pattern: str = "") -> TextLanguage:
        """Compile a syntax tree; `pattern` is its text, for errors.

        Raises:
            PatternSyntaxError: The regular form of an atomic group is not known.
            PatternTooLarge: A limit is exceeded.
        """
        return cls(*symbol_dfa_of(tree, limits, pattern), limits).compacted()

    @classmethod
    def of_pattern(cls, pattern: str, limits: Limits) -> TextLanguage:
        """Compile a pattern, which must match whole texts."""
        return cls.of_tree(parse(pattern), limits, pattern)

    @classmethod
    def of_texts(cls, texts: Iterable[str], limits: Limits) -> TextLanguage:
        """Return the set of some texts; those that hold a surrogate are left out."""
        trie: list[dict[int, int]] = [{}]
        accepting = [False]
        for text in texts:
            if any(SURROGATES[0] <= ord(c) <= SURROGATES[1] for c in text):
                continue
            state = 0
            limits.spend(5 * len(text))
            for character in text:
                found = trie[state].setdefault(ord(character), len(trie))
                if found == len(trie):
                    limits.check_states(found)
                    trie.append({})
                    accepting.append(False)
                state = found
            accepting[state] = True
        used = sorted({c for row in trie for c in row})
        alphabet = Alphabet.of(map(CharSet.single, used))
        mask = {c: alphabet.members[CharSet.single(c)] for c in used}
        dfa = SymbolDfa([{t: mask[c] for c, t in row.items()} for row in trie], accepting)
        return cls(minimise(dfa, limits), alphabet, limits).compacted()

    @classmethod
    def of_length(cls, minimum: int, maximum: int | None, limits: Limits) -> TextLanguage:
        """Return the set of all texts of some lengths, in characters; None means without bound."""
        if maximum is not None and maximum < minimum:
            return cls(None, Alphabet.of([]), limits)
        last = minimum if maximum is None else maximum
        limits.check_states(last + 1)
        limits.spend(8 * last)
        moves: list[dict[int, int]] = [{state + 1: _ANY} for state in range(last)]
        moves.append({last: _ANY} if maximum is None else {})
        return cls(SymbolDfa(moves, [state >= minimum for state in range(last + 1)]), Alphabet.of([ANY]), limits)

    @classmethod
    def everything(cls, limits: Limits) -> TextLanguage:
        """Return the set of all texts."""
        return _everything(limits)

    @cached_property
    def key(self) -> Hashable:
        """A key that equal automata have in common, and no others."""
        moves = () if self.dfa is None else tuple([tuple(row.items()) for row in self.dfa.moves])
        accepting = () if self.dfa is None else tuple(self.dfa.accepting)
        return moves, accepting, self.alphabet.bounds.tobytes(), self.alphabet.symbols.tobytes()

    def __and__(self, other: TextLanguage) -> TextLanguage:
        if other.listed is not None or other.unlisted is not None:
            return other & self
        if self.is_empty or other.is_everything:
            return self
        if other.is_empty or self.is_everything:
            return other
        return self._with(other, bool.__and__)

    def __or__(self, other: TextLanguage) -> TextLanguage:
        if other.is_empty or self.is_everything:
            return self
        if self.is_empty or other.is_everything:
            return other
        return other | self if other.unlisted is not None else self._with(other, bool.__or__)

    def __sub__(self, other: TextLanguage) -> TextLanguage:
        if self.is_empty or other.is_empty:
            return self
        if other.unlisted is not None:
            return other.unlisted & self
        return ~other if self.is_everything and other.listed is not None else self.without(other)

    def without(self, other: TextLanguage) -> TextLanguage:
        """Return the difference as an automaton. Neither set is empty."""
        return self._with(other, bool.__gt__)

    def __invert__(self) -> TextLanguage:
        return TextLanguage.everything(self.limits) - self

    def _with(self, other: TextLanguage, accepts: Callable[[bool, bool], bool]) -> TextLanguage:
        """Return the product of two sets. The same two are often combined again, as by each of many branches of a schema."""
        self.limits.check_work(0)
        # Lists are compared, which costs little. Automata are told apart by identity, as they often are the same objects.
        operands = self.listed or self, other.listed or other
        return made_once((TextLanguage, accepts, self.limits, *operands), partial(self._product, other, accepts))

    def _product(self, other: TextLanguage, accepts: Callable[[bool, bool], bool]) -> TextLanguage:
        assert self.dfa is not None
        assert other.dfa is not None
        if self.alphabet is other.alphabet:
            made = minimise(product(self.dfa, other.dfa, accepts, self.limits), self.limits)
            return TextLanguage(made, self.alphabet, self.limits)
        alphabet, own, others = common_alphabet(self.alphabet, other.alphabet)
        a, b = in_symbols(self.dfa, own), in_symbols(other.dfa, others)
        made = minimise(product(a, b, accepts, self.limits), self.limits)
        return TextLanguage(made, alphabet, self.limits).compacted()

    @property
    def is_empty(self) -> bool:
        """Whether no text is in the set."""
        return self.dfa is None

    @cached_property
    def is_everything(self) -> bool:
        """Whether every text is in the set."""
        if self.dfa is None or len(self.dfa.moves) > 1 or not self.dfa.accepting[0]:
            return False
        return sum(map(len, map(self.charset, self.dfa.moves[0].values()))) == len(ENCODABLE)

    def contains(self, text: str) -> bool:
        """Whether a text is in the set."""
        if self.dfa is None:
            return False
        if self.is_everything and text.isascii():
            return True
        state = 0
        points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.int64)
        for symbol in self.alphabet.symbol_at(points).tolist():
            for target, mask in self.dfa.moves[state].items():
                if mask >> symbol & 1:
                    state = target
                    break
            else:
                return False
        return self.dfa.accepting[state]

    @cached_property
    def longest(self) -> int | None:
        """The length of the longest text, None if there is no bound, 0 for the empty set."""
        return 0 if self.dfa is None else longest(self.dfa)

    @cached_property
    def needed(self) -> NDArray[np.int64]:
        """[S] the length of the shortest text from each state of the automaton."""
        assert self.dfa is not None
        return shortest(self.dfa)

    @cached_property
    def countable(self) -> bool:
        """Whether each state has texts of all lengths from that of its shortest one on."""
        return self.dfa is not None and has_all_lengths(self.dfa)

    def texts(self, most: int, minimum: int = 0, maximum: int | None = None) -> list[str] | None:
        """Return the texts in sorted order, or None if there are more than `most`.

        Args:
            most: The maximum number of texts.
            minimum: The least length of a text. If it is not 0, the language must be `countable`.
            maximum: The greatest length; None allows any.
        """
        if self.dfa is None:
            return []
        if maximum is None and self.longest is None:
            return None
        bound = NO_BOUND if maximum is None else maximum
        found = []
        stack = [(0, "")] if max(minimum, int(self.needed[0])) <= bound else []
        while stack:
            state, text = stack.pop()
            if self.dfa.accepting[state] and len(text) >= minimum:
                found.append(text)
                if len(found) > most:
                    return None
            for target, mask in self.dfa.moves[state].items():
                if len(text) + 1 + self.needed[target] > bound:
                    continue
                # Every way on leads to at least one text.
                if len(self.charset(mask)) > most:
                    return None
                stack.extend((target, text + chr(c)) for c in self.charset(mask))
            if len(stack) > most:
                return None
        return sorted(found)

    def charset(self, mask: int) -> CharSet:
        """Return the characters of some symbols, given as a bit mask."""
        found = self._charsets.get(mask)
        if found is None:
            bits = np.frombuffer(mask.to_bytes(self.alphabet.size // 8 + 1, "little"), np.uint8)
            inside = np.unpackbits(bits, bitorder="little").astype(bool)[self.alphabet.symbols]
            edges = np.diff(inside.astype(np.int8), prepend=np.int8(0), append=np.int8(0))
            bounds = np.append(self.alphabet.bounds, MAX_CODE_POINT + 1)
            first, end = bounds[edges == 1].tolist(), bounds[edges == -1].tolist()
            found = CharSet(tuple((a, b - 1) for a, b in zip(first, end, strict=True)))
            self._charsets[mask] = found
        return found

    def machine(self) -> Machine:
        """Return the leaf of a syntax tree that stands for the set.

        Raises:
            ValueError: The set is empty.
        """
        if self.dfa is None:
            raise ValueError("the empty set has no machine")
        moves = tuple(tuple([(self.charset(mask), t) for t, mask in row.items()]) for row in self.dfa.moves)
        return Machine(moves, tuple(self.dfa.accepting))

    def compacted(self) -> TextLanguage:
        """Return the same language over an alphabet in which every two symbols are told apart by some state."""
        if self.dfa is None:
            return TextLanguage(None, Alphabet.of([]), self.limits)
        masks = tuple(dict.fromkeys(mask for row in self.dfa.moves for mask in row.values()))
        blocks = split(masks)
        if len(blocks) == self.alphabet.size - 1:
            return self
        number = np.zeros(self.alphabet.size, np.int64)
        parts = [0] * self.alphabet.size
        for new, (block, _) in enumerate(blocks, 1):
            for symbol in range(block.bit_length()):
                if block >> symbol & 1:
                    number[symbol] = new
                    parts[symbol] = 1 << new
        return TextLanguage(in_symbols(self.dfa, parts), self.alphabet.merged(number), self.limits)


# Longer than any text.
NO_BOUND = 2**62
ENCODABLE = ANY - CharSet((SURROGATES,))
# The one symbol of the alphabet whose only set is `ANY`.
_ANY = 0b10


@lru_cache(maxsize=8)
def _everything(limits: Limits) -> TextLanguage:
    return TextLanguage.of_length(0, None, limits)
