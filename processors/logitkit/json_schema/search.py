"""The strings in which a pattern is found."""

from __future__ import annotations

from logitkit.compiler.text_language import TextLanguage
from logitkit.json_schema.ecma import ecma_tree
from logitkit.limits import Limits
from logitkit.patterns.charset import ANY
from logitkit.patterns.construction import alternate, concatenate
from logitkit.patterns.syntax import Alternate, Anchor, Characters, Concat, Node, Repeat

_ANYTHING = Repeat(Characters(ANY), 0, None)


def search_language(pattern: str, limits: Limits) -> TextLanguage:
    """Return the strings in which an ECMA-262 pattern is found anywhere.

    Raises:
        PatternSyntaxError: The pattern is not valid, or not regular.
        PatternTooLarge: A limit is exceeded.

    Example:
        >>> from logitkit.limits import DEFAULT_LIMITS
        >>> search_language("^a", DEFAULT_LIMITS).contains("ab")
        True
    """
    tree = ecma_tree(pattern)
    options = tree.options if isinstance(tree, Alternate) else (tree,)
    return TextLanguage.of_tree(alternate([_found(option) for option in options]), limits, pattern)


def _found(option: Node) -> Node:
    """Return the whole texts in which an option is found; anchors at its ends say so without any lookaround."""
    parts = list(option.parts) if isinstance(option, Concat) else [option]
    from_start = to_end = False
    while parts and isinstance(parts[0], Anchor) and parts[0].kind == "text_start":
        from_start = True
        parts.pop(0)
    while parts and isinstance(parts[-1], Anchor) and parts[-1].kind == "text_end":
        to_end = True
        parts.pop()
    before: list[Node] = [] if from_start else [_ANYTHING]
    behind: list[Node] = [] if to_end else [_ANYTHING]
    return concatenate([*before, *parts, *behind])
