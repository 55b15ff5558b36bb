"""Unions of strings whose length is bounded with strings of any length.

`{"anyOf": [{"maxLength": 3}, {"pattern": "^a*$"}]}` allows `aaaaaa` and `abc`, but not `aaab`. An automaton of that would have
states for each length. Here both sets are followed at once, and the characters are counted:

    state             may go on              may end
    only `a` so far   with any count         with any count
    anything else     with a count up to 3   with a count up to 3

So a string has two ends: at one of them it has any length, at the other one a length within the bounds. A state from
which the first end can be reached is legal with any count, as if it needed no characters at all.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.string_fragment import ANY_COUNT, StringFragment
from logitkit.compiler.characters.lengths import shortest
from logitkit.compiler.characters.minimise import minimise
from logitkit.compiler.characters.product import common_alphabet, in_symbols, product
from logitkit.compiler.characters.subset import SymbolDfa
from logitkit.compiler.text_language import TextLanguage
from logitkit.compiler.tokens.tables.counted_state import MOST
from logitkit.json_schema.search import ANY_LENGTH
from logitkit.json_schema.string_fragment import union_fragment
from logitkit.json_schema.string_set import COUNTED_FROM, MOST_COUNTED_ENDLESS, StringSet
from logitkit.limits import Limits

__all__ = ["united"]


def united(one: StringSet, other: StringSet) -> StringSet:
    """Return the strings of either set."""
    for some, more in ((one, other), (other, one)):
        if isinstance(some, StringUnion):
            return some.with_more(more)
    for bounded, unbounded in ((one, other), (other, one)):
        if _should_count(bounded, unbounded):
            return StringUnion(bounded, unbounded.language)
    return one | other


def _should_count(bounded: StringSet, unbounded: StringSet) -> bool:
    """Whether the union of two sets would have states for each length of the first, which can be counted instead."""
    if _bound(bounded) < COUNTED_FROM or not bounded.completes or bounded.is_empty:
        return False
    # A list has few states. A small minimum has a state for each length.
    if unbounded.texts.listed is not None or unbounded.lengths[1] is not None or unbounded.lengths[0] >= COUNTED_FROM:
        return False
    others = unbounded.language
    if others.is_empty or others.is_everything:
        return False
    least, most = bounded.lengths
    return least > 0 or (most is not None and (others.longest is None or others.longest > most))


def _bound(bounded: StringSet) -> int:
    """Return up to which number the characters of a set are counted."""
    least, most = bounded.lengths
    return least if most is None else most


class _Pair(NamedTuple):
    """Two sets that are followed at once.

    Args:
        texts: The strings of both, whatever their length is.
        needed: For each state, how many characters must follow if the length is bounded; `ANY_COUNT` if it need not be.
        ends: For each state, whether a string of any length may end there.
    """

    texts: TextLanguage
    needed: NDArray[np.int64]
    ends: NDArray[np.bool_]


class StringUnion(StringSet):
    """A set of strings whose length is bounded, together with others of any length.

    Args:
        bounded: The former.
        others: The latter.
    """

    def __init__(self, bounded: StringSet, others: TextLanguage) -> None:
        # The automaton that has states for each length is made on demand.
        self.__dict__.update(bounded=bounded, others=others, lengths=ANY_LENGTH)

    bounded: StringSet
    others: TextLanguage

    @cached_property
    def texts(self) -> TextLanguage:
        """The strings, as an automaton that has states for each length."""
        return self.bounded.language | self.others

    @property
    def limits(self) -> Limits:
        """Bounds on what is made from it."""
        return self.bounded.limits

    @property
    def key(self) -> Hashable:
        """A key that only equal sets share; a few equal ones have several."""
        return self.bounded.key, self.others.key

    def with_more(self, strings: StringSet) -> StringSet:
        """Return the union with another set."""
        if strings.is_empty:
            return self
        if isinstance(strings, StringUnion):
            return united(self.with_more(strings.bounded), StringSet(strings.others))
        if strings.lengths[1] is None and strings.lengths[0] < COUNTED_FROM:
            found = StringSet(self.others | strings.language)
            # The difference of a bounded set and another one has states for each length already.
            has_lengths = strings.texts.listed is None and len(strings.language.needed) > _bound(self.bounded)
            return StringSet(self.bounded.language) | found if has_lengths else united(self.bounded, found)
        return united(self.bounded | strings, StringSet(self.others))

    def __and__(self, other: StringSet) -> StringSet:
        return united(self.bounded & other, StringSet(self.others) & other)

    __rand__ = __and__

    def __sub__(self, other: StringSet) -> StringSet:
        return united(self.bounded - other, StringSet(self.others) - other)

    @property
    def is_everything(self) -> bool:
        """False: where this is asked, it only saves time."""
        return False

    @property
    def is_empty(self) -> bool:
        """Whether no string is in the set."""
        return self.bounded.is_empty and self.others.is_empty

    @property
    def longest(self) -> int | None:
        """The length of the longest string, in code points; None if there is no limit, and 0 for the empty set."""
        ends = self.bounded.longest, self.others.longest
        return None if None in ends else max(end for end in ends if end is not None)

    @property
    def _longest(self) -> int | None:
        return self.longest

    def contains(self, text: str) -> bool:
        """Whether a string is in the set."""
        return self.bounded.contains(text) or self.others.contains(text)

    def values(self, most: int = 1000) -> list[str] | None:
        """Return the sorted strings of the set, or None if there are more than `most`; see `StringSet.values`."""
        found = self.bounded.values(most), self.others.texts(most)
        if found[0] is None or found[1] is None:
            return None
        texts = sorted({*found[0], *found[1]})
        return texts if len(texts) <= most else None

    def counts(self, longest: int, closing: bool = False) -> bool:
        """Whether the characters of strings are counted; see `StringSet.counts`."""
        # How many tokens are needed to the end depends on the count.
        if closing or not self.bounded.counts(longest):
            return False
        return len(self._pair.needed) * longest <= MOST_COUNTED_ENDLESS

    def fragment(self, counted: bool = False, closing: bool = False) -> StringFragment:
        """Return the automaton over bytes of their JSON texts after the opening quote."""
        if not counted:
            return super().fragment()
        least, most = self.bounded.lengths
        return union_fragment(*self._pair, (least, MOST if most is None else min(most, MOST)))

    @cached_property
    def _pair(self) -> _Pair:
        """Both sets, followed at once."""
        sets = self.others, self.bounded.texts
        alphabet, *parts = common_alphabet(*(texts.alphabet for texts in sets))
        # Each set ends with a symbol of its own, so that states are told apart by the ends that can be reached.
        ends = [1 << alphabet.size + place for place in range(len(sets))]
        with_ends = []
        for texts, own, end in zip(sets, parts, ends, strict=True):
            assert texts.dfa is not None
            inside = in_symbols(texts.dfa, own)
            last = len(inside.moves)
            moves = [
                {**row, last: end} if ended else row for row, ended in zip(inside.moves, inside.accepting, strict=True)
            ]
            with_ends.append(SymbolDfa([*moves, {}], [False] * last + [True]))
        one, other = with_ends
        dfa = minimise(product(one, other, bool.__or__, self.limits), self.limits)
        assert dfa is not None
        # All texts lead to one state, after which nothing follows.
        last = dfa.accepting.index(True)
        reached = [row.pop(last, 0) for row in dfa.moves]
        del reached[last]
        moves = [{t - (t > last): mask for t, mask in row.items()} for s, row in enumerate(dfa.moves) if s != last]
        whole = SymbolDfa(moves, [found > 0 for found in reached])
        free = [bool(found & ends[0]) for found in reached]
        needed = np.where(shortest(SymbolDfa(moves, free)) >= 0, ANY_COUNT, shortest(whole))
        return _Pair(TextLanguage(whole, alphabet, self.limits).compacted(), needed, np.array(free))
