"""All prefixes of all tokens of a vocabulary, as arrays: a byte trie in breadth-first order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from logitkit.vocabulary.ranges import expand

__all__ = ["JoinedTokens"]

# The number of bytes in a number of 64 bits, and for each length of a token up to that, the bits that it fills.
WORD = 8
FILLED = np.array([0, *(2**64 - 2 ** (64 - 8 * count) for count in range(1, WORD + 1))], np.uint64)


@dataclass(frozen=True, eq=False, slots=True)
class JoinedTokens:
    """The tokens with text, one after the other.

    Args:
        spelled: The tokens.
        ids: int64, their ids.
        padded: uint8, the bytes of all of them, and a few more.
        begin: int64, where each begins.
        length: int64, the number of bytes of each.
        size: The number of ids, with those without text.
    """

    spelled: tuple[bytes, ...]
    ids: NDArray[np.int64]
    padded: NDArray[np.uint8]
    begin: NDArray[np.int64]
    length: NDArray[np.int64]
    size: int

    @classmethod
    def of(cls, tokens: Sequence[bytes | None]) -> JoinedTokens:
        """Join tokens, of which None and empty ones have no text."""
        spelled = tuple([token for token in tokens if token])
        ids = np.flatnonzero(np.fromiter(map(bool, tokens), np.bool_, len(tokens)))
        length = np.fromiter(map(len, spelled), np.int64, len(spelled))
        padded = np.frombuffer(b"".join(spelled) + bytes(WORD), np.uint8)
        return cls(spelled, ids, padded, np.cumsum(length) - length, length, len(tokens))

    @property
    def text(self) -> NDArray[np.uint8]:
        """The bytes of all tokens."""
        return self.padded[:-WORD]

    @property
    def length_of_id(self) -> NDArray[np.int64]:
        """[V] int64, the length of every id; 0 for one without text."""
        lengths = np.zeros(self.size, np.int64)
        lengths[self.ids] = self.length
        return lengths

    def order(self) -> NDArray[np.int64]:
        """Return the places of the tokens sorted by their bytes, and of equal ones by their ids."""
        words = np.lib.stride_tricks.sliding_window_view(self.padded, WORD)[self.begin].view(">u8")[:, 0]
        words = words.astype(np.uint64) & FILLED[np.minimum(self.length, WORD)]
        order = np.argsort(words)
        words = words[order]
        alike = words[1:] == words[:-1]
        places = np.flatnonzero(np.append(alike, False) | np.append(False, alike))
        # Sorted by text, they stay between the others, and those with equal numbers stay together.
        compared = np.sort(order[places]).tolist()
        compared.sort(key=self.spelled.__getitem__)
        order[places] = compared
        return order


# Groups of bytes that patterns rarely distinguish, each given by its first byte. A node keeps one bit per group: whether such a
# byte occurs below it. UTF-8 requires the boundaries from 0x80 on.
GROUPS = bytes.fromhex(
    "00 09 0A 0B 20 21 22 23 27 28 2A 2C 2D 2E 2F 30 3A 3B 41 47 5B 5C 5D 5E 61 67 7B 80 90 A0 C0 E0"
)
GROUP_OF_BYTE = np.uint32(1) << (np.searchsorted(list(GROUPS), np.arange(256), side="right") - 1).astype(np.uint32)


@dataclass(frozen=True, eq=False)
class Trie:
    """A byte trie in breadth-first order; node 0 is the empty prefix.

    The children of node `n` are the nodes `children[n]` to `children[n + 1] - 1`. The tokens that start with its prefix are
    `tokens[first[n]]` to `tokens[first[n] + below[n] - 1]`; the first `own[n]` of them are equal to the prefix.

    Args:
        byte: [N] uint8, the last byte of each prefix.
        children: [N + 1] int64, the first child of each node.
        parent: [N] int64, the parent of each node.
        levels: The first node of each depth, then the number of nodes.
        tokens: int64, token ids sorted by their bytes.
        first: [N] int32, index in `tokens` of the first token that starts with the prefix.
        below: [N] int32, how many tokens start with the prefix.
        own: [N] int32, how many tokens are equal to the prefix.
        groups: [N] uint32, a bit for each of the `GROUPS` with a byte below the node.
        node_of_token: int32, the node at which each of `tokens` ends.
        node_of_id: [V] int32, the same for every id; 0 for an id without text.
    """

    byte: NDArray[np.uint8]
    children: NDArray[np.int64]
    parent: NDArray[np.int64]
    levels: tuple[int, ...]
    tokens: NDArray[np.int64]
    first: NDArray[np.int32]
    below: NDArray[np.int32]
    own: NDArray[np.int32]
    groups: NDArray[np.uint32]
    node_of_token: NDArray[np.int32]
    node_of_id: NDArray[np.int32]

    @classmethod
    def of(cls, tokens: Sequence[bytes | None] | JoinedTokens) -> Trie:
        """Build the trie of all tokens that have text; two ids with equal bytes end at one node."""
        joined = tokens if isinstance(tokens, JoinedTokens) else JoinedTokens.of(tokens)
        order, text = joined.order(), joined.padded
        ids, count = joined.ids[order], len(order)

        # Level by level. The rows stay sorted, so equal prefixes are neighbours and no level needs a sort.
        rows = np.arange(count, dtype=np.int32)
        node = np.zeros(count, np.int32)
        at, left = joined.begin[order], joined.length[order]
        node_of_token = np.zeros(count, np.int32)
        levels_byte = [np.zeros(1, np.uint8)]
        levels_count: list[NDArray[np.int64]] = []
        levels_first = [np.zeros(1, np.int32)]
        levels_below = [np.array([count])]
        size, first = 1, 0
        levels = [0]
        while len(rows):
            byte = text[at]
            fresh = np.ones(len(rows), np.bool_)
            fresh[1:] = (byte[1:] != byte[:-1]) | (node[1:] != node[:-1])
            new = np.flatnonzero(fresh)
            below = np.diff(new, append=len(rows))
            levels_byte.append(byte[new])
            levels_first.append(rows[new])
            levels_below.append(below)
            levels_count.append(np.bincount(node[new] - first, minlength=size - first))
            first = size
            levels.append(first)
            size += len(new)
            node = np.arange(first, size, dtype=np.int32).repeat(below)
            ends = left == 1
            node_of_token[rows[ends]] = node[ends]
            goes_on = ~ends
            rows, node, at, left = rows[goes_on], node[goes_on], at[goes_on] + 1, left[goes_on] - 1
        levels_count.append(np.zeros(size - first, np.int64))
        counts = np.concatenate(levels_count)
        node_of_id = np.zeros(joined.size, np.int32)
        node_of_id[ids] = node_of_token
        bytes_ = np.concatenate(levels_byte)
        children = np.concatenate([[1], 1 + np.cumsum(counts)])
        return cls(
            byte=bytes_,
            children=children,
            parent=np.concatenate([[0], np.repeat(np.arange(size), counts)]),
            levels=(*levels, size),
            tokens=ids,
            first=np.concatenate(levels_first),
            below=np.concatenate(levels_below).astype(np.int32),
            own=np.bincount(node_of_token, minlength=size).astype(np.int32),
            groups=_groups_below(bytes_, children, levels),
            node_of_token=node_of_token,
            node_of_id=node_of_id,
        )

    @property
    def depth(self) -> int:
        """The number of levels, including that of the empty prefix."""
        return len(self.levels) - 1

    def level(self, depth: int) -> tuple[int, int]:
        """Return the first node of a depth, and the first node after it."""
        return self.levels[depth], self.levels[depth + 1]

    def children_of(self, nodes: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return all children of the given nodes, and for each child the index of its parent in `nodes`."""
        return expand(self.children[nodes], self.children[nodes + 1] - self.children[nodes])

    @cached_property
    def child(self) -> NDArray[np.int32]:
        """[M, 256] the children of the shortest prefixes, up to one byte, by their last byte; 0 for none."""
        end = self.levels[min(2, self.depth)]
        found = np.zeros((end, 256), np.int32)
        children = np.arange(1, self.children[end])
        found[self.parent[children], self.byte[children]] = children
        return found

    def path(self, text: bytes) -> list[int]:
        """Return the nodes of the prefixes of a text, from one byte on, up to the longest that is in the trie."""
        nodes: list[int] = []
        node = 0
        for byte in text:
            first, last = int(self.children[node]), int(self.children[node + 1])
            node = first + int(self.byte[first:last].searchsorted(byte))
            if node == last or self.byte[node] != byte:
                break
            nodes.append(node)
        return nodes

    def tokens_at(self, text: bytes, at: int = 0) -> list[tuple[int, int]]:
        """Return the tokens that stand at a place of a text: where each ends, and its id, the shortest first."""
        nodes = enumerate(self.path(text[at : at + self.depth]), at + 1)
        return [(end, i) for end, node in nodes for i in self.tokens_below(node)[: self.own[node]].tolist()]

    def tokens_below(self, node: int) -> NDArray[np.int64]:
        """Return the ids of the tokens that start with the prefix of a node, first those that are equal to it."""
        return self.tokens[self.first[node] : self.first[node] + self.below[node]]

    def single_bytes(self, without: Iterable[int] = ()) -> NDArray[np.bool_]:
        """Return [256], which bytes are tokens on their own.

        Args:
            without: Ids that do not count; negative ones are ignored.
        """
        single = np.zeros(256, bool)
        if self.depth > 1:
            first, last = self.level(1)
            nodes = self.node_of_id[[token for token in without if token >= 0]]
            count = self.own[:last] - np.bincount(nodes[nodes < last], minlength=last)
            single[self.byte[first:last][count[first:] > 0]] = True
        return single

    def __len__(self) -> int:
        return len(self.byte)


def _groups_below(byte: NDArray[np.uint8], children: NDArray[np.int64], levels: list[int]) -> NDArray[np.uint32]:
    found = np.zeros(len(byte), np.uint32)
    # From the leaves up: the children of one level are the next level, and the children of one node are neighbours.
    for first, last in zip(levels[-2::-1], levels[:0:-1], strict=True):
        nodes = np.arange(first, last)
        nodes = nodes[children[nodes + 1] > children[nodes]]
        if len(nodes):
            each = found[last : children[last]] | GROUP_OF_BYTE[byte[last : children[last]]]
            found[nodes] = np.bitwise_or.reduceat(each, children[nodes] - last)
    return found
