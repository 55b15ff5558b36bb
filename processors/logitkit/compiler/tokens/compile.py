"""Compile an automaton over bytes into one over the tokens of a vocabulary."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE, ByteDfa
from logitkit.compiler.bytes.special_tokens import with_special_tokens, without_ends
from logitkit.compiler.bytes.transition_columns import TransitionColumns
from logitkit.compiler.tokens.completion.dead_ends import NothingSpelled, may_have_dead_ends, without_dead_ends
from logitkit.compiler.tokens.effects.token_classes import token_classes
from logitkit.compiler.tokens.effects.whole_tokens import with_wholes
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton, complete_with
from logitkit.compiler.tokens.tables.token_table import STAY
from logitkit.errors import ConfigurationError
from logitkit.limits import Limits
from logitkit.vocabulary.vocabulary import Vocabulary


def token_automaton(
    dfa: ByteDfa, vocabulary: Vocabulary, limits: Limits, name: str, prune: bool = True
) -> TokenAutomaton:
    """Compile a byte automaton for a vocabulary.

    Args:
        dfa: The language.
        vocabulary: The tokens.
        limits: Bounds on the work.
        name: The name of the language in an error.
        prune: Whether tokens are illegal after which no text can end.

    Raises:
        ConfigurationError: The language is empty, or the tokens spell none of its texts.
        PatternTooLarge: A limit is exceeded.
    """
    if not np.any(dfa.accepting):
        raise ConfigurationError(f"{name} matches no text at all, so nothing could be generated")
    classes = token_classes(dfa, vocabulary, limits)
    class_of, transitions = classes.class_of, classes.transitions
    if dfa.free is not None:
        # One more class: all ids without text (EOS ids get theirs later).
        class_of = np.where(vocabulary.without_text, np.int32(len(transitions)), class_of)
        transitions = TransitionColumns.joined([transitions, staying(dfa.free)])
    special_tokens, ends = without_ends(dfa.special_tokens, dfa.accepting, dfa.free, vocabulary.eos_ids)
    transitions, special_tokens = with_wholes(class_of, transitions, special_tokens, vocabulary, limits)
    class_of, transitions = with_special_tokens(class_of, transitions, special_tokens, vocabulary.trie.node_of_id)
    fallback = None if dfa.fallback is None else dfa.fallback.state
    if prune and may_have_dead_ends(dfa, vocabulary):
        # A ban may forbid every EOS id somewhere.
        complete = complete_with(dfa.accepting, ends, vocabulary.eos_ids)
        transitions, alive = without_dead_ends(transitions, complete, fallback)
        if not alive[dfa.start]:
            raise NothingSpelled(f"the tokens of the vocabulary spell no text that {name} matches")
    return TokenAutomaton.of(
        class_of,
        transitions,
        dfa.accepting,
        dfa.start,
        vocabulary.eos_ids,
        vocabulary.pad_id,
        fallback,
        ends,
    )


def staying(free: NDArray[np.bool_]) -> TransitionColumns:
    """Return the one column that stays in the free states and is dead in all others."""
    strict = FIRST_STATE + np.flatnonzero(~free[FIRST_STATE:])
    where = FIRST_STATE + np.flatnonzero(free[FIRST_STATE:])
    # List the fewer states. Where all states are free, none is listed, so that the default holds after fallbacks too.
    if len(strict) <= len(where):
        default, source, target = STAY, strict, np.full(len(strict), DEAD)
    else:
        default, source, target = DEAD, where, where
    return TransitionColumns(np.array([default]), np.array([0, len(source)]), source, target)
