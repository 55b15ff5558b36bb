"""Ends of tokens that act on many states are worked out by following the states, others by tracing back: to the same result."""

from __future__ import annotations

from typing import Any

import pytest

from logitkit.compiler.bytes.stack_moves import StackMoves
from logitkit.compiler.tokens.effects import suffix_columns
from logitkit.compiler.tokens.effects.suffix_columns import SuffixColumns
from logitkit.compiler.tokens.effects.token_classes import classes_by_level
from logitkit.limits import DEFAULT_LIMITS
from tests.json_schema.acceptance import nested
from tests.json_schema.test_closing import MERGED

SCHEMAS: dict[str, Any] = {
    "any": True,
    "strings": {"properties": {"a": {"type": "string", "maxLength": 40}, "b": {"maxLength": 30, "format": "email"}}},
    "recursive": {
        "properties": {
            "v": {"type": "string", "pattern": "^[a-z]{3,20}$"},
            "in": {"items": {"$ref": "#"}, "minItems": 1},
        },
        "required": ["v"],
        "additionalProperties": False,
        "type": "object",
    },
    "contained": {"type": "array", "contains": {"type": "object", "required": ["abc"]}, "maxItems": 20},
    "unions": {
        "anyOf": [{"type": "array", "maxItems": 9, "items": {}}, {"required": ["a"]}, {"items": {"type": "string"}}]
    },
}


def transitions(schema: Any) -> list[dict[int, Any]]:
    """The effect of each token, by the state in which it begins."""
    dfa = nested(schema)
    assert dfa.frames
    store = SuffixColumns(StackMoves.of_nested(dfa), DEFAULT_LIMITS)
    classes = classes_by_level(store, dfa.byte_class, MERGED.reversed_trie)
    known: dict[int, Any] = {}

    def action(number: int) -> Any:
        if number not in known:
            state, pushed, rest, height, *_ = store.actions.action(number)
            behind = tuple((frame, action(n)) for frame, n in store.actions.suffixes[rest].items())
            known[number] = state, pushed, behind, height
        return known[number]

    found = []
    for which in classes.class_of.tolist():
        own = slice(classes.transitions.start[which], classes.transitions.start[which + 1])
        source, target = classes.transitions.source[own].tolist(), classes.transitions.target[own].tolist()
        assert source == sorted(source)
        found.append({state: action(number) for state, number in zip(source, target, strict=True)})
    return found


@pytest.mark.parametrize("name", SCHEMAS)
def test_both_ways_agree(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suffix_columns, "FORWARD", 0)
    expected = transitions(SCHEMAS[name])
    monkeypatch.setattr(suffix_columns, "FORWARD", 10**9)
    for dense in (1, 2**10, 2**22):
        monkeypatch.setattr(suffix_columns, "DENSE", dense)
        assert transitions(SCHEMAS[name]) == expected
