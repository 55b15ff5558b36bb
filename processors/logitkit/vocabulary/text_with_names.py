r"""A text that is searched for, in which names of special tokens may stand.

Take the marker `"\n</think>\n"` where `</think>` is a special token without text. A model may write it with that token in the
middle, or spell the name in ordinary tokens, so there are two ways to write it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple, TypeAlias

from logitkit.vocabulary.marker_symbol import MarkerSymbol

__all__ = ["Name", "Symbols", "TextWithNames"]

# Bytes and tokens, as `MarkerSymbol` numbers them.
Symbols: TypeAlias = tuple[int, ...]


class Name(NamedTuple):
    """The name of a special token in a text.

    Args:
        begin: Where it begins.
        end: Where it ends.
        tokens: The tokens without text that have this name: one, or any number if case is ignored.
    """

    begin: int
    end: int
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TextWithNames:
    """A text with the names in it.

    Args:
        text: The text.
        names: In order; their places count the bytes or the characters of the text.
    """

    text: str | bytes
    names: tuple[Name, ...] = ()

    @property
    def encoded(self) -> bytes:
        """The text, with all names spelled."""
        return self.text if isinstance(self.text, bytes) else self.text.encode()

    @property
    def is_mixed(self) -> bool:
        """Whether the text has a name and something else."""
        return bool(self.names) and self.names[0][:2] != (0, len(self.text))

    @property
    def tokens(self) -> frozenset[int]:
        """All tokens that may stand for a part of the text."""
        return frozenset(token for name in self.names for token in name.tokens)

    def ways(self) -> Iterator[Symbols]:
        """Return all ways to write a text given as bytes."""
        text = self.encoded
        pieces: list[list[Symbols]] = []
        end = 0
        for name in self.names:
            pieces.append([tuple(text[end : name.begin])])
            pieces.append(
                [*((MarkerSymbol.token(token),) for token in name.tokens), tuple(text[name.begin : name.end])]
            )
            end = name.end
        pieces.append([tuple(text[end:])])
        return (tuple(symbol for part in way for symbol in part) for way in product(*pieces))
