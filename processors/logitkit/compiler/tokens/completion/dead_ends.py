"""Remove the states from which the vocabulary cannot complete the language."""

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

# In place of an exception: there is none, or it is not known.
NONE, UNKNOWN = -1, -2


class NothingSpelled(ConfigurationError):
    """The tokens of the vocabulary spell no text of a language."""


def may_have_dead_ends(dfa: ByteDfa | NestedDfa, vocabulary: Vocabulary) -> bool:
    """Whether some state may be left without a way to the end.

    There is none if each class of bytes has a byte that is a token by itself: the text can then be completed byte by byte. But no
    text goes on after EOS.

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
    """Send to death every token after which no tokens lead to an accepting state.

    Needed where the tokens cannot spell every text (a vocabulary without some byte, an automaton over token ids): a row that took
    such a token would find nothing legal later.

    Args:
        table: The column of every class.
        accepting: [S] bool.
        fallback: [S] the state that does what each state does not list, itself at the end; None: none does.

    Returns:
        The columns without such moves, and [S] bool: the states from which an accepting state is reached.
    """
    below = np.arange(len(accepting)) if fallback is None else fallback
    owner = np.repeat(np.arange(len(table)), table.start[1:] - table.start[:-1])
    alive = accepting
    if fallback is not None:
        # It is expensive to find what each state overrides, and seldom needed: as a rule each is alive whatever it overrides.
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
    """Return for each exception the one that would hold without it: that of the state that it falls back to, or `NONE`."""
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
    """Return the states from which an accepting one is reached: backwards from these, each exception and default looked at once.

    Each state counts the living targets that it lists, less those of the exceptions that it overrides; what it and all that it
    falls back to count together is how many classes keep it alive.

    Args:
        table: The columns.
        owner: [E] the column of each exception.
        overridden: [E] what each exception overrides. None: that is not known, so take it to be alive; states that are alive even
            then are returned.
        accepting: [S] states that are alive to begin with.
        below: [S] the state that each falls back to, itself where it does not.
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
    """Return the places of each number, one number after another, and where each one's begin."""
    return np.argsort(number, kind="stable"), starts(np.bincount(number, minlength=groups))
