"""Text in which special tokens that count only as tokens are single characters, which no text contains: lone surrogates."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass, field

from logitkit.tools.formats import ToolFormat
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["MarkedText", "Markers"]

FIRST_SURROGATE = 0xD800


class Markers:
    """Knows the character of each special token of a format that counts only as a token."""

    def __init__(self, form: ToolFormat) -> None:
        names = sorted(form.tokens, key=len, reverse=True)
        self.character = {name: chr(FIRST_SURROGATE + number) for number, name in enumerate(names)}
        self.name = {character: name for name, character in self.character.items()}
        self._names = re.compile("|".join(map(re.escape, names)) or "(?!)")
        self._characters = re.compile(f"[{''.join(self.name)}]" if names else "(?!)")

    def marked(self, text: str) -> str:
        """Return a text with the names of such tokens as their characters."""
        return self._names.sub(lambda found: self.character[found.group()], text)

    def plain(self, text: str) -> str:
        """Return a marked text with names in place of the characters."""
        return self._characters.sub(lambda found: self.name[found.group()], text)


@dataclass(eq=False)
class MarkedText:
    """Turns token ids into marked text, one id at a time.

    Args:
        vocabulary: The tokens.
        markers: The special tokens that count only as tokens.
    """

    vocabulary: Vocabulary
    markers: Markers
    _decoder: codecs.IncrementalDecoder = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        special = self.vocabulary.special
        self._marker = {
            token: self.markers.character[n] for n in self.markers.character if (token := special.get(n)) is not None
        }
        spelled = {n.encode(): c for n, c in self.markers.character.items() if n not in special}
        # A token that was added to a tokenizer without being special has its name as text.
        self._marked_bytes = spelled
        self._names = {token: name for name, token in special.items() if self.vocabulary.tokens[token] is None}

    def next(self, token: int) -> str:
        """Return the text that a token adds; half of a character adds nothing until the rest comes."""
        marker = self._marker.get(token)
        text = self.vocabulary.tokens[token] if 0 <= token < len(self.vocabulary.tokens) else None
        if marker is None and text is not None:
            marker = self._marked_bytes.get(text)
        if marker is None and text is not None:
            return self._decoder.decode(text)
        broken = self.end()
        return broken + (marker if marker is not None else self._names.get(token, ""))

    def end(self) -> str:
        """Return the text of bytes that belong to no character."""
        found = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return found
