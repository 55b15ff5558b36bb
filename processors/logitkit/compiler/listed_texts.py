"""Sets of texts that are listed, and sets of all texts but those of a list: automata are built only where they are needed.

`{"enum": ["red", "green"]}` has two texts. Where they are compared with a pattern or with another list, each is looked at by
itself; where they are written into an automaton, they are words. So most lists never become automata of their own.

The branches of a `oneOf` or of `if` and `else` exclude such lists, one after another: a string that is not `"red"`, and not
`"green"`, and so on. As automata, a hundred of these are a hundred products, each as large as all lists before it. As lists:

    all but {red}  and  all but {green}     all but {green, red}
    all but {red}  or   all but {red, tan}  all but {red}
    all but {red}  or   a pattern           all but those of {red} that the pattern does not match
    a pattern      and  all but {red}       the pattern, without those of {red} that it matches
    a pattern      less all but {red}       those of {red} that the pattern matches

Invariants: a list is sorted and holds no text twice, and none with a surrogate, as no set does.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from functools import cached_property, partial

from logitkit.budget import made_once
from logitkit.compiler.characters.alphabet import SURROGATES, Alphabet
from logitkit.compiler.characters.subset import SymbolDfa
from logitkit.compiler.text_language import TextLanguage
from logitkit.limits import Limits

__all__ = ["ListedTexts", "UnlistedTexts"]

# The cost of looking for a text in an automaton, in steps, and the cost for each of its characters.
SEARCH_STEPS, CHARACTER_STEPS = 50, 5

# There are more characters than this, so fewer texts are never all of a length.
FEWER_THAN_CHARACTERS = 2**20


class ListedTexts(TextLanguage):
    """A set of some texts. Those that hold a surrogate are left out.

    Args:
        texts: The texts.
        limits: Bounds on what is made from it.

    Example:
        >>> from logitkit.limits import DEFAULT_LIMITS
        >>> words = ListedTexts(["b", "a", "ab"], DEFAULT_LIMITS)
        >>> (words & TextLanguage.of_pattern("a.*", DEFAULT_LIMITS)).texts(10)
        ['a', 'ab']
    """

    def __init__(self, texts: Iterable[str], limits: Limits) -> None:
        listed = tuple(sorted({text for text in texts if not _has_surrogate(text)}))
        limits.spend(CHARACTER_STEPS * sum(map(len, listed)))
        # The automaton, which the base class has from the beginning, is made on demand.
        self.__dict__.update(_listed=listed, limits=limits, _charsets={})

    @property
    def listed(self) -> tuple[str, ...]:
        """The texts, sorted."""
        found: tuple[str, ...] = self.__dict__["_listed"]
        return found

    @cached_property
    def _automaton(self) -> TextLanguage:
        make = partial(TextLanguage.of_texts, self.listed, self.limits)
        return made_once((ListedTexts, self.listed, self.limits), make)

    @cached_property
    def dfa(self) -> SymbolDfa | None:
        """The minimal automaton, or None for the empty set."""
        return self._automaton.dfa

    @cached_property
    def alphabet(self) -> Alphabet:
        """Its alphabet."""
        return self._automaton.alphabet

    @cached_property
    def _members(self) -> frozenset[str]:
        return frozenset(self.listed)

    @cached_property
    def key(self) -> Hashable:
        """A key that equal lists have in common, and no others."""
        return self.listed

    def __and__(self, other: TextLanguage) -> TextLanguage:
        return self if other.is_everything else self._those(other, inside=True)

    def __sub__(self, other: TextLanguage) -> TextLanguage:
        return self if other.is_empty else self._those(other, inside=False)

    def __or__(self, other: TextLanguage) -> TextLanguage:
        if other.listed is None:
            return super().__or__(other)
        return self if self._members.issuperset(other.listed) else ListedTexts(self.listed + other.listed, self.limits)

    def __invert__(self) -> TextLanguage:
        return UnlistedTexts(self) if self.listed else TextLanguage.everything(self.limits)

    def _those(self, other: TextLanguage, inside: bool) -> ListedTexts:
        if other.listed is None:
            self.limits.spend(sum(SEARCH_STEPS + CHARACTER_STEPS * len(text) for text in self.listed))
        return self._kept([text for text in self.listed if other.contains(text) == inside])

    def of_lengths(self, least: int, most: int | None) -> ListedTexts:
        """Return the texts of some lengths; `most` None means without bound."""
        return self._kept([t for t in self.listed if least <= len(t) and (most is None or len(t) <= most)])

    def _kept(self, texts: list[str]) -> ListedTexts:
        return self if len(texts) == len(self.listed) else ListedTexts(texts, self.limits)

    @property
    def is_empty(self) -> bool:
        """Whether no text is in the set."""
        return not self.listed

    @property
    def is_everything(self) -> bool:
        """Whether every text is in the set."""
        return False

    def contains(self, text: str) -> bool:
        """Whether a text is in the set."""
        return text in self._members

    @cached_property
    def longest(self) -> int | None:
        """The length of the longest text, 0 for the empty set."""
        return max(map(len, self.listed), default=0)

    @cached_property
    def countable(self) -> bool:
        """Whether each state has texts of all lengths from that of its shortest one on: no, as there is a longest one."""
        return False

    def texts(self, most: int, minimum: int = 0, maximum: int | None = None) -> list[str] | None:
        """Return the texts in sorted order, or None if there are more than `most`; see the base class."""
        found = [t for t in self.listed if minimum <= len(t) and (maximum is None or len(t) <= maximum)]
        return found if len(found) <= most else None


class UnlistedTexts(TextLanguage):
    """The set of all texts but those of a list.

    Args:
        others: The list, which is not empty.

    Example:
        >>> from logitkit.limits import DEFAULT_LIMITS
        >>> not_red, not_tan = (~ListedTexts([text], DEFAULT_LIMITS) for text in ("red", "tan"))
        >>> (not_red & not_tan).unlisted.listed
        ('red', 'tan')
    """

    def __init__(self, others: ListedTexts) -> None:
        # The automaton, which the base class has from the beginning, is made on demand.
        self.__dict__.update(_others=others, limits=others.limits, _charsets={})

    @property
    def unlisted(self) -> ListedTexts:
        """The texts that are not in the set."""
        found: ListedTexts = self.__dict__["_others"]
        return found

    @cached_property
    def _automaton(self) -> TextLanguage:
        return TextLanguage.everything(self.limits).without(self.unlisted)

    @cached_property
    def dfa(self) -> SymbolDfa | None:
        """The minimal automaton."""
        return self._automaton.dfa

    @cached_property
    def alphabet(self) -> Alphabet:
        """Its alphabet."""
        return self._automaton.alphabet

    @cached_property
    def key(self) -> Hashable:
        """A key that equal lists have in common, and no others."""
        return "all but", self.unlisted.listed

    def __and__(self, other: TextLanguage) -> TextLanguage:
        if other.listed is not None:
            return other & self
        if other.unlisted is not None:
            return _all_but(self.unlisted | other.unlisted, self, other)
        if other.is_everything or other.is_empty:
            return self if other.is_everything else other
        excluded = self.unlisted & other
        return other if excluded.is_empty else other.without(excluded)

    def __or__(self, other: TextLanguage) -> TextLanguage:
        return _all_but(self.unlisted - other, self, other)

    def __sub__(self, other: TextLanguage) -> TextLanguage:
        if other.listed is not None:
            return _all_but(self.unlisted | other, self)
        return super().__sub__(other)

    def __invert__(self) -> TextLanguage:
        return self.unlisted

    @property
    def is_empty(self) -> bool:
        """Whether no text is in the set."""
        return False

    @property
    def is_everything(self) -> bool:
        """Whether every text is in the set."""
        return False

    def contains(self, text: str) -> bool:
        """Whether a text is in the set."""
        return not self.unlisted.contains(text) and not _has_surrogate(text)

    @cached_property
    def longest(self) -> int | None:
        """The length of the longest text: None, as there is no bound."""
        return None

    @cached_property
    def countable(self) -> bool:
        """Whether each state has texts of all lengths from that of its shortest one on.

        After any beginning, there are more texts of each length from 1 on than the list has.
        """
        return len(self.unlisted.listed) < FEWER_THAN_CHARACTERS or super().countable


def _all_but(others: TextLanguage, *known: TextLanguage) -> TextLanguage:
    """Return all texts but those of a list, as one of some known sets if that is the same."""
    return next((some for some in known if some.unlisted is others), None) or ~others


def _has_surrogate(text: str) -> bool:
    return not text.isascii() and any(SURROGATES[0] <= ord(c) <= SURROGATES[1] for c in text)
