"""Leave out tokens that lead to a dead end: to a state from which the tokens of the vocabulary cannot complete a text.

A text is completed by tokens, not by bytes. So a state may be live in the automaton over bytes, and a dead end for tokens.

By hand, for the pattern `a|bc` and the tokens `a`, `b` and EOS: no token begins with `c`, so the state after `b` is a dead end,
and `b` is made illegal at the start.

States are marked as alive backwards from the accepting ones. A state that falls back to another one, as in a language of banned
strings, lists only what differs, so its targets must be counted: those that it lists, plus those of the state that it falls back
to, less those that it overrides.

Invariants: in the result, each token leads to a state that is alive.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE, ByteDfa
from logitkit.compiler.bytes.nested_dfa import NestedDfa
from logitkit.compiler.bytes.special_tokens import WHOLE
from logitkit.compiler.bytes.transition_columns import Ints, TransitionColumns, starts
from logitkit.compiler.tokens.effects.whole_tokens import whole_tokens
from logitkit.compiler.tokens.tables.token_table import STAY
from logitkit.errors import ConfigurationError
from logitkit.vocabulary.ranges import expand
from logitkit.vocabulary.vocabulary import Vocabulary

# In place of the index of an exception: there is none, or it is not known.
NONE, UNKNOWN = -1, -2


class NothingSpelled(ConfigurationError):
    """The tokens of the vocabulary spell no text of a language."""


def may_have_dead_ends(dfa: ByteDfa | NestedDfa, vocabulary: Vocabulary) -> bool:
    """Whether some state may be a dead end.

    If each class of bytes has a byte that is a token by itself, a text can be completed byte by byte, so there are no dead ends.
    But no text continues after EOS, so a language that reads an EOS id inside of a text may have one.

    Args:
        dfa: The automaton; an accepting state can be reached from each of its states.
        vocabulary: The tokens.
    """
    # A class of bytes that no state reads need not be spelled.
    spelled: NDArray[np.bool_] = ~dfa.step.any(axis=0)  # type: ignore[assignment]
    spelled[dfa.byte_class[vocabulary.trie.single_bytes(dfa.special_tokens)]] = True
    ends = (dfa.special_tokens[end] for end in vocabulary.eos_ids if end in dfa.special_tokens)
    if WHOLE in dfa.special_tokens and not whole_tokens(dfa.special_tokens, vocabulary).any():
        return True
    return not spelled.all() or any((~dfa.accepting[target[target != DEAD]]).any() for target in ends)


def without_dead_ends(
    table: TransitionColumns, accepting: NDArray[np.bool_], fallback: NDArray[np.int64] | None = None
) -> tuple[TransitionColumns, NDArray[np.bool_]]:
    """Make each token illegal that leads to a dead end.

    Args:
        table: The column of every class.
        accepting: [S] bool.
        fallback: [S] the state that each state falls back to, itself at the end; None: no state falls back.

    Returns:
        The columns without these moves, and [S] bool: the states that are alive.
    """
    below = np.arange(len(accepting)) if fallback is None else fallback
    owner = np.repeat(np.arange(len(table)), table.start[1:] - table.start[:-1])
    alive = accepting
    if fallback is not None:
        # Finding what each state overrides is expensive and seldom needed: usually all states are alive whatever they override.
        alive = _alive(table, owner, None, accepting, below)
        if alive[FIRST_STATE:].all():
            return table, alive
    overridden = _overridden(table, owner, below)
    alive = _alive(table, owner, overridden, alive, below)
    target = np.where(alive[table.target], table.target, DEAD)
    default = np.where((table.default == STAY) | alive[table.default], table.default, DEAD)
    instead = np.where(overridden == NONE, default[owner], target[overridden]) if len(owner) else default[owner]
    keep = target != instead
    count = np.bincount(owner[keep], minlength=len(table))
    return TransitionColumns(default, starts(count), table.source[keep], target[keep]), alive


def _overridden(table: TransitionColumns, owner: Ints, below: Ints) -> Ints:
    """Return the exception that each exception overrides: that of the next state in its chain of fallbacks, or `NONE`."""
    states = np.int64(len(below))
    keys = owner * states + table.source
    overridden = np.full(len(owner), NONE)
    asking = np.arange(len(owner))
    at = table.source.astype(np.int64)
    while True:
        further = below[at] != at
        asking, at = asking[further], below[at[further]]
        if not len(asking):
            return overridden
        wanted = owner[asking] * states + at
        place = np.searchsorted(keys, wanted).clip(max=len(keys) - 1)
        found = keys[place] == wanted
        overridden[asking[found]] = place[found]
        asking, at = asking[~found], at[~found]


def _alive(
    table: TransitionColumns, owner: Ints, overridden: Ints | None, accepting: NDArray[np.bool_], below: Ints
) -> NDArray[np.bool_]:
    """Return the states that are alive. Each exception and each default is looked at once, when its target becomes alive.

    Each state counts the exceptions with live targets that it lists, less the live ones that it overrides. The sum over a state
    and all states that it falls back to is the number of classes that keep it alive.

    Args:
        table: The columns.
        owner: [E] the column of each exception.
        overridden: [E] the exception that each exception overrides. None: this is not known, and each is taken to be alive. Then
            only states are returned that are alive in any case.
        accepting: [S] the states that are alive to begin with.
        below: [S] the state that each state falls back to, or itself.
    """
    states = len(accepting)
    falls = below != np.arange(states)
    by_target, first_to = _grouped(table.target, states)
    lost = np.zeros(states, np.int64)
    if overridden is None:
        lost += np.where(falls, np.bincount(table.source, minlength=states), 0)
        overridden = np.where(falls[table.source], UNKNOWN, NONE)
    by_overridden, first_over = _grouped(overridden - UNKNOWN, len(owner) + 2)
    of_default = by_overridden[first_over[1] : first_over[2]]
    own = np.zeros(states, np.int64)
    from_defaults = 0
    alive = accepting.copy()
    fresh = np.flatnonzero(alive)
    while len(fresh):
        place, _ = expand(first_to[fresh], first_to[fresh + 1] - first_to[fresh])
        reached = by_target[place]
        place, _ = expand(first_over[reached + 2], first_over[reached + 3] - first_over[reached + 2])
        np.add.at(own, table.source[reached], 1)
        np.add.at(lost, table.source[by_overridden[place]], 1)
        living = np.isin(table.default, fresh) & (table.default != DEAD)
        if living.any():
            from_defaults += int(living.sum())
            np.add.at(lost, table.source[of_default[living[owner[of_default]]]], 1)
        waiting = FIRST_STATE + np.flatnonzero(~alive[FIRST_STATE:])
        count = own - lost
        total = count[waiting] + from_defaults
        rows, at = np.arange(len(waiting)), waiting
        while len(rows):
            further = falls[at]
            rows, at = rows[further], below[at[further]]
            total[rows] += count[at]
        fresh = waiting[(total > 0) | (own[waiting] > 0)]
        alive[fresh] = True
    return alive


def _grouped(number: Ints, groups: int) -> tuple[Ints, Ints]:
    """Return the places of all numbers, sorted by number, and where the places of each number begin."""
    return np.argsort(number, kind="stable"), starts(np.bincount(number, minlength=groups))
