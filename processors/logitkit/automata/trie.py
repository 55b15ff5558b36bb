"""All prefixes of all tokens of a vocabulary, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from logitkit.automata.ranges import expand


@dataclass(frozen=True, eq=False, slots=True)
class Trie:
    """A byte trie in breadth-first order; node 0 is the empty prefix.

    The children of node `n` are the nodes `children[n]` to `children[n + 1] - 1`.

    Args:
        byte: [N] uint8, last byte of each prefix.
        children: [N + 1] int64, first child of each node.
        parent: [N] int32, parent of each node.
        levels: First node of each depth, and the number of nodes.
        tokens: int64, token ids in the order of their nodes.
        node_of_token: int32, the node at which each of `tokens` ends.
        node_of_id: [V] int32, the same for every id; 0 for one without text.
    """

    byte: NDArray[np.uint8]
    children: NDArray[np.int64]
    parent: NDArray[np.int32]
    levels: tuple[int, ...]
    tokens: NDArray[np.int64]
    node_of_token: NDArray[np.int32]
    node_of_id: NDArray[np.int32]

    @classmethod
    def of(cls, tokens: Sequence[bytes | None]) -> Trie:
        """Build the trie of all tokens that have text; two ids of equal bytes end at one node."""
        with_text = [i for i, t in enumerate(tokens) if t]
        with_text.sort(key=lambda i: tokens[i] or b"")
        spelled = [tokens[i] or b"" for i in with_text]
        ids = np.array(with_text, np.int64)
        length = np.fromiter(map(len, spelled), np.int64, len(spelled))
        flat = np.frombuffer(b"".join(spelled), np.uint8)
        begin = np.cumsum(length) - length

        # Level by level; rows stay sorted, so equal prefixes are neighbours and no level needs a sort.
        rows = np.arange(len(ids))
        node = np.zeros(len(ids), np.int64)
        levels_byte = [np.zeros(1, np.uint8)]
        levels_count: list[NDArray[np.int64]] = []
        ended = [(ids[:0], node[:0])]
        size, depth, first = 1, 0, 0
        levels = [0]
        while len(rows):
            byte = flat[begin[rows] + depth]
            key = (node << 8) | byte
            fresh = np.concatenate([[True], key[1:] != key[:-1]])
            levels_byte.append(byte[fresh])
            levels_count.append(np.bincount(node[fresh] - first, minlength=size - first))
            first = size
            levels.append(first)
            node = np.cumsum(fresh) - 1 + first
            size += int(fresh.sum())
            depth += 1
            done = length[rows] == depth
            ended.append((ids[rows[done]], node[done]))
            rows, node = rows[~done], node[~done]
        levels_count.append(np.zeros(size - first, np.int64))
        counts = np.concatenate(levels_count)
        ended_ids = np.concatenate([t for t, _ in ended])
        node_of_token = np.concatenate([n for _, n in ended]).astype(np.int32)
        node_of_id = np.zeros(len(tokens), np.int32)
        node_of_id[ended_ids] = node_of_token
        return cls(
            byte=np.concatenate(levels_byte),
            children=np.concatenate([[1], 1 + np.cumsum(counts)]),
            parent=np.concatenate([[0], np.repeat(np.arange(size), counts)]).astype(np.int32),
            levels=(*levels, size),
            tokens=ended_ids,
            node_of_token=node_of_token,
            node_of_id=node_of_id,
        )

    @property
    def depth(self) -> int:
        """Number of levels, that of the empty prefix included."""
        return len(self.levels) - 1

    def level(self, depth: int) -> tuple[int, int]:
        """Return the first node of a depth, and the first behind it."""
        return self.levels[depth], self.levels[depth + 1]

    def children_of(self, nodes: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return all children of some nodes, and for each the index of its parent within `nodes`."""
        return expand(self.children[nodes], self.children[nodes + 1] - self.children[nodes])

    def single_bytes(self) -> NDArray[np.bool_]:
        """Return [256] which bytes are tokens by themselves."""
        single = np.zeros(256, bool)
        if self.depth > 1:
            _, behind = self.level(1)
            single[self.byte[self.node_of_token[self.node_of_token < behind]]] = True
        return single

    def __len__(self) -> int:
        return len(self.byte)
