"""The remainders of tokens after a byte that ends something: of `"},` after its quote, `},`; after its brace, a comma.

Where a text ends inside a token, the rest of the token goes on with whatever comes next. Few different rests exist, whatever
the size of the vocabulary, so what each does is worked out once for all tokens that have it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from logitkit.vocabulary.trie import Trie

__all__ = ["Remainders"]

# The bytes that end strings, objects and arrays.
ENDS = b'"}]'


@dataclass(frozen=True, eq=False)
class Remainders:
    """The remainders of the tokens of a vocabulary, numbered from 1 on; 0 is the empty one.

    Args:
        trie: The remainders as tokens of a trie; id `n` has number `n + 1`.
        length: [N + 1] int64, the length of each.
        token_length: [V] int64, the length of each token, 0 for ids without text.
        reversed_trie: All suffixes of all tokens.
        number: [M] int32, the number of the remainder at each node of that trie; 0 for none.
        node: [N + 1] int64, the node of each remainder in that trie.
    """

    trie: Trie
    length: NDArray[np.int64]
    token_length: NDArray[np.int64]
    reversed_trie: Trie
    number: NDArray[np.int32]
    node: NDArray[np.int64]

    @classmethod
    def of(cls, tokens: tuple[bytes | None, ...], reversed_trie: Trie) -> Remainders:
        """Find the remainders of some tokens."""
        found = {
            token[at + 1 :]
            for token in tokens
            if token and not ENDING.isdisjoint(token)
            for at, byte in enumerate(token[:-1])
            if byte in ENDING
        }
        texts = sorted(found)
        nodes = [reversed_trie.path(text[::-1])[-1] for text in texts]
        number = np.zeros(len(reversed_trie), np.int32)
        number[nodes] = 1 + np.arange(len(texts))
        return cls(
            Trie.of(texts),
            np.array([0, *map(len, texts)], np.int64),
            np.array([len(token or b"") for token in tokens], np.int64),
            reversed_trie,
            number,
            np.array([0, *nodes], np.int64),
        )

    def __len__(self) -> int:
        return len(self.length)

    @property
    def longest(self) -> int:
        """The length of the longest one."""
        return int(self.length.max())

    def of_tokens(self, tokens: NDArray[np.integer], length: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return the numbers of the last bytes of tokens, `length` bytes of each."""
        return self._suffixes(self.reversed_trie.node_of_id[tokens], self.token_length[tokens], length)

    def shortened(self, remainders: NDArray[np.integer], length: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return the numbers of the last bytes of remainders, `length` bytes of each."""
        return self._suffixes(self.node[remainders], self.length[remainders], length)

    def _suffixes(
        self, node: NDArray[np.integer], depth: NDArray[np.int64], length: NDArray[np.integer]
    ) -> NDArray[np.int64]:
        node = node.astype(np.int64)
        left = np.flatnonzero(depth > length)
        parent = self.reversed_trie.parent
        deeper = depth - length
        while len(left):
            node[left] = parent[node[left]]
            deeper[left] -= 1
            left = left[deeper[left] > 0]
        found: NDArray[np.int64] = self.number[node].astype(np.int64)
        return found


ENDING = frozenset(ENDS)
