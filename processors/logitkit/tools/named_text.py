"""Text in which special tokens stand by name, as it is streamed, and the vocabulary of its bytes and names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["UNNAMED", "NamedText", "text_vocabulary"]

# A special token without a name, which is legal in free text only.
UNNAMED = 257

# How many vocabularies of bytes and names are kept, each with what was compiled for it.
KEPT = 16


def text_vocabulary(names: Iterable[str], ends: Iterable[str] = ()) -> Vocabulary:
    """Return the vocabulary in which each byte is a token, and each name a special one.

    Args:
        names: The names of special tokens.
        ends: Those of them that end the text.
    """
    return _text_vocabulary(tuple(sorted({*names, *ends})), frozenset(ends))


@lru_cache(KEPT)
def _text_vocabulary(names: tuple[str, ...], ends: frozenset[str]) -> Vocabulary:
    # There is always an EOS id, although text without its name just ends; and another one without text.
    special = {name: UNNAMED + 1 + number for number, name in enumerate(names)}
    tokens = [*(bytes([byte]) for byte in range(256)), None, None, *[None] * len(names)]
    return Vocabulary(tokens, eos_ids=[256, *(special[name] for name in ends)], special=special)


class NamedText:
    """Cuts text into characters and names of special tokens.

    Args:
        vocabulary: A `text_vocabulary`.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._special: Mapping[str, int] = vocabulary.special
        self._names = re.compile("|".join(map(re.escape, sorted(self._special, key=len, reverse=True))) or "(?!)")
        self._beginnings = {name[:size] for name in self._special for size in range(1, len(name))}
        self._longest = max(map(len, self._special), default=1)
        self._held = ""
        self._at = 0

    def pieces(self, text: str, final: bool) -> Iterator[tuple[str, int, int | None]]:
        """Yield the pieces of more text: each with its position, and its token if it is a name.

        Args:
            text: The text, which goes on where the last one ended.
            final: Whether it is the last.
        """
        text = self._held + text
        # A name that may go on to be a longer one waits, too.
        held = 0 if final else self._begun(text)
        start, stop = 0, len(text) - held
        for found in self._names.finditer(text):
            if found.end() > stop:
                break
            yield from self._plain(text, start, found.start())
            yield found.group(), self._at + found.start(), self._special[found.group()]
            start = found.end()
        yield from self._plain(text, start, stop)
        self._at, self._held = self._at + stop, text[stop:]

    def _plain(self, text: str, start: int, stop: int) -> Iterator[tuple[str, int, int | None]]:
        return ((text[at], self._at + at, None) for at in range(start, stop))

    def _begun(self, text: str) -> int:
        """Return how many of the last characters may be the first part of a name."""
        most = min(self._longest - 1, len(text))
        return next((size for size in range(most, 0, -1) if text[-size:] in self._beginnings), 0)
