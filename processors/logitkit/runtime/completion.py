"""A shortest completion of a text, in tokens.

Places are searched by the number of tokens that lead to them. There may be too many for that:

- Where texts nest, the search stops, and the costs of `closing` lead to a completion.
- Where a row remembers items, each item is another place: after `["a",` the row is not where it is after `["b",`. So the search
  goes first to where the fewest tokens are needed if no item were used up. By hand, for at least three strings that differ: after
  `["",` two more items and the bracket are needed, and `"",` is as near to the end as `"a",` is, but `""` is used up, so the
  search goes on at `"a`, and then at `"aa`.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.tokens.tables.counted_state import StateAndCount
from logitkit.compiler.tokens.tables.mask_key import NO_LIMIT
from logitkit.compiler.tokens.tables.packed_stacks import frames_of
from logitkit.errors import LogitkitError
from logitkit.runtime.compiled_language import CompiledLanguage
from logitkit.runtime.walk import UsableTokens, Walk

__all__ = ["completion_of"]

# Texts nest in more ways than can be searched. Beyond this many, the costs of closing lead to a completion.
MOST_WALKS = 5_000
# Where items must differ, nothing but the search leads to a completion. Sets of sets have 11,000 places.
MOST_REMEMBERING = 12_000


def completion_of(
    constraint: CompiledLanguage,
    history: Sequence[int],
    left: int = NO_LIMIT,
    allowed: NDArray[np.bool_] | None = None,
) -> tuple[int, ...] | None:
    """Return the ids of a shortest legal continuation that completes a text, without EOS.

    If the text can go on in too many ways, because it nests or because its items must differ, the continuation may be a few
    tokens longer than needed.

    Args:
        constraint: The constraint.
        history: The tokens of the text so far.
        left: How many tokens the whole text may have, or -1 if they are not counted.
        allowed: [V] bool, the tokens that may be used. None: all.

    Returns:
        Token ids, or None if there are none.
    """
    start = Walk.start(constraint.automaton, left).after(*history)
    usable = UsableTokens.of(constraint.automaton, allowed)
    if constraint.automaton.remembers is not None:
        return _nearest_first(start, usable, is_restricted=allowed is not None)
    found = _searched(start, usable)
    if found is not None or not constraint.automaton.has_stacks:
        return found
    # The automaton that closes texts knows how many tokens each place needs.
    closing: Any = constraint if constraint.automaton.nesting.cost is not None else _closing(constraint)
    walk = closing and Walk.start(closing.automaton).after(*history)
    return _by_cost(walk, UsableTokens.of(closing.automaton, allowed)) if walk and walk.is_live else None


def _closing(constraint: Any) -> Any:
    fields = getattr(constraint, "__dataclass_fields__", {})
    if "closing" not in fields or not fields["closing"].init:
        return None
    with warnings.catch_warnings():
        # The constraint gave its warnings when it was created.
        warnings.simplefilter("ignore")
        try:
            return replace(constraint, closing=True)
        except LogitkitError:
            # Where tokens are counted, long strings and arrays have states for each length, which may be too many.
            return None


def _searched(walk: Walk, usable: UsableTokens) -> tuple[int, ...] | None:
    """Search the places by the number of tokens that lead to them."""
    came_from: dict[Hashable, tuple[Hashable, int] | None] = {walk.key: None}
    todo = deque([walk] if walk.is_live else [])
    while todo and (len(came_from) < MOST_WALKS or not walk.automaton.has_stacks):
        at = todo.popleft()
        if at.may_end():
            return _path(came_from, at.key)
        for after, token in at.successors(usable):
            if after.key not in came_from:
                came_from[after.key] = (at.key, token)
                todo.append(after)
    return None


def _nearest_first(walk: Walk, usable: UsableTokens, *, is_restricted: bool) -> tuple[int, ...] | None:
    """Search first the places from which the fewest tokens would be needed if no item were used up."""
    needed = _needed(walk.without_memory(), usable)
    found = _nearest(walk, usable, needed, Walk.successors)
    # With some tokens only, a text may lead nowhere although another one that leads to the same state does not. By hand, if the
    # items are `[ab][cd]`, `"ac"` is used and `d` is not usable: `"a` leads nowhere, and `"b` leads to `"bc"`.
    is_missed = found is None and is_restricted
    return _nearest(walk, usable, needed, Walk.all_successors) if is_missed else found


def _nearest(
    walk: Walk,
    usable: UsableTokens,
    needed: Mapping[Hashable, int],
    successors: Callable[[Walk, UsableTokens], list[tuple[Walk, int]]],
) -> tuple[int, ...] | None:
    """Search by how many tokens are needed from each place, going on to the places that `successors` returns."""
    came_from: dict[Hashable, tuple[Hashable, int] | None] = {walk.key: None}
    order, todo = count(), list[tuple[int, int, Walk]]()
    if walk.is_live:
        heappush(todo, (0, next(order), walk))
    while todo and len(came_from) < MOST_WALKS:
        *_, at = heappop(todo)
        if at.may_end():
            return _path(came_from, at.key)
        for after, token in successors(at, usable):
            if after.key not in came_from:
                came_from[after.key] = (at.key, token)
                heappush(todo, (needed.get(after.without_memory().key, MOST_REMEMBERING), next(order), after))
    return None


def _needed(walk: Walk, usable: UsableTokens) -> Mapping[Hashable, int]:
    """Return how many more tokens complete a text, for each place that can be reached from one if no item is used up."""
    before: dict[Hashable, list[Hashable]] = {walk.key: []}
    found: dict[Hashable, int] = {}
    todo = deque([walk] if walk.is_live else [])
    while todo and len(before) < MOST_REMEMBERING:
        at = todo.popleft()
        if at.may_end():
            found[at.key] = 0
        for after, _ in at.successors(usable):
            if after.key not in before:
                before[after.key] = []
                todo.append(after)
            before[after.key].append(at.key)
    ends = deque(found)
    while ends:
        end = ends.popleft()
        for key in before[end]:
            if key not in found:
                found[key] = found[end] + 1
                ends.append(key)
    return found


def _path(came_from: dict[Hashable, tuple[Hashable, int] | None], end: Hashable) -> tuple[int, ...]:
    tokens = []
    while (step := came_from[end]) is not None:
        end, token = step
        tokens.append(token)
    return tuple(reversed(tokens))


def _by_cost(walk: Walk, usable: UsableTokens) -> tuple[int, ...] | None:
    """Follow the costs of closing, which may be a token more than needed."""
    tokens: list[int] = []
    while True:
        cost, ((state, stack), *_) = walk.automaton.cost, walk.row.configurations
        needed = int(cost[StateAndCount.state(state)] + cost[[*frames_of(stack)]].sum())
        walk = walk.with_left(needed)
        if not needed and walk.may_end():
            return tuple(tokens)
        following = walk.successors(usable)
        if not following:
            return None
        walk, token = following[0]
        tokens.append(token)
