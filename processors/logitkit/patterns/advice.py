"""Advice on patterns that allow more, or less, than their author may expect."""

from __future__ import annotations

import re
from collections.abc import Iterator

from logitkit.errors import PatternSyntaxError
from logitkit.patterns.parser import parse
from logitkit.patterns.syntax import Alternate, Atomic, Concat, Node, Repeat

__all__ = ["beyond_ascii", "pattern_advice"]

_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_CLASSES = {"d": "digits", "w": "letters and digits", "s": "white space"}
_INSTEAD = {"d": "[0-9]", "w": "[A-Za-z0-9_]", "s": r"[ \t\n]"}


def pattern_advice(pattern: str) -> tuple[str, ...]:
    r"""Return sentences on what a pattern allows that its author may not expect.

    Args:
        pattern: The pattern.

    Raises:
        PatternSyntaxError: The pattern cannot be parsed.

    Example:
        >>> pattern_advice("[0-9]{4}")
        ()
        >>> pattern_advice(r"\d{4}")
        ('\\d allows digits of all scripts; write [0-9], or (?a) at the beginning of the pattern',)
    """
    return tuple(_advice(pattern, parse(pattern)))


def beyond_ascii(pattern: str) -> Iterator[str]:
    r"""Yield a sentence on each of the classes `\d`, `\w` and `\s` of a pattern that has characters beyond ASCII.

    Args:
        pattern: The pattern.

    Raises:
        PatternSyntaxError: The pattern cannot be parsed.
    """
    tree = parse(pattern)
    for letter in sorted({*_ESCAPE.findall(pattern)} & {*_CLASSES}):
        if _differs_in_ascii(pattern, tree):
            instead = f"write {_INSTEAD[letter]}, or (?a) at the beginning of the pattern"
            yield f"\\{letter} allows {_CLASSES[letter]} of all scripts; {instead}"


def _advice(pattern: str, tree: Node) -> Iterator[str]:
    yield from beyond_ascii(pattern)
    if isinstance(tree, Alternate) and _is_alternate(pattern + "!"):
        yield "the pattern has alternatives that are not in a group: each of them is a whole output, not a part of one"
    if _is_unlimited(tree):
        yield "the text has no limit on its length; to give it one, write {1,100} in place of +, and {0,100} in place of *"


def _differs_in_ascii(pattern: str, tree: Node) -> bool:
    try:
        return parse(f"(?a){pattern}") != tree
    except PatternSyntaxError:  # such as (?u), which excludes (?a)
        return False


def _is_alternate(pattern: str) -> bool:
    """Whether alternatives are not in a group, to which a character after them would not belong."""
    try:
        return isinstance(parse(pattern), Alternate)
    except PatternSyntaxError:
        return False


def _is_unlimited(node: Node) -> bool:
    if isinstance(node, Concat | Alternate):
        return any(map(_is_unlimited, node.parts if isinstance(node, Concat) else node.options))
    if isinstance(node, Repeat):
        return node.maximum is None or _is_unlimited(node.node)
    return isinstance(node, Atomic) and _is_unlimited(node.node)
