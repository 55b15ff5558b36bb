"""Random languages: trees of all that composes."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from logitkit.errors import ConfigurationError
from logitkit.languages import (
    Language,
    any_text,
    choice,
    dispatch,
    either,
    json_schema,
    literal,
    optional,
    repeat,
    sequence,
    special,
    tag,
)
from tests.languages.patterns import Chars, Choice, Several, Tree, Two, pattern_of

__all__ = ["SCHEMAS", "languages", "trees"]

RECORD: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "boolean"}, "b": {"enum": ["a", "b", None]}},
    "required": ["b"],
    "additionalProperties": False,
}
SCHEMAS: list[Any] = [
    {"enum": ["a", None, ["a"], {"a": []}]},
    {"type": "boolean"},
    {"type": "string"},
    {"type": "array", "items": {"enum": [None, "a"]}, "maxItems": 2},
    {"type": "array", "items": {"$ref": "#"}},
    RECORD,
]

words = st.text("ab<t>", min_size=1, max_size=3) | st.sampled_from(["<t>", "<o>", "a<t>", "<t>b"])
tokens = st.sampled_from([special("<t>"), special("<t>"), special("<o>")])
markers = words | tokens
some_markers = st.lists(markers, max_size=2)


def several(tree: Tree, least: int, more: int | None) -> Tree:
    """Return a tree several times."""
    return Several(tree, least, None if more is None else least + more)


def trees(depth: int = 3) -> st.SearchStrategy[Tree]:
    """Patterns over a few characters."""
    characters: st.SearchStrategy[Tree] = st.builds(Chars, st.text("ab<t>", min_size=1, max_size=2), st.booleans())
    if not depth:
        return characters
    inner = trees(depth - 1)
    return (
        characters
        | st.builds(Two, st.lists(inner, max_size=3).map(tuple))
        | st.builds(Choice, st.lists(inner, min_size=1, max_size=3).map(tuple))
        | st.builds(several, inner, st.integers(0, 2), st.none() | st.integers(0, 2))
    )


def leaves(schemas: list[Any]) -> st.SearchStrategy[Language]:
    """Languages that are not built from others."""
    texts = st.text("ab<t>", max_size=3) | words
    excluded = st.lists(words, max_size=1).map(tuple)
    found: st.SearchStrategy[Language] = (
        texts.map(literal)
        | st.lists(texts, min_size=1, max_size=3).map(choice)
        | tokens
        | st.builds(pattern_of, trees(2), excluded)
        | st.builds(any_text, some_markers, some_markers)
    )
    return found | st.sampled_from(schemas).map(json_schema) if schemas else found


def dispatches(inner: st.SearchStrategy[Language]) -> st.SearchStrategy[Language]:
    """Free text with tags; the empty text where triggers exclude each other."""

    def made(tags: list[tuple[Any, Language]], at_least: int, once: bool, exclude: list[Any]) -> Language:
        try:
            begun = {trigger: sequence(trigger, rest) for trigger, rest in tags}
            return dispatch(begun, min(at_least, 1) if once else at_least, once, exclude)
        except ConfigurationError:
            return literal("")

    tags = st.lists(st.tuples(markers, inner), min_size=1, max_size=2)
    return st.builds(made, tags, st.integers(0, 2), st.booleans(), st.lists(markers, max_size=1))


def languages(schemas: list[Any] = []) -> st.SearchStrategy[Language]:  # noqa: B006
    """Trees of languages, among them JSON values by some schemas."""

    def larger(inner: st.SearchStrategy[Language]) -> st.SearchStrategy[Language]:
        least, more = st.integers(0, 2), st.none() | st.integers(0, 2)
        repeated = st.builds(
            lambda item, least, more, between: repeat(item, least, None if more is None else least + more, between),
            inner,
            least,
            more,
            st.none() | inner,
        )
        return (
            st.lists(inner, max_size=3).map(lambda parts: sequence(*parts))
            | st.lists(inner, min_size=1, max_size=3).map(lambda options: either(*options))
            | inner.map(optional)
            | repeated
            | st.builds(tag, markers, inner, markers)
            | dispatches(inner)
        )

    return st.recursive(leaves(schemas), larger, max_leaves=5)
