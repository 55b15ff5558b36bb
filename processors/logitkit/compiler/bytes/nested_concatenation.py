"""The concatenation of a finite automaton and one that nests.

By hand, for the text `<json>` and then nested lists: the automaton of the text has the states 2 to 8, and that of lists has the
states 2 to 6. The `>` led to state 8, in which the text is complete. Now it leads to the start of the lists, whose states have
the numbers 9 to 13. Calls, ends and frames keep their numbers.

Invariants: no text of the first part is a prefix of another one, so the end of the first part is known when it is reached.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE, ByteDfa
from logitkit.compiler.bytes.concatenation import common_byte_classes
from logitkit.compiler.bytes.nested_dfa import NestedDfa
from logitkit.compiler.bytes.nested_step import NestedStep
from logitkit.compiler.bytes.special_tokens import free_states, special_token_targets, special_tokens_of
from logitkit.limits import Limits

__all__ = ["concatenate_nested", "only_the_empty_text"]


def only_the_empty_text() -> ByteDfa:
    """Return the automaton of the empty text, which is put after a first part if the second part is not known yet."""
    live = np.array([False, False, True])
    return ByteDfa(np.zeros((FIRST_STATE + 1, 1), np.int32), np.zeros(256, np.int64), live, FIRST_STATE)


def concatenate_nested(first: ByteDfa, second: NestedDfa, limits: Limits) -> NestedDfa:
    """Return the automaton of a text of `first` and a text of `second`.

    Args:
        first: The first part. None of its texts is empty or a prefix of another one.
        second: The part after it.
        limits: Bounds on the result.

    Raises:
        PatternTooLarge: There are more states than allowed.
    """
    shift = len(first.step) - FIRST_STATE
    states = second.states + shift
    limits.check_states(states)
    byte_class, (own, others) = common_byte_classes([first.byte_class, second.byte_class], b"")
    limits.check_work(states * len(own) // 4)
    below = second.step[FIRST_STATE:, others]
    # A byte that completes the first part leads to the start of the second one.
    leads = np.where(first.accepting, shift + second.start, np.arange(len(first.step)))
    step = np.concatenate([leads.astype(np.int32)[first.step[:, own]], NestedStep.shifted(below, shift)])
    need = np.concatenate([np.full(len(first.step), second.need[second.start]), second.need[FIRST_STATE:]])
    need[:FIRST_STATE] = 0
    return NestedDfa(
        step,
        byte_class,
        _joined(np.zeros(len(first.step), bool), second.accepting),
        first.start,
        second.entry + shift,
        second.frame,
        np.where(second.return_state == DEAD, DEAD, second.return_state + shift),
        need,
        _joined(free_states(first), free_states(second)),
        {
            token: _targets(leads[special_token_targets(first, token)], special_token_targets(second, token), shift)
            for token in special_tokens_of(first, second)
        },
    )


def _targets(first: NDArray[np.int64], second: NDArray[np.int64], shift: int) -> NDArray[np.int64]:
    return np.concatenate([first, np.where(second == DEAD, DEAD, second + shift)[FIRST_STATE:]])


def _joined(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> NDArray[np.bool_]:
    return np.concatenate([first, second[FIRST_STATE:]])
