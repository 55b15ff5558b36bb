"""From a byte automaton to one over the tokens of a vocabulary."""

from __future__ import annotations

import numpy as np

from logitkit.automata.byte_dfa import ByteDfa
from logitkit.automata.dead_ends import may_have_dead_ends, without_dead_ends
from logitkit.automata.limits import Limits
from logitkit.automata.token_automaton import TokenAutomaton
from logitkit.automata.token_classes import token_classes
from logitkit.errors import ConfigurationError
from logitkit.vocabulary import Vocabulary


def token_automaton(dfa: ByteDfa, vocabulary: Vocabulary, limits: Limits, name: str) -> TokenAutomaton:
    """Compile a byte automaton for a vocabulary.

    Args:
        dfa: The language.
        vocabulary: The tokens.
        limits: Bounds on the work.
        name: What the language is called in an error.

    Raises:
        ConfigurationError: The language is empty, or the tokens spell none of its texts.
        PatternTooLarge: A limit is exceeded.
    """
    if not np.any(dfa.accepting):
        raise ConfigurationError(f"{name} matches no text at all, so nothing could be generated")
    classes = token_classes(dfa, vocabulary.trie, limits)
    behaviours = classes.behaviours
    if may_have_dead_ends(dfa, vocabulary.trie.single_bytes()):
        behaviours, alive = without_dead_ends(behaviours, dfa.accepting)
        if not alive[dfa.start]:
            raise ConfigurationError(f"the tokens of the vocabulary spell no text that {name} matches")
    return TokenAutomaton.of(
        classes.class_of,
        behaviours,
        dfa.accepting,
        dfa.start,
        vocabulary.eos_ids,
        vocabulary.pad_id,
        None if dfa.fallback is None else dfa.fallback.state,
    )
