"""The trees directly inside of a tree: to look at them, and to put others in their place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from logitkit.patterns.syntax import Alternate, Atomic, Concat, Graph, Look, Node, Repeat

__all__ = ["inside", "with_inside"]


def inside(tree: Node) -> Sequence[Node]:
    """Return the trees directly inside of a tree.

    Example:
        >>> from logitkit.patterns.syntax import Call, Empty
        >>> inside(Repeat(Call(1), 0, 2)), inside(Empty())
        ((Call(definition=1),), ())
    """
    match tree:
        case Concat(parts) | Alternate(parts):
            return parts
        case Repeat(node) | Atomic(node) | Look(node):
            return (node,)
        case Graph(moves):
            return [label for row in moves for label, _ in row]
        case _:
            return ()


def with_inside(tree: Node, change: Callable[[Node], Node]) -> Node:
    """Return a tree with others in place of those directly inside.

    Args:
        tree: The tree.
        change: Returns what stands in place of one of them.

    Example:
        >>> from logitkit.patterns.syntax import Call, Empty
        >>> with_inside(Concat((Call(1), Call(2))), lambda node: Empty() if node == Call(2) else node)
        Concat(parts=(Call(definition=1), Empty()))
    """
    match tree:
        case Concat(parts):
            return Concat(tuple(map(change, parts)))
        case Alternate(options):
            return Alternate(tuple(map(change, options)))
        case Repeat(node) | Atomic(node) | Look(node):
            return replace(tree, node=change(node))
        case Graph(moves, accepting):
            return Graph(tuple([tuple([(change(label), target) for label, target in row]) for row in moves]), accepting)
        case _:
            return tree
