"""The nodes that are reached in a graph, and strongly connected components: sets of states each of which can reach the others.

Source: Tarjan, Depth-first search and linear graph algorithms (1972).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def reached(start: T, following: Callable[[T], Iterable[T]]) -> list[T]:
    """Return what can be reached from a node, itself included, each once.

    Args:
        start: The node.
        following: Returns what follows a node.

    Example:
        >>> reached(1, [[], [2], [1]].__getitem__)
        [1, 2]
    """
    found = {start: None}
    todo = [start]
    while todo:
        fresh = [node for node in following(todo.pop()) if node not in found]
        found.update(dict.fromkeys(fresh))
        todo.extend(fresh)
    return list(found)


def components(moves: list[dict[int, int]]) -> list[list[int]]:
    """Return the strongly connected components reachable from state 0, what is reached first (Tarjan, without recursion)."""
    index: list[int] = [-1] * len(moves)
    low: list[int] = [0] * len(moves)
    open_: list[bool] = [False] * len(moves)
    stack: list[int] = []
    found: list[list[int]] = []
    index[0] = 0
    counter = 1
    stack.append(0)
    open_[0] = True
    path = [(0, iter(moves[0]))]
    while path:
        state, targets = path[-1]
        for target in targets:
            if index[target] < 0:
                index[target] = low[target] = counter
                counter += 1
                stack.append(target)
                open_[target] = True
                path.append((target, iter(moves[target])))
                break
            if open_[target] and index[target] < low[state]:
                low[state] = index[target]
        else:
            path.pop()
            if path and low[state] < low[path[-1][0]]:
                low[path[-1][0]] = low[state]
            if low[state] == index[state]:
                component: list[int] = []
                while not component or component[-1] != state:
                    component.append(stack.pop())
                    open_[component[-1]] = False
                found.append(component)
    return found
