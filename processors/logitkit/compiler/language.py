"""From a pattern to the byte automaton of its language."""

from __future__ import annotations

from dataclasses import replace

from logitkit.compiler.bytes.byte_dfa import ByteDfa
from logitkit.compiler.bytes.in_utf8 import to_bytes
from logitkit.compiler.bytes.nested_dfa import NestedDfa
from logitkit.compiler.bytes.utf8_subroutines import utf8_subroutines
from logitkit.compiler.bytes.word_list import texts_of, word_list_dfa
from logitkit.compiler.characters.alphabet import Alphabet
from logitkit.compiler.characters.alternating import determinise_guarded
from logitkit.compiler.characters.assertions import has_assertions, without_anchors
from logitkit.compiler.characters.atomic import without_atomic_groups
from logitkit.compiler.characters.counted import copies_of, is_counted, is_record
from logitkit.compiler.characters.guarded import guarded_positions
from logitkit.compiler.characters.minimise import minimise
from logitkit.compiler.characters.positions import positions_of
from logitkit.compiler.characters.static_guards import without_guards
from logitkit.compiler.characters.subset import SymbolDfa, determinise
from logitkit.errors import PatternTooLarge
from logitkit.limits import Limits
from logitkit.patterns.parser import parse
from logitkit.patterns.syntax import Node, Repeat

# A choice of this many texts or more is compiled without positions and subsets.
MANY_TEXTS = 64

# The cost of any pattern, however small, in steps.
SETUP_STEPS = 500

# Characters are called only if this makes at least this many times fewer states.
FEWER_STATES = 4


def pattern_dfa(pattern: str, limits: Limits) -> ByteDfa:
    """Compile a pattern to the minimal automaton over bytes that accepts the texts which it matches as a whole.

    Raises:
        PatternSyntaxError: The pattern is not valid, or not regular.
        PatternTooLarge: A limit is exceeded.
    """
    return byte_dfa_of(parse(pattern), limits, pattern)


def byte_dfa_of(tree: Node, limits: Limits, pattern: str = "") -> ByteDfa:
    """Compile a syntax tree; `pattern` is its text, for errors.

    Raises:
        PatternSyntaxError: The regular form of an atomic group is not known.
        PatternTooLarge: A limit is exceeded.
    """
    texts = texts_of(tree)
    if texts is not None and len(texts) >= MANY_TEXTS:
        return word_list_dfa(texts, limits)
    return to_bytes(*symbol_dfa_of(tree, limits, pattern), limits)


def called_dfa_of(tree: Node, limits: Limits, pattern: str = "") -> NestedDfa | None:
    """Compile a syntax tree to an automaton that calls what follows the first byte of a character.

    Returns:
        None if there are not far fewer states than in an automaton over bytes that calls nothing.

    Raises:
        PatternSyntaxError: The regular form of an atomic group is not known.
        PatternTooLarge: The limit of work is exceeded.
    """
    few = replace(limits, states=max(1, limits.states // FEWER_STATES))
    try:
        dfa, alphabet = symbol_dfa_of(tree, few, pattern)
        return None if dfa is None else utf8_subroutines(dfa, alphabet, few)
    except PatternTooLarge:
        few.check_work(0)
        return None


def symbol_dfa_of(tree: Node, limits: Limits, pattern: str = "") -> tuple[SymbolDfa | None, Alphabet]:
    """Compile a syntax tree as far as the minimal automaton over characters, None for the empty language, and its alphabet.

    Raises:
        PatternSyntaxError: The regular form of an atomic group is not known.
        PatternTooLarge: A limit is exceeded.
    """
    limits.spend(SETUP_STEPS)
    counted = _counted_dfa(tree, limits) if is_counted(tree) else None
    return counted or _dfa_of_positions(tree, limits, pattern)


def repeated_record(tree: Repeat, limits: Limits) -> ByteDfa | None:
    """Compile the record that a pattern repeats, or return None if a record may begin with another one.

    The automaton has one accepting state, and no move leads from it.

    Raises:
        PatternTooLarge: A limit is exceeded.
    """
    if has_assertions(tree):
        return None
    record, alphabet = _dfa_of_positions(tree.node, limits)
    return to_bytes(record, alphabet, limits) if record is not None and is_record(record) else None


def _dfa_of_positions(tree: Node, limits: Limits, pattern: str = "") -> tuple[SymbolDfa | None, Alphabet]:
    if has_assertions(tree):
        guarded = guarded_positions(without_anchors(without_atomic_groups(tree, pattern, limits)), limits)
        alphabet = Alphabet.of(guarded.charsets)
        plain = without_guards(guarded, alphabet, limits)
        dfa = determinise_guarded(guarded, alphabet, limits) if plain is None else determinise(*plain, limits)
    else:
        positions = positions_of(tree, limits)
        alphabet = Alphabet.of(positions.charsets)
        dfa = determinise(positions, [alphabet.members[c] for c in positions.charsets], limits)
    return minimise(dfa, limits), alphabet


def _counted_dfa(tree: Node, limits: Limits) -> tuple[SymbolDfa, Alphabet] | None:
    """Compile a record that is repeated, if it is one of which no other one is the beginning."""
    if not isinstance(tree, Repeat) or tree.maximum is None or has_assertions(tree):
        return None
    try:
        record, alphabet = _dfa_of_positions(tree.node, limits)
    except PatternTooLarge:
        return None
    made = None if record is None else copies_of(record, tree.minimum, tree.maximum, limits)
    if made is not None and tree.minimum > 1:
        made = minimise(made, limits)
    return None if made is None else (made, alphabet)
