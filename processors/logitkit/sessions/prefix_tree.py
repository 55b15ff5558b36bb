"""Sequences of tokens that share their beginnings, and a value for each: as many as fit, least recently used go first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
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
        value: What is kept for it.
        used: When it was last used: a larger number is later.
    """

    tokens: tuple[int, ...]
    value: T
    used: int


class Match(NamedTuple, Generic[T]):
    """A sequence that begins as another one does.

    Args:
        entry: The sequence.
        shared: How many tokens both begin with.
    """

    entry: Entry[T]
    shared: int


@dataclass(eq=False)
class _Node(Generic[T]):
    """The sequences that begin with the edges from the root to here."""

    edge: tuple[int, ...]
    parent: _Node[T] | None
    children: dict[int, _Node[T]] = field(default_factory=dict)
    entry: Entry[T] | None = None


class PrefixTree(Generic[T]):
    """A radix tree of sequences; tokens that several begin with count once.

    Args:
        max_tokens: Most tokens that it holds, or None for any number. A sequence that is longer by itself is not kept.

    Example:
        >>> tree = PrefixTree(max_tokens=6)
        >>> tree.put([1, 2, 3, 4], "a")
        >>> tree.put([1, 2, 7], "b")
        >>> tree.tokens, [(m.entry.value, m.shared) for m in tree.matches([1, 2, 3, 9])]
        (5, [('a', 3), ('b', 2)])
        >>> tree.put([8, 8, 8], "c")
        >>> [entry.value for entry in tree.entries()]
        ['c', 'b']

    Source: Zheng and others, SGLang (RadixAttention), 2024, https://arxiv.org/abs/2312.07104.
    """

    def __init__(self, max_tokens: int | None = None) -> None:
        self.max_tokens = max_tokens
        self.tokens = 0
        self._root: _Node[T] = _Node((), None)
        self._nodes: dict[tuple[int, ...], _Node[T]] = {}
        self._clock = count()

    def __len__(self) -> int:
        return len(self._nodes)

    def entries(self) -> list[Entry[T]]:
        """Return all sequences, the most recently used first."""
        found = [node.entry for node in self._nodes.values() if node.entry is not None]
        return sorted(found, key=lambda entry: -entry.used)

    def get(self, tokens: Sequence[int]) -> Entry[T] | None:
        """Return a sequence that is in the tree."""
        node = self._nodes.get(tuple(tokens))
        return None if node is None else node.entry

    def touch(self, entry: Entry[T]) -> None:
        """Make a sequence the most recently used one."""
        entry.used = next(self._clock)

    def matches(self, tokens: Sequence[int]) -> Iterator[Match[T]]:
        """Return the sequences that begin with some of the tokens, those that share most first, then by last use.

        Args:
            tokens: What they are compared with.
        """
        path = self._path(tuple(tokens))
        seen: set[int] = set()
        for node, shared in reversed(path):
            if not shared:
                break
            below = [entry for entry in _entries(node) if id(entry) not in seen]
            seen.update(map(id, below))
            yield from (Match(entry, shared) for entry in sorted(below, key=lambda entry: -entry.used))

    def put(self, tokens: Sequence[int], value: T) -> None:
        """Keep a sequence as the most recently used one, and let others go until all fit."""
        key = tuple(tokens)
        if not key or (self.max_tokens is not None and len(key) > self.max_tokens):
            return
        node = self._nodes.get(key) or self._grown(key)
        node.entry = Entry(key, value, next(self._clock))
        self._nodes[key] = node
        while self.max_tokens is not None and self.tokens > self.max_tokens:
            self.discard(self.entries()[-1].tokens)

    def discard(self, tokens: Sequence[int]) -> None:
        """Let a sequence go; nothing happens if it is not there."""
        node = self._nodes.pop(tuple(tokens), None)
        if node is None:
            return
        node.entry = None
        while node.parent is not None and node.entry is None and not node.children:
            self.tokens -= len(node.edge)
            del node.parent.children[node.edge[0]]
            node = node.parent
        _join_only_child(node)

    def clear(self) -> None:
        """Let all sequences go."""
        self._root, self._nodes, self.tokens = _Node((), None), {}, 0

    def _path(self, tokens: tuple[int, ...]) -> list[tuple[_Node[T], int]]:
        """Return the nodes that are reached by tokens, each with the number of tokens that all below it share with them."""
        node, shared = self._root, 0
        path = []
        while shared < len(tokens) and tokens[shared] in node.children:
            node = node.children[tokens[shared]]
            alike = common_prefix(node.edge, tokens[shared : shared + len(node.edge)])
            shared += alike
            path.append((node, shared))
            if alike < len(node.edge):
                break
        return path

    def _grown(self, key: tuple[int, ...]) -> _Node[T]:
        """Return a node for a sequence; an edge that goes elsewhere is split."""
        path = self._path(key)
        if not path:
            return self._leaf(self._root, key)
        node, shared = path[-1]
        before = path[-2][1] if len(path) > 1 else 0
        alike = shared - before
        if alike < len(node.edge):
            node = _split(node, alike)
        return node if shared == len(key) else self._leaf(node, key[shared:])

    def _leaf(self, parent: _Node[T], edge: tuple[int, ...]) -> _Node[T]:
        parent.children[edge[0]] = leaf = _Node(edge, parent)
        self.tokens += len(edge)
        return leaf


def _entries(top: _Node[T]) -> Iterator[Entry[T]]:
    stack = [top]
    while stack:
        node = stack.pop()
        if node.entry is not None:
            yield node.entry
        stack.extend(node.children.values())


def _split(node: _Node[T], at: int) -> _Node[T]:
    """Put a node into the edge that leads to a node, and return it."""
    assert node.parent is not None
    middle = _Node(node.edge[:at], node.parent)
    node.parent.children[node.edge[0]] = middle
    node.edge, node.parent = node.edge[at:], middle
    middle.children[node.edge[0]] = node
    return middle


def _join_only_child(node: _Node[T]) -> None:
    """Take a node out that neither is a sequence nor a fork."""
    if node.parent is None or node.entry is not None or len(node.children) != 1:
        return
    (child,) = node.children.values()
    child.edge, child.parent = node.edge + child.edge, node.parent
    node.parent.children[child.edge[0]] = child
