"""The markers and special tokens of a language, and which of them the end of a text may be."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, TypeAlias

import logitkit as lk
from logitkit.languages import Language
from logitkit.languages.any_tokens import AnyToken
from logitkit.languages.combined import InOrder, OneOf, Repeated
from logitkit.languages.dispatching import Dispatch
from logitkit.languages.free_text import AnyText
from logitkit.languages.texts import LiteralText, OneText, SpecialToken

__all__ = ["Marker", "Markers", "Symbol"]

# A character, or the id of a special token.
Symbol: TypeAlias = str | int
Marker: TypeAlias = str | SpecialToken


class Markers:
    """Knows the names of special tokens, and reads markers in which they stand.

    Args:
        language: The language.
        vocabulary: The tokens.
    """

    def __init__(self, language: Language, vocabulary: lk.Vocabulary) -> None:
        self.language, self.vocabulary = language, vocabulary

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
