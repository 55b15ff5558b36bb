r"""The shapes of tokens: far fewer than tokens, and for many patterns all that counts.

What does `[^\n]*` do with a token? It reads `now` as it reads `try`: it knows a letter from a newline, but not one letter from
another. So both need to be followed only once. The *shape* of a token is its text with every byte replaced by the first one of
its kind. Letters have four kinds, as hexadecimal digits and names are what patterns are about: A to F, G to Z, a to f, g to z.
All other bytes of ASCII are kinds by themselves, and those of other characters go by their part in UTF-8. So

    now -> ggg    try -> ggg    red -> gaa    Fn2 -> Ag2

A vocabulary of 131,000 tokens has 18,000 shapes, and their trie has a ninth of the nodes. A pattern that tells `n` from `t`, such
as `no|yes`, needs the tokens themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from logitkit.vocabulary.trie import Trie

__all__ = ["Shapes"]

# The first byte of each kind: ASCII, continuation bytes, and lead bytes, some of which restrict the byte after them.
_ASCII = (*range(0x42), *b"G", *range(0x5B, 0x62), *b"g", *range(0x7B, 0x80))
_BEYOND = bytes.fromhex("80 90 A0 C0 C2 E0 E1 ED EE F0 F1 F4 F5")
_FIRST = np.array([*_ASCII, *_BEYOND])
_KIND = _FIRST[np.searchsorted(_FIRST, np.arange(256), side="right") - 1]
_TABLE = bytes(_KIND.tolist())


@dataclass(frozen=True, eq=False, slots=True)
class Shapes:
    """The shapes of the tokens of a vocabulary.

    Args:
        trie: The shapes, as if they were tokens: id 0 has no text, and is the shape of ids without text.
        of_id: [V] int32, the id of each token's shape.
    """

    trie: Trie
    of_id: NDArray[np.int32]

    @classmethod
    def of(cls, tokens: Sequence[bytes | None]) -> Shapes:
        """Find the shapes of some tokens."""
        number: dict[bytes | None, int] = {None: 0}
        of_id = [number.setdefault(token and token.translate(_TABLE), len(number)) for token in tokens]
        return cls(Trie.of([*number]), np.array(of_id, np.int32))

    @staticmethod
    def suffice(byte_class: NDArray[np.integer]) -> bool:
        """Whether all bytes of each kind are in one class; `byte_class` is [256], the class of each byte."""
        return np.array_equal(byte_class, byte_class[_KIND])
