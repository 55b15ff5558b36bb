"""Which sequences of tokens belong to a language, decided plainly from what the docstrings of languages say.

A text is read symbol by symbol: characters and special tokens. For each way to read the text so far, the matcher keeps what is
yet to be written. Bytes wait until they make a whole character.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import logitkit as lk
from logitkit.languages import Language
from logitkit.languages.any_tokens import AnyToken
from logitkit.languages.combined import InOrder, OneOf, Repeated
from logitkit.languages.dispatching import Dispatch
from logitkit.languages.free_text import AnyText
from logitkit.languages.schemas import JsonValue
from logitkit.languages.texts import LiteralText, OneText, RegexText, SpecialToken
from tests.languages.patterns import Chars, Choice, Several, Two, tree_of
from tests.languages.values import Value, expanded

__all__ = ["Matcher", "Text"]

# A character, or the id of a special token.
Symbol: TypeAlias = str | int
Marker: TypeAlias = str | SpecialToken
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


class Matcher:
    """Reads texts of one language in the tokens of one vocabulary. It does not know limits of tokens in free text.

    Args:
        language: The language.
        vocabulary: The tokens.
        max_depth: The most brackets that are open at once in JSON values that nest without limit.
    """

    def __init__(self, language: Language, vocabulary: lk.Vocabulary, max_depth: int = 32) -> None:
        self.language, self.vocabulary, self.max_depth = language, vocabulary, max_depth

    @cached_property
    def named(self) -> frozenset[int]:
        """The tokens that the language names by `special`."""
        return frozenset(map(self.id_of, self.special))

    @cached_property
    def named_ends(self) -> frozenset[int]:
        """The EOS ids that the language names, by `special` or in a text."""
        texts = [text for text in self.fixed if isinstance(text, str)]
        ends = self.vocabulary.eos_ids
        in_texts = {end for end in ends if end in self.name_of and any(self.name_of[end] in text for text in texts)}
        return frozenset(in_texts | (self.named & set(ends)))

    @cached_property
    def special(self) -> frozenset[SpecialToken]:
        """All `special` in the language."""
        return frozenset(part for part in self.fixed if isinstance(part, SpecialToken))

    @cached_property
    def fixed(self) -> frozenset[str | SpecialToken]:
        """All fixed texts and special tokens in the language."""
        found: set[str | SpecialToken] = set()
        todo: list[Any] = [self.language]
        while todo:
            match todo.pop():
                case (SpecialToken() | str()) as one:
                    found.add(one)
                case LiteralText(text):
                    found.add(text)
                case OneText(options):
                    found.update(options)
                case InOrder(parts) | OneOf(parts):
                    todo.extend(parts)
                case Repeated(item, _, _, separator):
                    todo.extend((item, separator))
                case AnyText(until, exclude):
                    todo.extend((*until, *exclude))
                case AnyToken(exclude):
                    todo.extend(exclude)
                case Dispatch(triggers, rests, _, _, exclude):
                    todo.extend((*triggers, *rests, *exclude))
        return frozenset(found)

    @cached_property
    def name_of(self) -> dict[int, str]:
        """The names that stand for a token in texts: of tokens that are not read by their text."""
        names = {token: name for name, token in self.vocabulary.special.items()}
        by_name = [token for token in self.special if isinstance(token.token, str)]
        added = {token: (self.vocabulary.tokens[token] or b"").decode() for token in map(self.id_of, by_name)}
        return {token: name for token, name in {**added, **names}.items() if self.is_symbol(token)}

    def id_of(self, special: SpecialToken) -> int:
        """Return the id of a special token; one that was added to a tokenizer may have its name as text alone."""
        if isinstance(special.token, int):
            return special.token
        names = self.vocabulary.special
        return names[special.token] if special.token in names else self.vocabulary.tokens.index(special.token.encode())

    def is_symbol(self, token: int) -> bool:
        """Whether a token is read by itself, not by its text."""
        return token in self.named or self.vocabulary.tokens[token] is None

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

    def spelled(self, text: str, symbol: Symbol) -> Iterator[str]:
        """Return what is left of a text after a symbol: its first character, or the special token whose name it begins with."""
        if isinstance(symbol, str):
            if text[:1] == symbol:
                yield text[1:]
        elif symbol in self.name_of and text.startswith(self.name_of[symbol]):
            yield text.removeprefix(self.name_of[symbol])

    def extended(
        self, tail: tuple[Symbol, ...], symbol: Symbol, markers: tuple[Marker, ...]
    ) -> tuple[Symbol, ...] | None:
        """Return a tail with a symbol, from where on a marker may have begun.

        A special token that is not part of any marker changes nothing, but free text does not go on after EOS: None.
        """
        if isinstance(symbol, int) and not any(self.holds(marker, symbol, markers) for marker in markers):
            return None if symbol in self.vocabulary.eos_ids else tail
        tail = (*tail, symbol)
        begins = (tail[begin:] for begin in range(len(tail)))
        return next((t for t in begins if any(self.left(marker, t) for marker in markers)), ())

    def holds(self, marker: Marker, token: int, markers: tuple[Marker, ...]) -> bool:
        """Whether a token may be part of a marker, before which no other marker is complete."""
        if isinstance(marker, SpecialToken):
            return self.id_of(marker) == token
        if token not in self.name_of:
            return False
        first = min(
            (len(m) for m in markers if isinstance(m, str) and m != marker and marker.startswith(m)),
            default=len(marker),
        )
        return self.name_of[token] in marker[: first + len(self.name_of[token]) - 1]

    def ends_with(self, tail: tuple[Symbol, ...], markers: tuple[Marker, ...]) -> list[Marker]:
        """Return the markers that a tail ends with."""
        ends = [tail[begin:] for begin in range(len(tail))]
        return [marker for marker in markers if any("" in self.left(marker, end) for end in ends)]

    def left(self, marker: Marker, begun: tuple[Symbol, ...]) -> set[str]:
        """Return what is left of a marker after symbols, in each way to write it; nothing if it does not begin with them."""
        if isinstance(marker, SpecialToken):
            return {""} if begun == (self.id_of(marker),) else set()
        left = {marker}
        for symbol in begun:
            left = {other for text in left for other in self.spelled(text, symbol)}
        return left
