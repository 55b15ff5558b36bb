"""Factor out the common beginnings of options, such as those of a choice of words."""

from __future__ import annotations

from logitkit.patterns.syntax import Alternate, Concat, Empty, Node

__all__ = ["factor"]


def factor(options: tuple[Node, ...]) -> list[Node]:
    """Join options that begin alike: `abc|abd|x` becomes `ab(c|d)|x`, so that a choice of words is a tree from the start.

    Without it, every word of a long choice would be a thread of its own in the subset construction.
    """
    groups: dict[Node | None, list[tuple[Node, ...]]] = {}
    for option in options:
        parts = option.parts if isinstance(option, Concat) else () if isinstance(option, Empty) else (option,)
        groups.setdefault(parts[0] if parts else None, []).append(parts)
    if len(groups) == len(options):
        return list(options)
    factored: list[Node] = []
    for head, members in groups.items():
        if head is None:
            factored.append(Empty())
        elif len(members) == 1:
            factored.append(_sequence(members[0]))
        else:
            shared = 1
            shortest = min(map(len, members))
            while shared < shortest and _all_equal([m[shared] for m in members]):
                shared += 1
            # Equal texts have the same nodes, one by one, in a long choice: those of single characters are shared.
            tails = {tuple(map(id, m[shared:])): m[shared:] for m in members}
            rest = (
                Alternate(tuple(map(_sequence, tails.values()))) if len(tails) > 1 else _sequence(members[0][shared:])
            )
            factored.append(_sequence((*members[0][:shared], rest)))
    return factored


def _all_equal(nodes: list[Node]) -> bool:
    return all(node is nodes[0] or node == nodes[0] for node in nodes)


def _sequence(parts: tuple[Node, ...]) -> Node:
    return Empty() if not parts else parts[0] if len(parts) == 1 else Concat(parts)
