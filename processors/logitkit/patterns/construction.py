"""Construction of nodes from other nodes, with simplifications that keep the order of a backtracking search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Literal

from logitkit.patterns.charset import CharSet
from logitkit.patterns.syntax import Alternate, Anchor, Atomic, Characters, Concat, Empty, Graph, Look, Node, Repeat

__all__ = ["inside", "with_inside"]


def inside(tree: Node) -> Sequence[Node]:
    """Return the trees directly inside of a tree.

    Example:
        >>> from logitkit.patterns.syntax import Call, Empty
        >>> inside(Repeat(Call(1), 0, 2)), inside(Empty())
        ((Call(rule=1),), ())
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
        Concat(parts=(Call(rule=1), Empty()))
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


def concatenate(parts: list[Node]) -> Node:
    """Concatenate parts.

    Example:
        >>> concatenate([Empty(), Empty()])
        Empty()
    """
    flat: list[Node] = []
    for part in parts:
        if isinstance(part, Concat):
            flat.extend(part.parts)
        elif not isinstance(part, Empty):
            flat.append(part)
    if len(flat) > 1:
        return Concat(tuple(flat))
    return flat[0] if flat else Empty()


def alternate(options: list[Node]) -> Node:
    """Combine options; adjacent single characters become one set, since their order makes no difference.

    Example:
        >>> alternate([Characters(CharSet.single(97)), Characters(CharSet.single(98))]).charset.ranges
        ((97, 98),)
    """
    flat = [part for option in options for part in (option.options if isinstance(option, Alternate) else (option,))]
    joined: list[Node] = []
    for single, run in groupby(flat, key=lambda option: isinstance(option, Characters)):
        if single:
            joined.append(_any_of(list(run)))
        else:
            joined.extend(run)
    return Alternate(tuple(joined)) if len(joined) > 1 else joined[0]


def repeat(
    node: Node,
    minimum: int,
    maximum: int | None,
    kind: Literal["greedy", "lazy", "possessive"],
    position: int,
) -> Node:
    """Repeat a node.

    Possessive repetition is expressed by atomic groups: around each copy, and around all of them.

    Example:
        >>> repeat(Empty(), 2, 5, "greedy", 0)
        Empty()
    """
    if maximum == 0 or isinstance(node, Empty):
        return Empty()
    if _has_no_width(node):
        return node if minimum else Empty()
    if kind == "possessive":
        node = node if isinstance(node, Characters | Atomic) else Atomic(node, position)
        if minimum != maximum:
            return Atomic(Repeat(node, minimum, maximum), position)
        # A fixed number of atomic copies has only one match, so it needs no outer atomic group.
        kind = "greedy"
    return node if minimum == maximum == 1 else Repeat(node, minimum, maximum, kind)


def _has_no_width(node: Node) -> bool:
    if isinstance(node, Concat):
        return all(isinstance(part, Anchor | Look) for part in node.parts)
    return isinstance(node, Anchor | Look)


def _any_of(members: list[Node]) -> Node:
    if len(members) == 1:
        return members[0]
    return Characters(CharSet.union(member.charset for member in members if isinstance(member, Characters)))
