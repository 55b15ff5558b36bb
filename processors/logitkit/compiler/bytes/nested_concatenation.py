"""A finite automaton, and behind it one that nests."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE, ByteDfa
from logitkit.compiler.bytes.concatenation import joint_byte_classes
from logitkit.compiler.bytes.letters import free_states, letter_of, tokens_of
from logitkit.compiler.bytes.nested_dfa import NestedDfa
from logitkit.limits import Limits

__all__ = ["behind", "beside", "only_the_empty_text", "start_beside"]


def only_the_empty_text() -> ByteDfa:
    """Return the automaton of the empty text: what stands behind a first part until a second one takes its place."""
    live = np.array([False, False, True])
    return ByteDfa(np.zeros((FIRST_STATE + 1, 1), np.int32), np.zeros(256, np.int64), live, FIRST_STATE)


def behind(first: ByteDfa, second: NestedDfa, limits: Limits) -> NestedDfa:
    """Return the automaton of a text of `first` and a text of `second`.

    Args:
        first: What comes first; no text of it is the beginning of another one, and none is empty.
        second: What comes behind it.
        limits: Bounds on the result.

    Raises:
        PatternTooLarge: There are more states than allowed.
    """
    both = beside(first, second, limits)
    ends = np.zeros(both.states + both.calls + len(both.behind), bool)
    ends[: len(first.step)] = first.accepting
    both.step[ends[both.step]] = _shift(first) + second.start
    for target in both.letters.values():
        target[ends[target]] = _shift(first) + second.start
    return both


def beside(first: ByteDfa, second: NestedDfa, limits: Limits) -> NestedDfa:
    """Return the automaton that begins with `first`, whose states keep their numbers, and has that of `second` beside it.

    No byte or letter leads from one to the other, and only texts of the second may end.

    Raises:
        PatternTooLarge: There are more states than allowed.
    """
    shift = _shift(first)
    states = second.states + shift
    limits.check_states(states)
    byte_class, (own, others) = joint_byte_classes([first.byte_class, second.byte_class], b"")
    limits.check_work(states * len(own) // 4)
    below = second.step[FIRST_STATE:, others]
    step = np.concatenate([first.step[:, own], np.where(below == DEAD, DEAD, below + shift)])
    need = np.concatenate([np.full(len(first.step), second.need[second.start]), second.need[FIRST_STATE:]])
    need[:FIRST_STATE] = 0
    return NestedDfa(
        step,
        byte_class,
        _joined(np.zeros(len(first.step), bool), second.accepting),
        first.start,
        second.entry + shift,
        second.frame,
        np.where(second.behind == DEAD, DEAD, second.behind + shift),
        need,
        _joined(free_states(first), free_states(second)),
        {token: _letter(first, second, token) for token in tokens_of(first, second)},
    )


def start_beside(first: ByteDfa, second: NestedDfa) -> int:
    """Return the number that the start of `second` has beside `first`."""
    return _shift(first) + second.start


def _letter(first: ByteDfa, second: NestedDfa, token: int) -> NDArray[np.int64]:
    behind = letter_of(second, token)[FIRST_STATE:]
    return np.concatenate([letter_of(first, token), np.where(behind == DEAD, DEAD, behind + _shift(first))])


def _shift(first: ByteDfa) -> int:
    return len(first.step) - FIRST_STATE


def _joined(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> NDArray[np.bool_]:
    return np.concatenate([first, second[FIRST_STATE:]])
