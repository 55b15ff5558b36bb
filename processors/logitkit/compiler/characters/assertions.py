r"""Anchors and word boundaries, written out as lookarounds of one character.

`\Z` is "no character follows", `\b` is "a word character on one side only", and so on: the later stages know only lookarounds.
"""

from __future__ import annotations

import sys

from logitkit.patterns.charset import ANY, CharSet
from logitkit.patterns.inner_trees import with_inside
from logitkit.patterns.syntax import Alternate, Anchor, Atomic, Characters, Concat, Look, Node, Repeat

NEWLINE = CharSet(((10, 10),))


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
    any_, newline = Characters(ANY), Characters(NEWLINE)

    def follows(node: Node) -> Look:
        return Look(node, False, False, anchor.position)

    def precedes(node: Node) -> Look:
        return Look(node, True, False, anchor.position)

    def not_(look: Look) -> Look:
        return Look(look.node, look.behind, True, anchor.position)

    at_start, at_end = not_(precedes(any_)), not_(follows(any_))
    word = Characters(anchor.word or CharSet())
    match anchor.kind:
        case "text_start":
            return at_start
        case "text_end":
            return at_end
        case "final":
            return Alternate((at_end, follows(Concat((newline, at_end)))))
        case "line_start":
            return Alternate((at_start, precedes(newline)))
        case "line_end":
            return Alternate((at_end, follows(newline)))
        case "boundary":
            begins = Concat((not_(precedes(word)), follows(word)))
            ends = Concat((precedes(word), not_(follows(word))))
            return Alternate((begins, ends))
        case "not_boundary":
            inside = Concat((precedes(word), follows(word)))
            outside = Concat((not_(precedes(word)), not_(follows(word))))
            if sys.version_info < (3, 14):
                # There, \B does not match in the empty text.
                some = Alternate((precedes(any_), follows(any_)))
                outside = Concat((*outside.parts, some))
            return Alternate((inside, outside))
