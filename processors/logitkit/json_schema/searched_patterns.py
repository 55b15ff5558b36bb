"""Advice on the patterns of a schema, which JSON Schema searches for in a text: without anchors, anything may surround them."""

from __future__ import annotations

from collections.abc import Iterator

from logitkit.errors import PatternSyntaxError
from logitkit.json_schema.document import Json
from logitkit.json_schema.ecma import ecma_tree
from logitkit.json_schema.subschemas import subschemas
from logitkit.patterns.syntax import Alternate, Anchor, Concat, Node

__all__ = ["searched_patterns"]


def searched_patterns(schema: Json) -> tuple[str, ...]:
    """Return sentences on the patterns of a schema that allow more than their author may expect.

    A pattern with one anchor is not reported, because it is usually meant as a beginning or an end.

    Args:
        schema: As `document.load` returns it.

    Example:
        >>> searched_patterns({"pattern": "^[0-9]{3}$", "items": {"pattern": "^x-"}})
        ()
        >>> for said in searched_patterns({"pattern": "[0-9]{3}", "items": {"pattern": "^yes|no$"}}):
        ...     print(said)
        'pattern' at #: '[0-9]{3}' may stand anywhere in the text; for the whole text, write '^(?:[0-9]{3})$'
        'pattern' at #/items: '^yes|no$' has anchors in only some of its alternatives; write '^(?:...|...)$'
    """
    return tuple(_advice(schema))


def _advice(schema: Json) -> Iterator[str]:
    for pointer, value in subschemas(schema):
        pattern = value.get("pattern")
        if not isinstance(pattern, str):
            continue
        try:
            tree = ecma_tree(pattern).tree
        except PatternSyntaxError:  # compilation reports it
            continue
        options = tree.options if isinstance(tree, Alternate) else (tree,)
        anchored = [(_has(option, "text_start"), _has(option, "text_end")) for option in options]
        if not any(map(any, anchored)):
            whole = f"^(?:{pattern})$"
            yield f"'pattern' at {pointer}: {pattern!r} may stand anywhere in the text; for the whole text, write {whole!r}"
        elif len({*anchored}) > 1:
            yield f"'pattern' at {pointer}: {pattern!r} has anchors in only some of its alternatives; write '^(?:...|...)$'"


def _has(node: Node, kind: str) -> bool:
    """Whether a part begins with an anchor, or ends with one."""
    if isinstance(node, Concat) and node.parts:
        return _has(node.parts[0 if kind == "text_start" else -1], kind)
    if isinstance(node, Alternate):
        return all(_has(option, kind) for option in node.options)
    return isinstance(node, Anchor) and node.kind == kind
