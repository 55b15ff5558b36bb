"""From a syntax tree to the byte automaton of its language."""

from __future__ import annotations

from logitkit.automata.alphabet import Alphabet
from logitkit.automata.byte_dfa import ByteDfa, to_bytes
from logitkit.automata.limits import Limits
from logitkit.automata.minimise import minimise
from logitkit.automata.positions import positions_of
from logitkit.automata.subset import determinise
from logitkit.patterns.syntax import Node


def byte_dfa_of(tree: Node, limits: Limits) -> ByteDfa:
    """Compile a tree to the minimal automaton over bytes that accepts the texts which it matches as a whole.

    Raises:
        PatternTooLarge: A limit is exceeded.
    """
    positions = positions_of(tree, limits)
    alphabet = Alphabet.of(positions.charsets)
    return to_bytes(minimise(determinise(positions, alphabet, limits)), alphabet, limits)
