"""Walks over trees."""

from __future__ import annotations

from collections.abc import Callable

from logitkit.patterns.construction import concatenate
from logitkit.patterns.inner_trees import with_inside
from logitkit.patterns.syntax import Alternate, Call, Concat, Node, Repeat

__all__ = ["has_lazy_quantifiers", "with_calls_replaced"]


def with_calls_replaced(tree: Node, replacement: Callable[[int], Node]) -> Node:
    """Return a tree with another node in place of each call."""
    match tree:
        case Call(definition):
            return replacement(definition)
        case Concat(parts):
            return concatenate([with_calls_replaced(part, replacement) for part in parts])
        case _:
            return with_inside(tree, lambda node: with_calls_replaced(node, replacement))


def has_lazy_quantifiers(tree: Node) -> bool:
    """Whether a quantifier of a tree, outside lookarounds and atomic groups, takes few copies before many."""
    match tree:
        case Repeat(node, minimum, maximum, kind):
            return (kind == "lazy" and minimum != maximum) or has_lazy_quantifiers(node)
        case Concat(parts) | Alternate(parts):
            return any(map(has_lazy_quantifiers, parts))
        case _:
            return False
