"""How much of a marker has been read, where it may be written in several ways.

A node is a beginning of some way, as symbols: bytes, and special tokens. After a symbol that does not go on, the node counts
that is the longest end of what has been read, and the symbols before it are *dropped*. The dropped symbols are a beginning of
the node before, so another node stands for them. Take the marker `aab` after `aa` and another `a`: `aa` is left, and the first
`a` was dropped.

Source: Aho and Corasick, Efficient string matching (1975). Myers, An applicative random-access stack (1983), for the jumps.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from logitkit.limits import Limits
from logitkit.vocabulary.text_with_names import Symbols

__all__ = ["WaysRead"]


@dataclass(frozen=True, eq=False, slots=True)
class WaysRead:
    """The nodes of all ways. Node 0 is the start, and each comes after the one that it continues.

    Args:
        parent: The node that each one continues.
        symbol: The symbol with which it does.
        depth: How many symbols it has.
        jump: A node some way before it, with which any node before it is found in a few jumps.
        moves: For each node the node after each symbol that does not lead to the start.
        open: The nodes in which the marker is not complete.
    """

    parent: list[int]
    symbol: list[int]
    depth: list[int]
    jump: list[int]
    moves: list[dict[int, int]]
    open: list[int]

    @classmethod
    def of(cls, ways: Iterable[Symbols], limits: Limits) -> WaysRead:
        """Build the nodes of a marker that may be written in these ways.

        Raises:
            PatternTooLarge: There are more nodes than states are allowed.
        """
        parent, symbols, depth, jump, ends = [0], [0], [0], [0], set()
        child: list[dict[int, int]] = [{}]
        for way in ways:
            node = 0
            for symbol in way:
                following = child[node].get(symbol)
                if following is None:
                    following = child[node][symbol] = len(child)
                    parent.append(node)
                    symbols.append(symbol)
                    depth.append(depth[node] + 1)
                    far = jump[node]
                    # Two jumps of equal length make one of twice the length and a step.
                    equal = depth[node] - depth[far] == depth[far] - depth[jump[far]]
                    jump.append(jump[far] if equal else node)
                    child.append({})
                    limits.check_states(len(child))
                node = following
            ends.add(node)
        moves: list[dict[int, int]] = [{} for _ in child]
        fallback = [0] * len(child)
        order = [0]
        # Level by level: what a node falls back to is shorter, so its moves are known.
        for node in order:
            below = moves[fallback[node]] if node else {}
            moves[node] = {**below, **child[node]}
            for symbol, following in child[node].items():
                fallback[following] = below.get(symbol, 0)
                order.append(following)
        return cls(parent, symbols, depth, jump, moves, [node for node in range(len(child)) if node not in ends])

    @property
    def last(self) -> int:
        """The last node."""
        return len(self.parent) - 1

    def dropped(self, node: int, reached: int) -> int:
        """Return the node of the symbols that are dropped where a symbol leads from one node to another."""
        count = self.depth[node] + 1 - self.depth[reached]
        while self.depth[node] > count:
            far = self.jump[node]
            node = far if self.depth[far] >= count else self.parent[node]
        return node
