"""From a nested grammar to one automaton over bytes: all steps of this package.

1. Each rule becomes a part: an automaton over characters that may call other parts (`parts`).
2. The parts become one automaton over bytes (`assembly`), without states that lead nowhere (`live`).
3. Text of a limited number of tokens gets its layers (`token_limits`), and free text becomes fragments (`text_regions`).
4. The labels of arrays whose items must differ are taken out (`remembered_arrays`).

By hand, for nested brackets such as `[[][]]`: `assembly` shows the automaton after step 2. Steps 3 and 4 change nothing.

A grammar without calls may have too many states. Then, with `share`, the bytes inside of characters are called instead.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE
from logitkit.compiler.bytes.nested_dfa import NestedDfa
from logitkit.compiler.bytes.special_tokens import WHOLE
from logitkit.compiler.bytes.utf8_subroutines import utf8_subroutines
from logitkit.compiler.language import byte_dfa_of
from logitkit.compiler.nested_grammars.assembly import Assembly
from logitkit.compiler.nested_grammars.live import live
from logitkit.compiler.nested_grammars.nested_grammar import NestedGrammar
from logitkit.compiler.nested_grammars.part import Called, Part
from logitkit.compiler.nested_grammars.parts import has_calls, parts_of
from logitkit.compiler.nested_grammars.remembered_arrays import with_remembered_arrays
from logitkit.compiler.nested_grammars.text_regions import with_text_regions
from logitkit.compiler.nested_grammars.token_limits import with_layers, with_second_copies
from logitkit.errors import ConfigurationError, PatternTooLarge
from logitkit.limits import Limits

__all__ = ["nested_grammar_dfa"]


def nested_grammar_dfa(
    grammar: NestedGrammar, limits: Limits, share: bool = False, spelled: NDArray[np.bool_] | None = None
) -> NestedDfa:
    """Compile a grammar to an automaton over bytes.

    Args:
        grammar: The grammar.
        limits: Bounds on the result.
        share: Whether to call large strings that stand in many places, and the bytes inside of characters if there are too many
            states otherwise.
        spelled: [256] bool, which bytes are tokens; None: all are. If a byte that may be read is not a token, strings are not
            called, and their characters are not counted.

    Raises:
        PatternTooLarge: A limit is exceeded, or one bracket calls too many rules.
        MixedArrays: Arrays whose items must differ and others begin in one place.
        ConfigurationError: A bracket begins both a call and other text, a rule continues after its closing bracket, or any
            token (`WHOLE`) and other text begin in one place.
    """
    if not grammar.words and not grammar.special_tokens and not has_calls(grammar.main):
        return NestedDfa.of(byte_dfa_of(grammar.main, limits))
    parts = parts_of(grammar, limits)
    try:
        found = live(Assembly(grammar, parts, limits, share, spelled).dfa())
    except PatternTooLarge:
        called = _with_called_characters(grammar, parts, limits) if share else None
        if called is None:
            raise
        found = called
    if not grammar.special_tokens:
        return with_remembered_arrays(found)
    if grammar.token_limits:
        found = with_second_copies(found, grammar.token_limits, limits)
    if WHOLE in found.special_tokens and found.step[found.special_tokens[WHOLE] != DEAD].any():
        raise ConfigurationError(
            "any_token() (exclude_token in a structural tag) and other text begin at the same point, so a token could belong "
            "to either; put a special token between them"
        )
    # A finite automaton compiles faster with all tokens at once than from the known effects of tokens in its parts.
    is_finite = found.instances is None and not found.frames and not found.token_limits
    return with_remembered_arrays(found if is_finite else with_layers(with_text_regions(found)))


def _with_called_characters(grammar: NestedGrammar, parts: dict[Called, Part], limits: Limits) -> NestedDfa | None:
    """Compile a grammar without calls to an automaton that calls the bytes inside of characters.

    Returns:
        The automaton, or None if the grammar has calls, words or limits of tokens, or reads ASCII only.

    Raises:
        PatternTooLarge: A limit is exceeded in this way too.
    """
    part = parts[()]
    calls = any(part.brackets) or any(part.words)
    if part.dfa is None or calls or grammar.token_limits:
        return None
    found = utf8_subroutines(part.dfa, part.alphabet, limits)
    if found is None:
        return None
    special_tokens = {token: np.zeros(found.states, np.int64) for token in grammar.special_tokens}
    for state, targets in enumerate(part.special_tokens, FIRST_STATE):
        for special_token, target in targets.items():
            special_tokens[grammar.special_tokens[special_token]][state] = FIRST_STATE + target
    return replace(found, special_tokens=special_tokens)
