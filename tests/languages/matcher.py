"""Which sequences of tokens belong to a language, decided plainly from what the docstrings of languages say.

A text is read symbol by symbol: characters and special tokens. For each way to read the text so far, the matcher keeps what is
yet to be written. Bytes wait until they make a whole character.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import logitkit as lk
from logitkit.languages import Language
from logitkit.languages.any_tokens import AnyToken
from logitkit.languages.combined import InOrder, OneOf, Repeated
from logitkit.languages.dispatching import Dispatch
from logitkit.languages.free_text import AnyText
from logitkit.languages.schemas import JsonValue
from logitkit.languages.texts import LiteralText, OneText, RegexText, SpecialToken
from tests.languages.markers import Marker, Markers, Symbol
from tests.languages.patterns import Chars, Choice, Several, Two, tree_of
from tests.languages.values import Value, expanded

__all__ = ["Matcher", "Text"]

# The languages that are yet to be written, the first part first.
Rest: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True)
class Text:
    """All that is known of a text that was read so far; without ways, no text goes on so.

    Args:
        ways: The bytes that wait for a whole character, with what is yet to be written then. After a token that may stand for
            itself, no bytes of it wait.
    """

    ways: frozenset[tuple[bytes, frozenset[Rest]]]

    @classmethod
    def of(cls, ways: Iterable[tuple[bytes, frozenset[Rest]]]) -> Text:
        """Return what is known, with equal bytes joined."""
        found: dict[bytes, frozenset[Rest]] = {}
        for waiting, rests in ways:
            if rests:
                found[waiting] = found.get(waiting, frozenset()) | rests
        return cls(frozenset(found.items()))

    @property
    def is_complete(self) -> bool:
        return any(not waiting and () in rests for waiting, rests in self.ways)


@dataclass(frozen=True)
class Free:
    """Free text that has begun: what of it may yet be the beginning of a marker."""

    until: tuple[Marker, ...]
    exclude: tuple[Marker, ...]
    tail: tuple[Symbol, ...] = ()


@dataclass(frozen=True)
class Between:
    """The free text before, between and after the tags of a dispatch, of which some have been written."""

    of: Dispatch
    tags: int = 0
    tail: tuple[Symbol, ...] = ()


@dataclass(frozen=True)
class Without:
    """A pattern that has begun, in whose text some texts must not occur."""

    rest: Rest
    exclude: tuple[str, ...]
    tail: tuple[Symbol, ...] = ()


@dataclass(frozen=True)
class Another:
    """A repetition of which some texts have been written."""

    item: Language
    least: int
    most: int | None
    separator: Language | None


class Matcher(Markers):
    """Reads texts of one language in the tokens of one vocabulary. It does not know limits of tokens in free text.

    Args:
        language: The language.
        vocabulary: The tokens.
        max_depth: The most brackets that are open at once in JSON values that nest without limit.
    """

    def __init__(self, language: Language, vocabulary: lk.Vocabulary, max_depth: int = 32) -> None:
        super().__init__(language, vocabulary)
        self.max_depth = max_depth

    def start(self) -> Text:
        """Return what is known of the empty text."""
        return Text.of([(b"", self.closed([(self.language,)]))])

    def after(self, text: Text, token: int) -> Text:
        """Return what is known of a text when a token follows."""
        found = []
        for waiting, rests in text.ways:
            found.append(self.after_text(waiting, rests, token))
            if not waiting:
                found.append((b"", self.after_whole(rests, token)))
        return Text.of(found)

    def after_whole(self, rests: frozenset[Rest], token: int) -> frozenset[Rest]:
        """Return the rests after a token that stands for itself, whatever its text is."""
        if token in self.vocabulary.eos_ids:
            return frozenset()
        begun = [rest for rest in rests if rest and isinstance(rest[0], AnyToken)]
        return self.closed([rest[1:] for rest in begun if token not in map(self.id_of, rest[0].exclude)])

    def after_text(self, waiting: bytes, rests: frozenset[Rest], token: int) -> tuple[bytes, frozenset[Rest]]:
        """Return the bytes that wait, and the rests, after a token that is read by its text or named by the language."""
        nothing = b"", frozenset[Rest]()
        if self.is_symbol(token):
            return (b"", self.read(rests, token)) if not waiting else nothing
        for byte in self.vocabulary.tokens[token] or b"":
            waiting += bytes([byte])
            try:
                character = codecs.getincrementaldecoder("utf-8")().decode(waiting)
            except UnicodeDecodeError:
                return nothing
            if character:
                rests, waiting = self.read(rests, character), b""
        return waiting, rests

    def read(self, rests: frozenset[Rest], symbol: Symbol) -> frozenset[Rest]:
        """Return the rests after a symbol."""
        return self.closed([after for rest in rests for after in self.step(rest, symbol)])

    def closed(self, rests: list[Rest]) -> frozenset[Rest]:
        """Return the rests that begin with something to read, or are empty, in place of some of any kind."""
        met = set(rests)
        found = set()
        while rests:
            rest = rests.pop()
            if not rest or isinstance(rest[0], str | Chars | SpecialToken | AnyToken | Free | Between | Without):
                found.add(rest)
            for other in self.opened(rest[0], rest[1:]) if rest else ():
                if other not in met:
                    met.add(other)
                    rests.append(other)
        return frozenset(found)

    def opened(self, first: Any, rest: Rest) -> Iterator[Rest]:
        """Return the ways to go on without a symbol."""
        match first:
            case "" | Free(()):
                yield rest
            case LiteralText(text):
                yield (text, *rest)
            case OneText(options):
                yield from ((option, *rest) for option in options)
            case RegexText(pattern, ()):
                yield (tree_of(pattern), *rest)
            case RegexText(pattern, exclude):
                yield from ((Without(inner, exclude), *rest) for inner in self.closed([(tree_of(pattern),)]))
            case Without(()):
                yield rest
            case AnyText(until, exclude, None):
                yield (Free(until, exclude), *rest)
            case Dispatch():
                yield (Between(first), *rest)
            case Between(of, tags) if tags >= of.at_least:
                yield rest
            case InOrder(parts) | Two(parts):
                yield (*parts, *rest)
            case OneOf(options) | Choice(options):
                yield from ((option, *rest) for option in options)
            case Repeated(item, least, most, separator):
                if not least:
                    yield rest
                if most != 0:
                    yield (item, Another(item, max(least - 1, 0), None if most is None else most - 1, separator), *rest)
            case Another(item, least, most, separator):
                if not least:
                    yield rest
                if most != 0:
                    later = replace(first, least=max(least - 1, 0), most=None if most is None else most - 1)
                    yield (item, later, *rest) if separator is None else (separator, item, later, *rest)
            case Several(inner, least, most):
                if not least:
                    yield rest
                if most != 0:
                    yield (inner, Several(inner, max(least - 1, 0), None if most is None else most - 1), *rest)
            case JsonValue():
                yield (Value(first.schema, first.schema, self.max_depth), *rest)
            case Value():
                yield from ((*parts, *rest) for parts in expanded(first))

    def step(self, rest: Rest, symbol: Symbol) -> Iterator[Rest]:
        """Return the rests after a symbol, of a rest that begins with something to read."""
        first, later = (rest[0], rest[1:]) if rest else ("", ())
        match first:
            case str():
                for other in self.spelled(first, symbol):
                    yield (other, *later)
            case Chars():
                if isinstance(symbol, str) and first.has(symbol):
                    yield later
            case SpecialToken():
                if symbol == self.id_of(first):
                    yield later
            case Without(inner, exclude, tail):
                extended = self.extended(tail, symbol, exclude)
                if extended is not None and not self.ends_with(extended, exclude):
                    for after in self.read(frozenset([inner]), symbol):
                        yield (Without(after, exclude, extended), *later)
            case Free(until, exclude, tail):
                extended = self.extended(tail, symbol, (*until, *exclude))
                if extended is not None and not self.ends_with(extended, exclude):
                    ended = self.ends_with(extended, until)
                    yield later if ended else (Free(until, exclude, extended), *later)
            case Between(of, tags, tail):
                extended = self.extended(tail, symbol, (*of.triggers, *of.exclude))
                if extended is not None and not self.ends_with(extended, of.exclude):
                    begun = self.ends_with(extended, of.triggers)
                    after = () if of.stop_after_first else (Between(of, min(tags + 1, of.at_least)),)
                    for trigger in begun:
                        yield (of.rests[of.triggers.index(trigger)], *after, *later)
                    if not begun:
                        yield (Between(of, tags, extended), *later)
