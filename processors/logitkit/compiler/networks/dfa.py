"""From a network to one automaton over bytes."""

from __future__ import annotations

from logitkit.compiler.bytes.byte_dfa import DEAD
from logitkit.compiler.bytes.letters import WHOLE
from logitkit.compiler.bytes.nested_dfa import NestedDfa
from logitkit.compiler.language import byte_dfa_of
from logitkit.compiler.networks.joint import Joint
from logitkit.compiler.networks.live import live
from logitkit.compiler.networks.network import Network
from logitkit.compiler.networks.parts import has_calls, parts_of
from logitkit.compiler.networks.text_regions import with_text_regions
from logitkit.compiler.networks.token_limits import with_layers, with_second_copies
from logitkit.errors import ConfigurationError
from logitkit.limits import Limits

__all__ = ["network_dfa"]


def network_dfa(network: Network, limits: Limits, share: bool = False) -> NestedDfa:
    """Compile a network to an automaton over bytes.

    Args:
        network: The network.
        limits: Bounds on the result.
        share: Whether to call strings that are large and stand in many places, as what nests is called.

    Raises:
        PatternTooLarge: A limit is exceeded, or too many calls cannot be told apart by their brackets.
        ConfigurationError: A bracket begins both a call and other text, a definition continues after its closing bracket, or
            a token whatever its text is and other text begin in one place.
    """
    if not network.words and not network.letters and not has_calls(network.main):
        return NestedDfa.of(byte_dfa_of(network.main, limits))
    parts = parts_of(network, limits)
    found = live(Joint(network, parts, limits, share).dfa())
    if not network.letters:
        return found
    if network.token_limits:
        found = with_second_copies(found, network.token_limits, limits)
    if WHOLE in found.letters and found.step[found.letters[WHOLE] != DEAD].any():
        raise ConfigurationError(
            "any_token() (exclude_token in a structural tag) and other text begin at the same point, so a token could belong "
            "to either; put a special token between them"
        )
    return with_layers(with_text_regions(found))
