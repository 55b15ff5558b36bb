r"""Anchors and word boundaries, written out as lookarounds of one character.

`\Z` is "no character follows", `\b` is "a word character on one side only", and so on: the later stages know only lookarounds.
"""

from __future__ import annotations

import sys

from logitkit.patterns.charset import ANY, CharSet
from logitkit.patterns.construction import with_inside
from logitkit.patterns.syntax import Alternate, Anchor, Atomic, Characters, Concat, Look, Node, Repeat

NEWLINE = CharSet(((10, 10),))
ANYTHING = Characters(ANY)


def has_assertions(tree: Node) -> bool:
    """Whether a tree holds an anchor, a lookaround or an atomic group."""
    match tree:
        case Anchor() | Look() | Atomic():
            return True
        case Concat(parts) | Alternate(parts):
            return any(has_assertions(part) for part in parts if type(part) is not Characters)
        case Repeat(node):
            return has_assertions(node)
        case _:
            return False


def without_anchors(tree: Node) -> Node:
    """Return a tree of the same language that has no anchors."""
    return _written_out(tree) if isinstance(tree, Anchor) else with_inside(tree, without_anchors)


def _written_out(anchor: Anchor) -> Node:
    at_start, at_end = _not(_precedes(ANYTHING, anchor)), _not(_follows(ANYTHING, anchor))
    newline = Characters(NEWLINE)
    match anchor.kind:
        case "text_start":
            return at_start
        case "text_end":
            return at_end
        case "final":
            return Alternate((at_end, _follows(Concat((newline, at_end)), anchor)))
        case "line_start":
            return Alternate((at_start, _precedes(newline, anchor)))
        case "line_end":
            return Alternate((at_end, _follows(newline, anchor)))
        case "boundary" | "not_boundary":
            return _boundary(anchor)


def _boundary(anchor: Anchor) -> Node:
    word = Characters(anchor.word or CharSet())
    before, after = _precedes(word, anchor), _follows(word, anchor)
    if anchor.kind == "boundary":
        return Alternate((Concat((_not(before), after)), Concat((before, _not(after)))))
    outside = Concat((_not(before), _not(after)))
    if sys.version_info < (3, 14):
        # There, \B does not match in the empty text.
        outside = Concat((*outside.parts, Alternate((_precedes(ANYTHING, anchor), _follows(ANYTHING, anchor)))))
    return Alternate((Concat((before, after)), outside))


def _follows(node: Node, anchor: Anchor) -> Look:
    return Look(node, False, False, anchor.position)


def _precedes(node: Node, anchor: Anchor) -> Look:
    return Look(node, True, False, anchor.position)


def _not(look: Look) -> Look:
    return Look(look.node, look.behind, True, look.position)
