"""Which objects and arrays of a schema may begin in the same place: they should all be called, or all written in place.

Let one branch of an `anyOf` say that `"a"` is any value, and another one that it is an object with `"b"`. Any value is called. If
the object is called too, one call reads both, and its end says which of them the text belongs to. Inside of it, the value of
`"b"` and any value begin together, and so on.

The answer is a hint. Names of objects are compared without regard to their order, and patterns of names are taken to overlap, so
it may name parts that never meet. A part that it misses is found later, and written in place
(`compiler.nested_grammars.unfolding`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator

from logitkit.budget import spend
from logitkit.json_schema.conjunction import Conjunction
from logitkit.json_schema.parts import Key, Trimmed
from logitkit.json_schema.plan import Block, Move, Names
from logitkit.patterns.syntax import Empty

__all__ = ["parts_together"]

# The most sets of parts, and the most sets of states of arrays, that are looked at.
MOST_SETS = 2_000

Keys = frozenset[Key]
# Conjunctions that values satisfy, and blocks of items.
Values = Iterable[Conjunction | Block]


def parts_together(roots: Iterable[Key], trimmed: Trimmed) -> dict[Keys, bool]:
    """Return the sets of two or more parts that may begin in the same place, and whether they do so as items of several arrays.

    Args:
        roots: The parts of the whole value.
        trimmed: All parts.
    """
    found: dict[Keys, bool] = dict.fromkeys((frozenset([root]) for root in roots), False)
    todo = list(found)
    while todo and len(found) < MOST_SETS:
        keys = todo.pop()
        are_items = next(iter(keys)).opening != "{"
        for values in _inside(keys, trimmed):
            by_opening: dict[str, set[Key]] = {}
            for key in trimmed.keys_of(values):
                by_opening.setdefault(key.opening, set()).add(key)
            for some in map(frozenset, by_opening.values()):
                if some not in found:
                    todo.append(some)
                found[some] = found.get(some, False) or are_items
    return {keys: are_items for keys, are_items in found.items() if len(keys) > 1}


def _inside(keys: Keys, trimmed: Trimmed) -> Iterator[Values]:
    """Return the sets of values that may begin in one place inside of parts that begin together."""
    rows = [row for key in keys for row in trimmed.live[key][0]]
    moves = [move for row in rows for move in row]
    spend(len(moves) // 4)
    if len(keys) == 1 and not any(map(_is_ambiguous, rows)):
        yield from ([value] for value in dict.fromkeys(move.value for move in moves) if value is not None)
    elif next(iter(keys)).opening == "{":
        yield from _of_names(moves)
    else:
        yield from _of_items(keys, trimmed)


def _of_items(keys: Keys, trimmed: Trimmed) -> Iterator[Values]:
    """Return the values of items that may stand in one place of several arrays."""
    todo = [frozenset([(key, 0) for key in keys])]
    seen = {*todo}
    while todo and len(seen) < MOST_SETS:
        states = todo.pop()
        moves = [(key, move) for key, state in states for move in trimmed.live[key][0][state]]
        spend(len(moves))
        values = [move.value for _, move in moves if move.value is not None and not isinstance(move.value, Block)]
        yield values
        blocks = [move.value for _, move in moves if isinstance(move.value, Block)]
        after_text = [(key, move.target) for key, move in moves if move.value is None]
        after_text += [(key, 0) for key in trimmed.keys_of(blocks)]
        after_item = [(key, move.target) for key, move in moves if move.value is not None]
        for following in (frozenset(after_text), frozenset(after_item)):
            if following and following not in seen:
                seen.add(following)
                todo.append(following)


def _is_ambiguous(row: list[Move]) -> bool:
    """Whether a text may take several moves of a state."""
    if len(row) < 2:
        return False
    if sum(move.value is None and move.names is None and isinstance(move.text, Empty) for move in row) > 1:
        return True
    named = [move.names for move in row if move.value is not None and not isinstance(move.value, Block)]
    return len({*named}) < len(named)


def _of_names(moves: list[Move]) -> Iterator[Values]:
    """Return the values of members with one name, and those of members that any names of a set have."""
    listed: dict[str, dict[Conjunction, None]] = {}
    others: dict[tuple[Names, Conjunction], None] = {}
    todo = [*moves]
    for _, value, _, names in todo:
        if isinstance(value, Block):
            todo.extend(value.run.counted[0])
        elif value is not None and isinstance(names, Names):
            others[names, value] = None
        elif value is not None and isinstance(names, str):
            listed.setdefault(names, {})[value] = None
    yield [value for _, value in others]
    # Thousands of branches take the same names, each without its own ones.
    alike: dict[tuple[object, Conjunction], list[Names]] = {}
    for names, value in others:
        alike.setdefault((names.strings.key, value), []).append(names)
    excluded = {key: Counter([name for names in some for name in names.excluded]) for key, some in alike.items()}
    spend(sum(map(len, excluded.values())))
    for text, values in listed.items():
        name = json.loads(text)
        spend(len(alike))
        holding = [
            key[1] for key, some in alike.items() if excluded[key][name] < len(some) and some[0].strings.contains(name)
        ]
        yield [*values, *holding]
