"""A shortest completion of a text, in tokens."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.tokens.tables.counted_state import StateAndCount
from logitkit.compiler.tokens.tables.mask_key import NO_LIMIT
from logitkit.compiler.tokens.tables.packed_stacks import Packed, frames_of
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.errors import LogitkitError
from logitkit.runtime.compiled_language import CompiledLanguage
from logitkit.runtime.walk import Walk

__all__ = ["completion_of"]

# Texts nest in more ways than can be searched. Beyond this many, the costs of closing lead to a completion.
MOST_WALKS = 5_000


def completion_of(
    constraint: CompiledLanguage,
    history: Sequence[int],
    left: int = NO_LIMIT,
    allowed: NDArray[np.bool_] | None = None,
) -> tuple[int, ...] | None:
    """Return the ids of a shortest legal continuation that completes a text, without EOS.

    If the text can go on in too many ways, because it nests, the continuation may be a few tokens longer than needed.

    Args:
        constraint: The constraint.
        history: The tokens of the text so far.
        left: How many tokens the whole text may have, or -1 if they are not counted.
        allowed: [V] bool, the tokens that may be used. None: all.

    Returns:
        Token ids, or None if there are none.
    """
    found = _searched(
        Walk.start(constraint.automaton, left).after(*history), _token_of_class(constraint.automaton, allowed)
    )
    if found is not None or not constraint.automaton.has_stacks:
        return found
    # The automaton that closes texts knows how many tokens each place needs.
    closing: Any = constraint if constraint.automaton.nesting.cost is not None else _closing(constraint)
    walk = closing and Walk.start(closing.automaton).after(*history)
    return _by_cost(walk, _token_of_class(closing.automaton, allowed)) if walk and walk.is_live else None


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


def _token_of_class(automaton: TokenAutomaton, allowed: NDArray[np.bool_] | None) -> NDArray[np.int64]:
    """Return [C] the least allowed id of each class, -1 where there is none."""
    token_of_class = np.full(automaton.classes, -1, np.int64)
    ids = np.arange(len(automaton.class_of)) if allowed is None else np.flatnonzero(allowed[: len(automaton.class_of)])
    ids = ids[~np.isin(ids, automaton.eos_ids)][::-1]
    token_of_class[automaton.class_of[ids]] = ids
    return token_of_class


def _searched(walk: Walk, token_of_class: NDArray[np.int64]) -> tuple[int, ...] | None:
    """Search the places by the number of tokens that lead to them."""
    came_from: dict[tuple[int, Packed], tuple[tuple[int, Packed], int] | None] = {walk.key: None}
    todo = deque([walk] if walk.is_live else [])
    while todo and (len(came_from) < MOST_WALKS or not walk.automaton.has_stacks):
        at = todo.popleft()
        if at.may_end():
            return _path(came_from, at.key)
        for after, token in at.successors(token_of_class):
            if after.key not in came_from:
                came_from[after.key] = (at.key, token)
                todo.append(after)
    return None


def _path(
    came_from: dict[tuple[int, Packed], tuple[tuple[int, Packed], int] | None], end: tuple[int, Packed]
) -> tuple[int, ...]:
    tokens = []
    while (step := came_from[end]) is not None:
        end, token = step
        tokens.append(token)
    return tuple(reversed(tokens))


def _by_cost(walk: Walk, token_of_class: NDArray[np.int64]) -> tuple[int, ...] | None:
    """Follow the costs of closing, which may be a token more than needed."""
    tokens: list[int] = []
    while True:
        cost = walk.automaton.cost
        needed = int(cost[StateAndCount.state(walk.state)] + cost[[*frames_of(walk.stack)]].sum())
        walk = Walk(walk.automaton, walk.state, walk.stack, needed)
        if not needed and walk.may_end():
            return tuple(tokens)
        following = walk.successors(token_of_class)
        if not following:
            return None
        walk, token = following[0]
        tokens.append(token)
