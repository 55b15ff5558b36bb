"""Tokens as wholes: where a language reads any one token, whatever its text is, all tokens lead to the same state.

The automaton over bytes reads the symbol `WHOLE` there, like a special token. Here, this symbol is replaced by all tokens that it
stands for.

By hand: `WHOLE` leads from state 2 to state 5. The classes of tokens by their text are 1 and 2, and neither lists state 2. Then
both columns get the entry 2 -> 5.

Invariants: tokens by their text are dead in the states that read `WHOLE`.
"""

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
    """Return [V] bool, the tokens that `WHOLE` stands for: those with text that are neither special tokens nor EOS."""
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
    """Replace `WHOLE` by the tokens that it stands for; return the columns of classes, and the special tokens that are left.

    Args:
        class_of: [V] class of each token.
        transitions: The column of each class by its text; dead in the states that read `WHOLE`.
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
    # A class whose default is not dead lists these states as dead, so its entries for them are replaced.
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
