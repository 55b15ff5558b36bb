"""The intersection of two automata over bytes: the texts that both accept.

A state of the result is a pair of states, one of each automaton, as the number `a * states of b + b`. Pairs are followed from
the pair of both starts, and then get consecutive numbers.

By hand, for `[ab]*` and `a*c?`: the start is the pair of both starts. `a` leads to this pair again. `b` is dead in the second
automaton and `c` in the first one, so the result accepts `a*`.

Invariants: a byte or special token leads somewhere only if it does in both automata. The result has no dead ends.
"""

from __future__ import annotations

import numpy as np

from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE, ByteDfa
from logitkit.compiler.bytes.concatenation import common_byte_classes, trimmed
from logitkit.compiler.bytes.special_tokens import free_states, special_token_targets, special_tokens_of
from logitkit.limits import Limits


def intersect_bytes(a: ByteDfa, b: ByteDfa, limits: Limits) -> ByteDfa:
    """Build the product of two automata, without fallbacks.

    Raises:
        PatternTooLarge: A limit is exceeded.
    """
    byte_class, (own_a, own_b) = common_byte_classes([a.byte_class, b.byte_class], b"")
    special_tokens = special_tokens_of(a, b)
    # The columns of special tokens follow those of the bytes.
    step_a, step_b = (
        np.column_stack(
            [part.step[:, own].astype(np.int64), *(special_token_targets(part, token) for token in special_tokens)]
        )
        for part, own in ((a, own_a), (b, own_b))
    )
    base = len(b.step)
    known = np.zeros(0, np.int64)
    fresh = np.array([a.start * base + b.start])
    while len(fresh):
        known = np.union1d(known, fresh)
        limits.check_states(len(known))
        limits.check_work(len(known) * step_a.shape[1] // 4)
        in_a, in_b = step_a[fresh // base], step_b[fresh % base]
        reached = np.unique((in_a * base + in_b)[(in_a != DEAD) & (in_b != DEAD)])
        fresh = np.setdiff1d(reached, known)
    x, y = known // base, known % base
    in_a, in_b = step_a[x], step_b[y]
    number = FIRST_STATE + np.searchsorted(known, in_a * base + in_b)
    step = np.zeros((FIRST_STATE + len(known), step_a.shape[1]), np.int32)
    step[FIRST_STATE:] = np.where((in_a != DEAD) & (in_b != DEAD), number, DEAD)
    none = np.zeros(FIRST_STATE, bool)
    accepting = np.concatenate([none, a.accepting[x] & b.accepting[y]])
    free = np.concatenate([none, free_states(a)[x] & free_states(b)[y]])
    start = FIRST_STATE + int(np.searchsorted(known, a.start * base + b.start))
    count = len(own_a)
    targets = {token: step[:, count + i].astype(np.int64) for i, token in enumerate(special_tokens)}
    return trimmed(ByteDfa(step[:, :count], byte_class, accepting, start, free=free, special_tokens=targets), limits)
