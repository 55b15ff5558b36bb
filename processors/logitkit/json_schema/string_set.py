"""Sets of strings, as keywords describe them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache

from logitkit.budget import outside_budget
from logitkit.compiler.bytes.string_fragment import StringFragment
from logitkit.compiler.listed_texts import ListedTexts
from logitkit.compiler.text_language import TextLanguage
from logitkit.compiler.tokens.tables.counted_state import MOST
from logitkit.errors import PatternTooLarge
from logitkit.json_schema.formats import format_strings
from logitkit.json_schema.search import ANY_LENGTH, Lengths, search_language
from logitkit.json_schema.string_fragment import string_fragment
from logitkit.json_schema.string_text import QUOTE, string_body
from logitkit.limits import Limits
from logitkit.patterns.construction import concatenate
from logitkit.patterns.syntax import Characters, Node

# The cost of writing a set as a tree, in steps.
WRITING_ANY = 1000
WRITING_MASK = 300
WRITING_MOVE = 10

# Shorter strings have states for each length. So have strings with too many states for counting to pay; the second limit is for
# strings of any length, which would have about as many states again for each length.
COUNTED_FROM = 16
MOST_COUNTED = 2**16
MOST_COUNTED_ENDLESS = 2**19
# So have longer ones if a text must be completed within a number of tokens: where characters are counted, that is but a bound.
COUNTED_FROM_CLOSING = 64

# Strings that must be longer are not listed: a single one may have millions of characters.
LONGEST_LISTED = 1000


@dataclass(frozen=True, eq=False)
class StringSet:
    """A set of string values, in decoded characters; no string holds a lone surrogate.

    Args:
        texts: Strings.
        lengths: The least and the greatest number of characters of those of them that are in the set; None for the latter: there
            is no bound.
        compact: Some of the strings, none of them too long, for where each length would have states of its own; None: all have.

    Example:
        >>> from logitkit.limits import DEFAULT_LIMITS
        >>> short = StringSet.of_length(0, 2, DEFAULT_LIMITS)
        >>> (short & StringSet.matching("^a?b$", DEFAULT_LIMITS)).values()
        ['ab', 'b']
    """

    texts: TextLanguage
    lengths: Lengths = ANY_LENGTH
    compact: TextLanguage | None = None

    @cached_property
    def language(self) -> TextLanguage:
        """The strings, as an automaton that has states for each length; with `compact`, some of them."""
        texts, (least, most) = self.compact or self.texts, self.lengths
        if self.compact is not None and most is not None and (texts.longest is None or texts.longest <= most):
            most = None
        if not least and most is None:
            return texts
        return texts & TextLanguage.of_length(least, most, self.limits)

    @property
    def _longest(self) -> int | None:
        """A length that no string exceeds; None if none is known."""
        ends = [most for most in (self.lengths[1], self.texts.longest) if most is not None]
        return min(ends, default=None)

    def _bounded(self, lengths: Lengths) -> TextLanguage:
        """Return the strings, and maybe others that are not of some lengths: only narrower bounds have states."""
        least, most = self.lengths
        narrow = least if least > lengths[0] else 0, most if _narrower((0, most), (0, lengths[1])) else None
        if narrow == ANY_LENGTH:
            return self.texts
        return self.language if narrow == self.lengths else self.texts & TextLanguage.of_length(*narrow, self.limits)

    def expand(self) -> None:
        """Make states for each length, as all but the strings of values have.

        Raises:
            PatternTooLarge: There are too many states.
        """
        self.language.limits.check_work(0)

    @property
    def limits(self) -> Limits:
        """Bounds on what is made from it."""
        return self.texts.limits

    @property
    def key(self) -> Hashable:
        """A key that only equal sets share; a few equal ones have several."""
        return self.texts.key, self.lengths

    @classmethod
    def everything(cls, limits: Limits) -> StringSet:
        """Return the set of all strings."""
        return _everything(limits)

    @classmethod
    def of_length(cls, minimum: int, maximum: int | None, limits: Limits) -> StringSet:
        """Return the strings of some lengths, in code points; `maximum` None means without bound.

        Raises:
            PatternTooLarge: The minimum is more than can be counted.
        """
        if minimum > MOST:
            raise PatternTooLarge(f"strings of more than {MOST} characters cannot be counted")
        return cls(TextLanguage.everything(limits), (minimum, maximum))

    @classmethod
    def matching(cls, pattern: str, limits: Limits) -> StringSet:
        """Return the strings in which an ECMA-262 pattern is found.

        Raises:
            PatternSyntaxError: The pattern is not valid, or not regular.
            PatternTooLarge: A limit is exceeded.
        """
        return cls(*search_language(pattern, limits))

    @classmethod
    def of_format(cls, name: str, limits: Limits, old: bool = False) -> StringSet:
        """Return the strings of a format; `old` if it is meant as before draft 7.

        Raises:
            UnsupportedSchema: The format is unknown, or not supported.
        """
        return _of_format(name, limits, old)

    @classmethod
    def possibly_of_format(cls, name: str, limits: Limits, old: bool = False) -> StringSet | None:
        """Return a set with all strings that may be of a format; None if those of `of_format` are all."""
        possible = format_strings(name, limits, old).possible
        return None if possible is None else cls(possible)

    @classmethod
    def of_values(cls, texts: Iterable[str], limits: Limits) -> StringSet:
        """Return the set of some strings; those with lone surrogates, which no text can hold, are left out."""
        return cls(ListedTexts(texts, limits))

    def __and__(self, other: StringSet) -> StringSet:
        least = max(self.lengths[0], other.lengths[0])
        most = min((most for most in (self.lengths[1], other.lengths[1]) if most is not None), default=None)
        texts = self.texts & other.texts
        if isinstance(texts, ListedTexts):
            texts, least, most = texts.of_lengths(least, most), *ANY_LENGTH
        elif _bounds(self, other) or _bounds(other, self):
            return StringSet(texts, (least, most))
        elif self.compact is not None or other.compact is not None:
            return StringSet(texts, (least, most), (self.compact or self.texts) & (other.compact or other.texts))
        return _same(texts, (least, most), self, other)

    def __or__(self, other: StringSet) -> StringSet:
        for some, every in ((other, self), (self, other)):
            if some.texts.is_empty or (every.texts.is_everything and not _narrower(every.lengths, some.lengths)):
                return every
        # Bounds that hold for all strings of both stay bounds. Others become states of those strings only.
        least = self.lengths[0] if self.lengths[0] == other.lengths[0] else 0
        ends = self._longest, other._longest
        most = None if None in ends else max(end for end in ends if end is not None)
        texts = self._bounded((least, most)) | other._bounded((least, most))
        return _same(texts, (least, most if most in (self.lengths[1], other.lengths[1]) else None), self, other)

    def __sub__(self, other: StringSet) -> StringSet:
        others = other._bounded((self.lengths[0], self._longest))
        if self.compact is not None:
            return StringSet(self.texts - others, self.lengths, self.compact - others)
        return _same(self.texts - others, self.lengths, self, other)

    def __invert__(self) -> StringSet:
        return StringSet(~self.language)

    @property
    def is_empty(self) -> bool:
        """Whether no string is in the set."""
        least, most = self.lengths
        if self.lengths == ANY_LENGTH:
            return self.texts.is_empty
        if self.completes:
            return most is not None and max(least, int(self.texts.needed[0])) > most
        return self.language.is_empty

    @cached_property
    def completes(self) -> bool:
        """Whether any beginning of a text that can be completed within the greatest length can be, within both lengths."""
        return self.texts.dfa is not None and (self.lengths[0] <= self.texts.needed[0] or self.texts.countable)

    @property
    def is_everything(self) -> bool:
        """Whether every string is in the set."""
        return self.lengths == ANY_LENGTH and self.texts.is_everything

    @property
    def longest(self) -> int | None:
        """The length of the longest string in code points, None if there is no bound, 0 for the empty set."""
        return self.lengths[1] if self.texts.countable and not self.is_empty else self.language.longest

    def contains(self, text: str) -> bool:
        """Whether a string is in the set."""
        least, most = self.lengths
        return least <= len(text) and (most is None or len(text) <= most) and self.texts.contains(text)

    def values(self, most: int = 1000) -> list[str] | None:
        """Return the strings of the set, sorted, or None if there are more than `most`, or a long one is asked for."""
        if self.lengths == ANY_LENGTH:
            return self.texts.texts(most)
        if self.lengths[0] > LONGEST_LISTED and not self.is_empty:
            return None
        return self.texts.texts(most, *self.lengths) if self.completes else self.language.texts(most)

    def tree(self) -> Node:
        """Return the syntax tree of their JSON texts, quotes included.

        Raises:
            PatternTooLarge: There are too many states.
            ValueError: The set is empty.
        """
        return concatenate([Characters(QUOTE), self.body()])

    def body(self) -> Node:
        """Return the syntax tree of their JSON texts after the opening quote; see `tree`."""
        moves = [] if self.language.dfa is None else self.language.dfa.moves
        masks = {mask for row in moves for mask in row.values()}
        steps = WRITING_ANY + WRITING_MASK * len(masks) + WRITING_MOVE * sum(map(len, moves))
        self.language.limits.spend(steps)
        return self._body

    def counts(self, longest: int, closing: bool = False) -> bool:
        """Whether the characters of strings are counted, instead of having states for each length.

        Args:
            longest: The most characters of a token; 0 if counting is not allowed.
            closing: Whether a text that has begun must be completed within a number of tokens.
        """
        least, most = self.lengths
        counted = least if most is None else most
        if not longest or counted < (COUNTED_FROM_CLOSING if closing else COUNTED_FROM) or (closing and most is None):
            return False
        states = len(self.texts.needed) * (1 + least if closing else 1)
        endless = self.texts.longest is None and counted >= longest
        return self.completes and states * longest <= (MOST_COUNTED_ENDLESS if endless else MOST_COUNTED)

    def fragment(self, counted: bool = False, closing: bool = False) -> StringFragment:
        """Return the automaton over bytes of their JSON texts after the opening quote; see `tree` and `counts`."""
        if not counted:
            return string_fragment(self.language)
        least, most = self.lengths[0], MOST if self.lengths[1] is None else min(self.lengths[1], MOST)
        if not closing or least <= self.texts.needed[0]:
            return string_fragment(self.texts, (0 if closing else least, most))
        # How many tokens are needed must not depend on the count, so states say how many characters are missing.
        return string_fragment(self.texts & TextLanguage.of_length(least, None, self.limits), (0, most))

    @cached_property
    def _body(self) -> Node:
        return string_body(self.language)


def _same(texts: TextLanguage, lengths: Lengths, a: StringSet, b: StringSet) -> StringSet:
    """Return the set of some texts, one of the operands where nothing has changed: its tree may be known."""
    same = (some for some in (a, b) if texts is some.texts and lengths == some.lengths)
    return next(same, None) or StringSet(texts, lengths)


def _bounds(one: StringSet, other: StringSet) -> bool:
    """Whether the greatest length of a set needs states anyway, no more than that for which another has `compact`."""
    most, allowed = one.lengths[1], other.lengths[1]
    counted = most is not None and allowed is not None and most <= allowed
    return counted and one.compact is None and other.compact is not None


def _narrower(one: Lengths, other: Lengths) -> bool:
    """Whether some lengths leave out any of others."""
    return one[0] > other[0] or (one[1] is not None and (other[1] is None or one[1] < other[1]))


@lru_cache(maxsize=8)
@outside_budget()
def _everything(limits: Limits) -> StringSet:
    return StringSet(TextLanguage.everything(limits))


@lru_cache(maxsize=64)
def _of_format(name: str, limits: Limits, old: bool) -> StringSet:
    found = format_strings(name, limits, old)
    return StringSet(found.texts, (0, found.longest), found.compact)


def without(strings: StringSet, listed: Iterable[str]) -> StringSet:
    """Return a set without those of its strings that are listed."""
    few = [text for text in listed if strings.contains(text)]
    return strings - StringSet.of_values(few, strings.limits) if few else strings
