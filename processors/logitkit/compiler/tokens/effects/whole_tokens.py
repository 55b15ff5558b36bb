"""Tokens as wholes: where a language has one token whatever its text is, all tokens lead to the same state."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import DEAD
from logitkit.compiler.bytes.special_tokens import WHOLE, SpecialTokens
from logitkit.compiler.bytes.transition_columns import Ints, TransitionColumns, starts
from logitkit.limits import Limits
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["whole_tokens", "with_wholes"]

# This many entries of a table take as long as one other step.
ENTRIES_A_STEP = 3


def whole_tokens(special_tokens: Iterable[int], vocabulary: Vocabulary) -> NDArray[np.bool_]:
    """Return [V] bool, the tokens that `WHOLE` stands for: those with text that are not special tokens, nor EOS."""
    found: NDArray[np.bool_] = vocabulary.trie.node_of_id > 0
    found[[token for token in (*special_tokens, *vocabulary.eos_ids) if token >= 0]] = False
    return found


def with_wholes(
    class_of: Ints,
    transitions: TransitionColumns,
    special_tokens: SpecialTokens,
    vocabulary: Vocabulary,
    limits: Limits,
) -> tuple[TransitionColumns, SpecialTokens]:
    """Add what tokens do as wholes to the columns of their classes; return these, and the special tokens that are left.

    Args:
        class_of: [V] class of each token.
        transitions: The column of each class by its text: dead in the states from which `WHOLE` leads somewhere.
        special_tokens: Where each special token leads.
        vocabulary: The tokens.
        limits: Bounds on the work.

    Raises:
        PatternTooLarge: There are too many classes and states.
    """
    if WHOLE not in special_tokens:
        return transitions, special_tokens
    leads = special_tokens[WHOLE]
    source = np.flatnonzero(leads != DEAD)
    classes = np.unique(class_of[whole_tokens(special_tokens, vocabulary)])
    limits.spend(len(classes) * len(source) // ENTRIES_A_STEP)
    owner = np.repeat(np.arange(len(transitions)), np.diff(transitions.start))
    # Where the default of a class is not dead, death is listed.
    kept = ~((leads != DEAD)[transitions.source] & np.isin(owner, classes))
    owner = np.concatenate([owner[kept], np.repeat(classes, len(source))])
    sources = np.concatenate([transitions.source[kept], np.tile(source, len(classes))])
    targets = np.concatenate([transitions.target[kept], np.tile(leads[source], len(classes))])
    listed = targets != transitions.default[owner]
    owner, sources, targets = owner[listed], sources[listed], targets[listed]
    order = np.lexsort((sources, owner))
    begin = starts(np.bincount(owner, minlength=len(transitions)))
    found = TransitionColumns(
        transitions.default, begin, sources[order].astype(np.int32), targets[order].astype(np.int32)
    )
    return found, {token: target for token, target in special_tokens.items() if token != WHOLE}
