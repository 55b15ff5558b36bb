"""Sets of texts that are listed: an automaton is built from them only where one is needed.

`{"enum": ["red", "green"]}` has two texts. Where they are compared with a pattern or with another list, each is looked at by
itself; where they are written into an automaton, they are words. So most lists never become automata of their own.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from functools import cached_property

from logitkit.compiler.characters.alphabet import SURROGATES, Alphabet
from logitkit.compiler.characters.subset import SymbolDfa
from logitkit.compiler.text_language import TextLanguage
from logitkit.limits import Limits

__all__ = ["ListedTexts"]

# The cost of looking for a text in an automaton, in steps, and the cost for each of its characters.
SEARCH_STEPS, CHARACTER_STEPS = 50, 5


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
        return TextLanguage.of_texts(self.listed, self.limits)

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

    def _those(self, other: TextLanguage, inside: bool) -> TextLanguage:
        if other.listed is None:
            self.limits.spend(sum(SEARCH_STEPS + CHARACTER_STEPS * len(text) for text in self.listed))
        return self._kept([text for text in self.listed if other.contains(text) == inside])

    def of_lengths(self, least: int, most: int | None) -> TextLanguage:
        """Return the texts of some lengths; `most` None means without bound."""
        return self._kept([t for t in self.listed if least <= len(t) and (most is None or len(t) <= most)])

    def _kept(self, texts: list[str]) -> TextLanguage:
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


def _has_surrogate(text: str) -> bool:
    return not text.isascii() and any(SURROGATES[0] <= ord(c) <= SURROGATES[1] for c in text)
