"""One automaton over tokens after another: text or tokens up to a marker, and then what follows the marker.

`joined_tables` puts the tables together. Here, the actions on the stack are added, if the second automaton has a stack. All
actions of the second automaton stay the same. New ones are needed only for tokens that end the marker and continue after it.

By hand: the token `</think>[[` ends the marker, and its suffix `[[` opens two lists. So it gets a new action that pushes two
frames.

Invariants: the actions of the second automaton come first, and then the new ones.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import FIRST_STATE
from logitkit.compiler.bytes.transition_columns import Ints
from logitkit.compiler.tokens.completion.min_tokens_to_finish import UNREACHABLE
from logitkit.compiler.tokens.linking.joined_tables import Ends, joined
from logitkit.compiler.tokens.markers.before_marker import BeforeMarker, before_token
from logitkit.compiler.tokens.markers.suffix_walk import Reached, reached_by
from logitkit.compiler.tokens.tables.counted_state import MOST
from logitkit.compiler.tokens.tables.stack_actions import StackActions
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.limits import Limits

__all__ = ["concatenated", "until_token"]


def until_token(first: TokenAutomaton, marker: int, second: TokenAutomaton, limits: Limits) -> TokenAutomaton | None:
    """Build the automaton of a sequence of `first`, then a token as marker, then a sequence of `second`.

    Args:
        first: The part before the token, without a stack. The token is legal where this part accepts.
        marker: The id of the token. Its first occurrence is the marker.
        second: The part after the token, over the same vocabulary.
        limits: Bounds on the result.

    Returns:
        The automaton, or None if no sequence of tokens is left.

    Raises:
        PatternTooLarge: A limit is exceeded.
    """
    assert not first.has_stacks
    # Costs are computed from rows, so without fallbacks if there are any.
    before = before_token(first, marker, limits, second.nesting.cost is None)
    return None if before is None else concatenated(before, second, limits)


def concatenated(
    before: BeforeMarker, second: TokenAutomaton, limits: Limits, bytes_of: NDArray[np.int64] | None = None
) -> TokenAutomaton:
    """Build the automaton of the part before a marker, the marker, and the part after it.

    Args:
        before: The part before the marker, and the marker. If the second part has costs, no state of this part falls back.
        second: The part after the marker, over the same vocabulary.
        limits: Bounds on the result.
        bytes_of: [256] a token for each byte, needed if the marker is a text.

    Raises:
        PatternTooLarge: A limit is exceeded.
    """
    start = Reached(second.start, (), 0)
    found = [start] if bytes_of is None else reached_by(before.token_suffixes, second, bytes_of)
    number = {start: 0}
    of = np.array([-1 if reached is None else number.setdefault(reached, len(number)) for reached in found])
    # New actions come after those of the second part.
    made = [reached for reached in number if reached.frames or reached.characters]
    action = {reached: second.targets.action(i) for i, reached in enumerate(made, len(second.nesting.state))}
    ends = Ends(of, np.array([action.get(reached, reached.state) for reached in number]))
    # No token has the class of a suffix, so `joined` would leave these classes out.
    suffix_classes = np.unique(second.nesting.rest[second.nesting.rest > 0]).astype(np.int64)
    automaton, classes = joined(before, second, ends, suffix_classes, limits)
    automaton = replace(automaton, dropped=second.dropped, ignored=second.ignored)
    if not second.has_stacks:
        return automaton
    rest_of = np.zeros(second.classes, np.int64)
    rest_of[suffix_classes] = classes + np.arange(len(suffix_classes))
    nesting = _nesting(second.nesting, before.states - FIRST_STATE, rest_of, made)
    if second.nesting.cost is not None:
        costs = [int(second.cost[[reached.state, *reached.frames]].sum()) for reached in number]
        own = _costs(before, automaton, ends.target + before.states - FIRST_STATE, costs)
        nesting = replace(nesting, cost=np.append(own, second.nesting.cost[FIRST_STATE:]).astype(np.int32))
    return replace(automaton, nesting=nesting)


def _costs(before: BeforeMarker, automaton: TokenAutomaton, ends: Ints, costs: list[int]) -> NDArray[np.int64]:
    """Return the least number of tokens to the end from each state before the marker; see `min_tokens_to_finish`.

    Args:
        before: The part before the marker, and the marker.
        automaton: Both parts.
        ends: The targets of tokens that end the marker.
        costs: How many tokens are needed after each of these targets.
    """
    row = slice(0, int(automaton.row_start[before.states]))
    target = automaton.row_target[row].astype(np.int64)
    cost = np.full(max(before.states, int(target.max()) + 1), UNREACHABLE)
    for end, needed in zip(ends.tolist(), costs, strict=True):
        if end < len(cost):
            cost[end] = needed
    filled = np.flatnonzero(np.diff(automaton.row_start[: before.states + 1]))
    first = automaton.row_start[filled]
    while True:
        least = np.minimum.reduceat(cost[target] + 1, first)
        if (least >= cost[filled]).all():
            cost[:FIRST_STATE] = 0
            return cost[: before.states]
        cost[filled] = np.minimum(least, cost[filled])


def _nesting(old: StackActions, shift: int, rest_of: Ints, made: list[Reached]) -> StackActions:
    """Return the actions of the second part with the numbers of the joined automaton, and new ones; without costs."""
    nothing = np.zeros(len(made), np.int32)
    width = max(old.pushed.shape[1], *(len(reached.frames) for reached in made), 0)
    more = [[frame + shift for frame in reached.frames] + [0] * (width - len(reached.frames)) for reached in made]
    known = np.where(old.pushed > 0, old.pushed + shift, 0)
    known = np.pad(known, ((0, 0), (0, width - known.shape[1])))
    counting = old.counting
    if counting is not None:
        added = np.array([reached.characters for reached in made], np.int32)
        counting = np.append(counting, np.stack([nothing, nothing + np.int32(MOST), nothing, added]), axis=1)
    return replace(
        old,
        state=np.append(old.state + shift, [reached.state + shift for reached in made]).astype(np.int32),
        pushed=np.append(known, np.array(more, np.int32).reshape(len(made), width), axis=0).astype(np.int32),
        rest=np.append(rest_of[old.rest], nothing).astype(np.int32),
        height=np.append(old.height, [len(reached.frames) for reached in made]).astype(np.int32),
        cost=None,
        counting=counting,
    )
