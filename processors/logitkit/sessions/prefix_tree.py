"""A radix tree of token sequences with a value for each, limited in size: the least recently used sequences are evicted."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import Generic, NamedTuple, TypeVar

from logitkit.sessions.reuse import common_prefix

__all__ = ["Entry", "Match", "PrefixTree"]

T = TypeVar("T")


@dataclass(eq=False)
class Entry(Generic[T]):
    """A sequence in the tree.

    Args:
        tokens: The whole sequence.
        value: The value stored for it.
        used: The time of the last use: a larger number is later.
    """

    tokens: tuple[int, ...]
    value: T
    used: int


class Match(NamedTuple, Generic[T]):
    """A sequence that starts with the same tokens as another.

    Args:
        entry: The sequence.
        shared: The length of the common prefix, in tokens.
    """

    entry: Entry[T]
    shared: int


@dataclass(eq=False)
class _Node(Generic[T]):
    """All sequences that start with the edges from the root to this node.

    Args:
        edge: The tokens on the edge from the parent.
        parent: The parent node; None for the root.
        children: The children by the first token of their edges, the most recently used last.
        entry: The sequence that ends here, if any.
        used: The latest use of any sequence at or below this node.
    """

    edge: tuple[int, ...]
    parent: _Node[T] | None
    children: OrderedDict[int, _Node[T]] = field(default_factory=OrderedDict)
    entry: Entry[T] | None = None
    used: int = -1


class PrefixTree(Generic[T]):
    """A radix tree of sequences; tokens in a shared prefix count once.

    The time of every method except `entries` is independent of the number of sequences.

    Args:
        max_tokens: The maximum number of tokens, or None for no limit. A single sequence that exceeds it is not stored.

    Example:
        >>> tree = PrefixTree(max_tokens=6)
        >>> gone = tree.put([1, 2, 3, 4], "a"), tree.put([1, 2, 7], "b")
        >>> tree.tokens, [(m.entry.value, m.shared) for m in tree.matches([1, 2, 3, 9])]
        (5, [('a', 3), ('b', 2)])
        >>> [entry.value for entry in tree.put([8, 8, 8], "c")]
        ['a']
        >>> [entry.value for entry in tree.entries()]
        ['c', 'b']

    Source: Zheng and others, SGLang (RadixAttention), 2024, https://arxiv.org/abs/2312.07104.
    """

    def __init__(self, max_tokens: int | None = None) -> None:
        self.max_tokens = max_tokens
        self.tokens = 0
        self._root: _Node[T] = _Node((), None)
        # The node of each sequence, the most recently used last.
        self._nodes: OrderedDict[tuple[int, ...], _Node[T]] = OrderedDict()
        self._clock = count()

    def __len__(self) -> int:
        return len(self._nodes)

    def entries(self) -> list[Entry[T]]:
        """Return all sequences, the most recently used first."""
        return [node.entry for node in reversed(self._nodes.values()) if node.entry is not None]

    def get(self, tokens: Sequence[int]) -> Entry[T] | None:
        """Return the entry of exactly these tokens, if it is in the tree."""
        node = self._nodes.get(tuple(tokens))
        return None if node is None else node.entry

    def touch(self, entry: Entry[T]) -> None:
        """Mark an entry as the most recently used one."""
        self._use(self._nodes[entry.tokens], entry)

    def matches(self, tokens: Sequence[int]) -> Iterator[Match[T]]:
        """Yield sequences that share a prefix with the tokens, longest shared prefix first, then latest use first.

        Args:
            tokens: The tokens to compare with. The tree must not change during the iteration.
        """
        done: _Node[T] | None = None
        for node, shared in reversed(self._path(tuple(tokens))[1:]):
            yield from (Match(entry, shared) for entry in _latest_first(node, done))
            done = node

    def beginnings(self, tokens: Sequence[int]) -> list[Match[T]]:
        """Return the sequences that are a prefix of the tokens, the longest first."""
        path = reversed(self._path(tuple(tokens)))
        found = [Match(node.entry, shared) for node, shared in path if node.entry is not None]
        return [match for match in found if match.shared == len(match.entry.tokens)]

    def put(self, tokens: Sequence[int], value: T) -> list[Entry[T]]:
        """Store a sequence as the most recently used one, and return the entries that were evicted for it."""
        key = tuple(tokens)
        if not key or (self.max_tokens is not None and len(key) > self.max_tokens):
            return []
        node = self._nodes.get(key) or self._grown(key)
        self._nodes[key] = node
        node.entry = Entry(key, value, -1)
        self._use(node, node.entry)
        gone = []
        while self.max_tokens is not None and self.tokens > self.max_tokens:
            gone += self.discard(next(iter(self._nodes)))
        return gone

    def discard(self, tokens: Sequence[int]) -> list[Entry[T]]:
        """Remove a sequence, and return its entry, or nothing if it is not in the tree."""
        node = self._nodes.pop(tuple(tokens), None)
        if node is None or node.entry is None:
            return []
        gone, node.entry = [node.entry], None
        while node.parent is not None and node.entry is None and not node.children:
            self.tokens -= len(node.edge)
            del node.parent.children[node.edge[0]]
            node = node.parent
        _join_only_child(node)
        return gone

    def clear(self) -> None:
        """Remove all sequences."""
        self._root, self.tokens = _Node((), None), 0
        self._nodes.clear()

    def _use(self, node: _Node[T], entry: Entry[T]) -> None:
        """Mark a sequence as the most recently used: its node and all nodes above become the last of their siblings."""
        entry.used = next(self._clock)
        self._nodes.move_to_end(entry.tokens)
        above: _Node[T] | None = node
        while above is not None:
            above.used = entry.used
            if above.parent is not None:
                above.parent.children.move_to_end(above.edge[0])
            above = above.parent

    def _path(self, tokens: tuple[int, ...]) -> list[tuple[_Node[T], int]]:
        """Return the nodes on the path of the tokens from the root, each with the number of tokens that all below it share."""
        node, shared = self._root, 0
        path = [(node, shared)]
        while shared < len(tokens) and tokens[shared] in node.children:
            node = node.children[tokens[shared]]
            alike = common_prefix(node.edge, tokens[shared : shared + len(node.edge)])
            shared += alike
            path.append((node, shared))
            if alike < len(node.edge):
                break
        return path

    def _grown(self, key: tuple[int, ...]) -> _Node[T]:
        """Return the node for a sequence; splits an edge that continues differently."""
        (_, before), (node, shared) = [(self._root, 0), *self._path(key)][-2:]
        if shared - before < len(node.edge):
            node = _split(node, shared - before)
        return node if shared == len(key) else self._leaf(node, key[shared:])

    def _leaf(self, parent: _Node[T], edge: tuple[int, ...]) -> _Node[T]:
        parent.children[edge[0]] = leaf = _Node(edge, parent)
        self.tokens += len(edge)
        return leaf


def _latest_first(top: _Node[T], without: _Node[T] | None) -> Iterator[Entry[T]]:
    """Yield the sequences at and below a node, except those below one child, the most recently used first.

    A node is expanded only when no sequence with a later use remains, so the first results take the same time for any number of
    sequences.
    """
    waiting: list[tuple[int, int, _Node[T] | Entry[T], Iterator[_Node[T]]]] = []
    ties = count()

    def wait_for(siblings: Iterator[_Node[T]]) -> None:
        node = next(siblings, None)
        if node is not None:
            heappush(waiting, (-node.used, next(ties), node, siblings))

    wait_for(iter((top,)))
    while waiting:
        _, _, found, siblings = heappop(waiting)
        if isinstance(found, Entry):
            yield found
            continue
        wait_for(siblings)
        wait_for(child for child in reversed(found.children.values()) if child is not without)
        if found.entry is not None:
            heappush(waiting, (-found.entry.used, next(ties), found.entry, iter(())))


def _split(node: _Node[T], at: int) -> _Node[T]:
    """Insert a node into the edge above a node, and return it."""
    assert node.parent is not None
    middle = _Node(node.edge[:at], node.parent)
    node.parent.children[node.edge[0]] = middle
    node.edge, node.parent = node.edge[at:], middle
    middle.children[node.edge[0]] = node
    return middle


def _join_only_child(node: _Node[T]) -> None:
    """Remove a node that is neither a sequence nor a branch."""
    if node.parent is None or node.entry is not None or len(node.children) != 1:
        return
    (child,) = node.children.values()
    child.edge, child.parent, child.used = node.edge + child.edge, node.parent, node.used
    node.parent.children[child.edge[0]] = child
