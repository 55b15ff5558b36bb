"""Tools that are alike in an order of calls, and how far their names must be read to distinguish them from others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from logitkit.tools.call_order import OrderStates

__all__ = ["alike_tools", "common_beginning", "lengths_of_common_beginnings"]


def alike_tools(states: OrderStates, names: Sequence[str]) -> dict[str, int]:
    """Return a number for each tool, which those have in common that lead to the same states from all states.

    Args:
        states: The automaton of the order.
        names: The names of the tools.

    Example:
        >>> alike_tools(OrderStates([{1: ["a"], 0: ["b", "c"]}, {1: ["a", "b", "c"]}], [True, True]), ["a", "b", "c"])
        {'a': 0, 'b': 1, 'c': 1}
    """
    found = dict.fromkeys(names, 0)
    for row in states.moves:
        target = {name: state for state, some in row.items() for name in some}
        numbers: dict[tuple[int, int], int] = {}
        found = {n: numbers.setdefault((old, target.get(n, -1)), len(numbers)) for n, old in found.items()}
        if len(numbers) == len(names):
            break
    return found


def common_beginning(texts: Sequence[str]) -> str:
    """Return the longest text with which all texts begin.

    Example:
        >>> common_beginning(["get_time", "get_date", "get_zone"])
        'get_'
    """
    # Those between the first and the last in sorted order have it too.
    first, last = min(texts), max(texts)
    size = next((at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    return first[:size]


def lengths_of_common_beginnings(words: Mapping[str, str], alike: Mapping[str, int]) -> dict[str, int]:
    """Return for each tool how long a beginning its word has in common with the word of a tool that is not like it, at most.

    Args:
        words: A word for each tool.
        alike: For each tool, a number that alike tools have in common.

    Returns:
        The lengths, in the order of the words.

    Example:
        >>> lengths_of_common_beginnings({"b": "get_b", "a": "get_a", "c": "set_c"}, {"a": 0, "b": 1, "c": 1})
        {'a': 4, 'b': 4, 'c': 0}
    """
    order = sorted(words, key=words.__getitem__)
    found = dict.fromkeys(order, 0)
    # In sorted order, the nearest word before and the nearest one after of another kind have most in common.
    for way in (order, order[::-1]):
        size = 0
        for before, name in pairwise(way):
            shared = len(common_beginning([words[before], words[name]]))
            size = shared if alike[before] != alike[name] else min(size, shared)
            found[name] = max(found[name], size)
    return found
