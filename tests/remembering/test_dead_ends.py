"""A row never gets stuck: no beginning is legal that leads to no item that is left, and some schemas are refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import logitkit as lk
from logitkit.errors import UnsupportedSchema
from tests.remembering.test_masks import array, vocabulary

NEVER = {"type": "object", "properties": {"x": {"$ref": "#/$defs/never"}}, "required": ["x"]}
# Lists of these are empty, so that there is only one.
VOID: dict[str, dict[str, Any]] = {
    "both of two types": {"allOf": [{"type": "string"}, {"type": "integer"}]},
    "a pattern that is too short": {"type": "string", "pattern": "^a$", "minLength": 2},
    "a recursion without end": {"$ref": "#/$defs/never"},
}


@pytest.mark.parametrize("name", VOID)
def test_lists_without_possible_items_are_only_one_value(name: str) -> None:
    schema = array({"type": "array", "items": VOID[name]}, minItems=2) | {"$defs": {"never": NEVER}}
    with pytest.raises(UnsupportedSchema, match="too few items may be left"):
        lk.JsonSchema(schema, vocabulary())


def test_lists_that_may_have_items_are_many_values() -> None:
    tree = {"$ref": "#/$defs/tree"}
    schema = array(tree, minItems=2) | {"$defs": {"tree": {"type": "array", "items": tree}}}
    assert illegal_byte(lk.JsonSchema(schema, vocabulary()), b"[[],[[]],[[],[[]]]]") is None


def illegal_byte(constraint: lk.JsonSchema, text: bytes) -> int | None:
    """Return the index of the first byte of a text that is illegal, which mask and step agree on; None: all are legal."""
    state = constraint.init_state(lk.Context.of([[]], vocabulary_size=vocabulary().size))
    for index, byte in enumerate(text):
        is_legal = bool(constraint.allowed_tokens(state)[0, byte])
        state = constraint.advance(state, torch.tensor([byte]))
        assert is_legal != bool(constraint.is_dead(state)[0]), text[: index + 1]
        if not is_legal:
            return index
    return None
