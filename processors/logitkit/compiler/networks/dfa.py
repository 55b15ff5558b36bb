"""From a network to one automaton over bytes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE
from logitkit.compiler.bytes.letters import WHOLE
from logitkit.compiler.bytes.nested_dfa import NestedDfa
from logitkit.compiler.bytes.utf8_subroutines import utf8_subroutines
from logitkit.compiler.language import byte_dfa_of
from logitkit.compiler.networks.joint import Joint
from logitkit.compiler.networks.live import live
from logitkit.compiler.networks.network import Network
from logitkit.compiler.networks.part import Called, Part
from logitkit.compiler.networks.parts import has_calls, parts_of
from logitkit.compiler.networks.text_regions import with_text_regions
from logitkit.compiler.networks.token_limits import with_layers, with_second_copies
from logitkit.errors import ConfigurationError, PatternTooLarge
from logitkit.limits import Limits

__all__ = ["network_dfa"]


def network_dfa(network: Network, limits: Limits, share: bool = False, many_ways: bool = False) -> NestedDfa:
    """Compile a network to an automaton over bytes.

    Args:
        network: The network.
        limits: Bounds on the result.
        share: Whether to call large strings that stand in many places, and the bytes inside of characters if there are too many
            states otherwise.
        many_ways: Whether one bracket may begin calls that go on in many ways, as in `parts_of`.

    Raises:
        PatternTooLarge: A limit is exceeded, or too many calls cannot be told apart by their brackets.
        ConfigurationError: A bracket begins both a call and other text, a definition continues after its closing bracket, or
            a token whatever its text is and other text begin in one place.
    """
    if not network.words and not network.letters and not has_calls(network.main):
        return NestedDfa.of(byte_dfa_of(network.main, limits))
    parts = parts_of(network, limits, many_ways)
    try:
        found = live(Joint(network, parts, limits, share).dfa())
    except PatternTooLarge:
        called = _with_called_characters(network, parts, limits) if share else None
        if called is None:
            raise
        found = called
    if not network.letters:
        return found
    if network.token_limits:
        found = with_second_copies(found, network.token_limits, limits)
    if WHOLE in found.letters and found.step[found.letters[WHOLE] != DEAD].any():
        raise ConfigurationError(
            "any_token() (exclude_token in a structural tag) and other text begin at the same point, so a token could belong "
            "to either; put a special token between them"
        )
    # A finite automaton compiles faster with all tokens at once than from the known effects of tokens in its parts.
    is_finite = found.copies is None and not found.frames and not found.token_limits
    return found if is_finite else with_layers(with_text_regions(found))


def _with_called_characters(network: Network, parts: dict[Called, Part], limits: Limits) -> NestedDfa | None:
    """Compile a network without calls to an automaton that calls the bytes inside of characters.

    Returns:
        None if the network has calls, words or limits of tokens, or reads ASCII only.

    Raises:
        PatternTooLarge: A limit is exceeded in this way too.
    """
    part = parts[()]
    calls = any(part.brackets) or any(part.words)
    if part.dfa is None or calls or network.token_limits:
        return None
    found = utf8_subroutines(part.dfa, part.alphabet, limits)
    if found is None:
        return None
    letters = {token: np.zeros(found.states, np.int64) for token in network.letters}
    for state, targets in enumerate(part.letters, FIRST_STATE):
        for letter, target in targets.items():
            letters[network.letters[letter]][state] = FIRST_STATE + target
    return replace(found, letters=letters)
