"""Special tokens in automata over bytes: where a token without text leads from each state.

A language may name a special token, such as `<call>`. It is a symbol of its own, like a byte. All other ids without text are
illegal, or they are *free* in a state: then they are legal and change nothing, as in free text.

By hand, for any text and then the special token 7: state 2 is free. Token 7 leads from state 2 to state 3, in which the text is
complete. Another id without text leads from state 2 to state 2, and is dead in state 3.

Invariants: a special token has a class of its own, after the classes of all other tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import DEAD, ByteDfa
from logitkit.compiler.bytes.nested_dfa import NestedDfa
from logitkit.compiler.bytes.transition_columns import Ints, TransitionColumns, starts

__all__ = [
    "OTHERS",
    "WHOLE",
    "SpecialTokens",
    "free_states",
    "special_token_targets",
    "special_tokens_of",
    "with_special_tokens",
    "without_ends",
]

SpecialTokens: TypeAlias = Mapping[int, NDArray[np.int64]]

# In place of an id: all other ids without text. An automaton has either this symbol or free states.
OTHERS = -1

# In place of an id: all other ids with text, each as a whole, whatever its text is.
WHOLE = -2


def free_states(dfa: ByteDfa | NestedDfa) -> NDArray[np.bool_]:
    """Return [S] the states in which ids without text are free."""
    return np.zeros(len(dfa.step), bool) if dfa.free is None else dfa.free


def special_token_targets(dfa: ByteDfa | NestedDfa, token: int) -> NDArray[np.int64]:
    """Return [S] where a token without text leads, whether or not it is a special token of the automaton."""
    found = dfa.special_tokens.get(token, dfa.special_tokens.get(OTHERS))
    return np.where(free_states(dfa), np.arange(len(dfa.step)), DEAD) if found is None else found


def special_tokens_of(*parts: ByteDfa | NestedDfa) -> list[int]:
    """Return the special tokens of any part, ascending."""
    return sorted({token for part in parts for token in part.special_tokens})


def with_special_tokens(
    class_of: Ints, transitions: TransitionColumns, special_tokens: SpecialTokens, node_of_id: NDArray[np.int32]
) -> tuple[Ints, TransitionColumns]:
    """Give each special token a class of its own, after all others.

    Args:
        class_of: [V] class of each token.
        transitions: The column of each class.
        special_tokens: Where each special token leads.
        node_of_id: [V] the node of each token in the trie of texts; 0 for those without text.
    """
    if not special_tokens:
        return class_of, transitions
    has_text = node_of_id > 0
    class_of = class_of.astype(np.int32)
    # `OTHERS`, which stands for many ids, comes first, so that special tokens with an id of their own overwrite it.
    special_tokens = dict(sorted(special_tokens.items()))
    for number, token in enumerate(special_tokens, len(transitions)):
        class_of[~has_text if token == OTHERS else token] = number
    if any(token >= 0 and has_text[token] for token in special_tokens):
        transitions = _of_tokens(class_of, transitions)
    return class_of, TransitionColumns.joined([transitions, *map(_moving, special_tokens.values())])


def without_ends(
    special_tokens: SpecialTokens, accepting: NDArray[np.bool_], free: NDArray[np.bool_] | None, eos_ids: Sequence[int]
) -> tuple[SpecialTokens, dict[int, NDArray[np.bool_]]]:
    """Take the EOS ids out of special tokens.

    An EOS id ends the sequence, so as a special token it is legal only where it completes the text. If all EOS ids are special
    tokens, then a text that is complete without any of them must still end, so all of them are legal there. In states in which
    ids without text are free, this does not hold: there, an id that leads nowhere is banned.

    Args:
        special_tokens: Where each special token leads.
        accepting: [S] the states in which a text is complete.
        free: [S] the states in which ids without text are free; None: there are none.
        eos_ids: The ids that end a sequence.

    Returns:
        The special tokens, in which EOS ids lead nowhere; and for each EOS id among them, [S] the states in which it is legal.
    """
    ends = {end: accepting[special_tokens[end]] for end in eos_ids if end in special_tokens}
    if ends and len(ends) == len(eos_ids):
        without_end = accepting & ~np.any(list(ends.values()), axis=0)
        if free is not None:
            without_end &= ~free
        ends = {end: found | without_end for end, found in ends.items()}
    return {**special_tokens, **{end: np.zeros(len(accepting), np.int64) for end in ends}}, ends


def without(dfa: ByteDfa, tokens: Iterable[int]) -> SpecialTokens:
    """Return the special tokens of an automaton, and some tokens that are dead in every state."""
    return {**dfa.special_tokens, **{token: np.zeros(len(dfa.step), np.int64) for token in tokens}}


def _of_tokens(class_of: Ints, transitions: TransitionColumns) -> TransitionColumns:
    """Return columns in which classes without a token are dead, so that they keep no state alive."""
    used = np.bincount(class_of, minlength=len(transitions))[: len(transitions)] > 0
    count = np.diff(transitions.start)
    keep = np.repeat(used, count)
    default = np.where(used, transitions.default, DEAD)
    return TransitionColumns(
        default, starts(np.where(used, count, 0)), transitions.source[keep], transitions.target[keep]
    )


def _moving(target: NDArray[np.int64]) -> TransitionColumns:
    source = np.flatnonzero(target != DEAD)
    return TransitionColumns(np.zeros(1, np.int64), np.array([0, len(source)]), source, target[source])
