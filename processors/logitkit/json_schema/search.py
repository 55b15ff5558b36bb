"""The strings in which a pattern is found."""

from __future__ import annotations

from typing import TypeAlias

from logitkit.compiler.characters.code_units import in_characters
from logitkit.compiler.language import symbol_dfa_of
from logitkit.compiler.text_language import TextLanguage
from logitkit.json_schema.ecma import ecma_tree
from logitkit.limits import Limits
from logitkit.patterns.charset import ANY
from logitkit.patterns.construction import alternate, concatenate
from logitkit.patterns.syntax import Alternate, Anchor, Characters, Concat, Empty, Node, Repeat

# Shorter repetitions stay as they are.
LONG = 16

_ANYTHING = Repeat(Characters(ANY), 0, None)


# How many characters texts have: at least, and at most; None: there is no bound.
Lengths: TypeAlias = tuple[int, int | None]

ANY_LENGTH: Lengths = (0, None)


def search_language(pattern: str, limits: Limits) -> tuple[TextLanguage, Lengths]:
    """Return the strings in which an ECMA-262 pattern is found anywhere: a set of texts, of which those of some lengths.

    The strings of `^[a-z][a-z0-9]{0,62}$` are those of `^[a-z][a-z0-9]*$` that have 1 to 63 characters: a length can be counted,
    where states for each number of repetitions would be many.

    Raises:
        PatternSyntaxError: The pattern is not valid, or not regular.
        PatternTooLarge: A limit is exceeded.

    Example:
        >>> from logitkit.limits import DEFAULT_LIMITS
        >>> texts, lengths = search_language("^a{2,20}b$", DEFAULT_LIMITS)
        >>> texts.contains("ab"), lengths
        (True, (3, 21))
    """
    tree, in_units = ecma_tree(pattern)
    options = tree.options if isinstance(tree, Alternate) else (tree,)
    # Options with the same anchors share one search: with one search for each, a hundred words would need too many states.
    anchored: dict[tuple[bool, bool], list[Node]] = {}
    for option in options:
        inside, from_start, to_end = _without_outer_anchors(option)
        anchored.setdefault((from_start, to_end), []).append(inside)
    found = alternate([_found(alternate(together), *anchors) for anchors, together in anchored.items()])
    if in_units:
        dfa, alphabet = in_characters(*symbol_dfa_of(found, limits, pattern), limits)
        return TextLanguage(dfa, alphabet, limits).compacted(), ANY_LENGTH
    found, lengths = _with_lengths(found) if len(options) == 1 else (found, ANY_LENGTH)
    return TextLanguage.of_tree(found, limits, pattern), lengths


def _with_lengths(tree: Node) -> tuple[Node, Lengths]:
    """Replace a long repetition of one character by one without bounds, if all else in a tree has one length."""
    parts = tree.parts if isinstance(tree, Concat) else (tree,)
    fixed = [_length(part) for part in parts]
    others = [place for place, length in enumerate(fixed) if length is None]
    if len(others) != 1:
        return tree, ANY_LENGTH
    match parts[others[0]]:
        case Repeat(Characters() as inside, minimum, int(maximum)) if maximum >= LONG:
            more = sum(length for length in fixed if length is not None)
            endless = Repeat(inside, 0, None)
            whole = concatenate([endless if place == others[0] else part for place, part in enumerate(parts)])
            return whole, (minimum + more, maximum + more)
    return tree, ANY_LENGTH


def _length(node: Node) -> int | None:
    """Return the length of all texts of a node, or None if they may differ, or are not known."""
    match node:
        case Empty():
            return 0
        case Characters():
            return 1
        case Concat(parts):
            lengths = [_length(part) for part in parts]
            return None if None in lengths else sum(length or 0 for length in lengths)
        case Repeat(inside, minimum, maximum) if minimum == maximum:
            length = _length(inside)
            return None if length is None else minimum * length
    return None


def _without_outer_anchors(option: Node) -> tuple[Node, bool, bool]:
    """Return an option without anchors at its ends, and whether it must begin with the text, and end with it."""
    parts: list[Node] = list(option.parts) if isinstance(option, Concat) else [option]
    from_start = to_end = False
    while parts and isinstance(parts[0], Anchor) and parts[0].kind == "text_start":
        from_start = True
        parts.pop(0)
    while parts and isinstance(parts[-1], Anchor) and parts[-1].kind == "text_end":
        to_end = True
        parts.pop()
    return concatenate(parts), from_start, to_end


def _found(inside: Node, from_start: bool, to_end: bool) -> Node:
    """Return the whole texts in which something is found; anchors at its ends say so without any lookaround."""
    before: list[Node] = [] if from_start else [_ANYTHING]
    after: list[Node] = [] if to_end else [_ANYTHING]
    return concatenate([*before, inside, *after])
