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


NUMBERS = {"type": "number"}
SPELLED_OTHERWISE: dict[str, dict[str, Any]] = {
    "a number": array(NUMBERS, contains={"const": 1}),
    "two numbers": array(NUMBERS, contains={"enum": [1, 2]}, minContains=2),
    "a member": array({"type": "object"}, contains={"const": {"a": 1}}),
}
SPELLED_ALIKE: dict[str, dict[str, Any]] = {
    "an integer": array({"type": "integer"}, contains={"const": 1}),
    "any integer": array(NUMBERS, contains={"type": "integer"}),
    "a string": array({}, contains={"const": "a"}),
    "objects": array({"enum": [{"a": a} for a in range(20)]}, contains={"const": {"a": 1}}),
}


@pytest.mark.parametrize("name", SPELLED_OTHERWISE)
def test_what_contains_asks_for_may_be_used_up_without_being_counted(name: str) -> None:
    """As by 1.0, which is not the text of 1."""
    with pytest.raises(UnsupportedSchema, match="too few items may be left"):
        lk.JsonSchema(SPELLED_OTHERWISE[name], vocabulary())


@pytest.mark.parametrize("name", SPELLED_ALIKE)
def test_what_contains_asks_for_is_counted(name: str) -> None:
    automaton = lk.JsonSchema(SPELLED_ALIKE[name], vocabulary()).automaton
    assert automaton is not None
    assert automaton.remembers is not None


def closed(**properties: Any) -> dict[str, Any]:
    """An object with just these members, in this order."""
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


ONE, MANY = {"const": 1}, {"enum": [*range(20)]}
FIRST, SECOND = closed(a=ONE, b=MANY), closed(b=MANY, a=ONE)
OPEN = {key: value for key, value in SECOND.items() if key != "additionalProperties"}
TWO_ORDERS: dict[str, dict[str, Any]] = {
    "branches": array({"anyOf": [FIRST, SECOND]}),
    "one may have more members": array({"anyOf": [FIRST, OPEN]}),
    "places": array(SECOND, prefixItems=[FIRST]),
    "members of items": array(closed(x={"anyOf": [FIRST, SECOND]})),
    "constants": array({"enum": [*[{"a": 1, "b": b} for b in range(20)], *[{"b": b, "a": 1} for b in range(19, 40)]]}),
    "a constant and a branch": array({"anyOf": [FIRST, {"const": {"b": 1, "a": 1}}]}),
    "contains": array({"type": "object"}, contains=closed(a=ONE, b={"type": "string"})),
}
ONE_ORDER: dict[str, dict[str, Any]] = {
    "both may have more members": array({"anyOf": [OPEN, {"properties": {"a": ONE, "b": MANY}, "type": "object"}]}),
    "branches that a member tells apart": array(
        {"anyOf": [closed(t=ONE, a=ONE, b=MANY), closed(t={"const": 2}, b=MANY, a=ONE)]}
    ),
    "places in items": array({"type": "array", "prefixItems": [FIRST, SECOND]}),
    "different constants": array(
        {"enum": [*[{"a": 1, "b": b} for b in range(20)], *[{"b": b, "a": 1} for b in range(20, 40)]]}
    ),
}


@pytest.mark.parametrize("name", TWO_ORDERS)
def test_equal_objects_in_two_orders_are_refused(name: str) -> None:
    with pytest.raises(UnsupportedSchema, match="equal objects in two orders"):
        lk.JsonSchema(TWO_ORDERS[name], vocabulary())


@pytest.mark.parametrize("name", ONE_ORDER)
def test_objects_in_one_order_are_remembered(name: str) -> None:
    automaton = lk.JsonSchema(ONE_ORDER[name], vocabulary()).automaton
    assert automaton is not None
    assert automaton.remembers is not None


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


def test_a_byte_that_is_not_a_token_ends_the_row() -> None:
    """Here no token is a colon alone, and the token `":` ends a string of an array."""
    tokens = [*(bytes([byte]) for byte in range(256) if byte != ord(":")), b'":', None]
    vocabulary = lk.Vocabulary(tokens, eos_ids=[len(tokens) - 1])
    strings = {"type": "array", "items": {"type": "string", "pattern": "^[a-z]*$"}, "uniqueItems": True}
    constraint = lk.JsonSchema(strings, vocabulary)
    assert constraint.automaton.remembers is not None
    state = constraint.init_state(lk.Context.of([[]], vocabulary_size=vocabulary.size))
    for token in (b"[", b'"', b"a"):
        state = constraint.advance(state, torch.tensor([tokens.index(token)]))
    assert not constraint.allowed_tokens(state)[0, tokens.index(b'":')]
    assert constraint.is_dead(constraint.advance(state, torch.tensor([tokens.index(b'":')]))).all()


@pytest.mark.parametrize("last", [b"3", b"19", b"0"])
def test_no_item_follows_when_all_are_used(last: bytes) -> None:
    constraint = lk.JsonSchema(array(MANY), vocabulary())
    others = [b"%d" % number for number in range(20) if b"%d" % number != last]
    text = b"[" + b",".join([*others, last])
    assert illegal_byte(constraint, text + b"]") is None
    assert illegal_byte(constraint, text + b",") == len(text)
    state = constraint.init_state(lk.Context.of([[]], vocabulary_size=vocabulary().size))
    state = constraint.advance(state, torch.tensor([[*text[: -len(last)]]]))
    tokens = vocabulary().tokens
    legal = [tokens[i] for i in constraint.allowed_tokens(state)[0].nonzero().flatten()]
    assert legal == [last[:1]]


def test_a_byte_that_stands_in_longer_tokens_only_is_refused() -> None:
    """Else a row would be stuck after `"a` where `"ab"` is used up, because `b"` cannot follow."""
    tokens = [*(bytes([byte]) for byte in range(256) if byte != ord("b")), b'b"', None]
    with pytest.raises(UnsupportedSchema, match="lacks a token for some byte of the items"):
        lk.JsonSchema(array({"type": "string"}), lk.Vocabulary(tokens, eos_ids=[len(tokens) - 1]))


def test_a_token_that_ends_the_last_item_of_a_beginning_and_begins_it_again_is_illegal() -> None:
    """After 1 and 11, no other number begins with 1."""
    constraint = lk.JsonSchema(array({"enum": [*range(1, 8), *range(11, 80, 11)]}), vocabulary())
    index = vocabulary().tokens.index(b"1,1")
    for text, is_legal in ((b"[1,1", False), (b"[2,1", True), (b"[22,1", True)):
        state = constraint.init_state(lk.Context.of([[]], vocabulary_size=vocabulary().size))
        state = constraint.advance(state, torch.tensor([[*text]]))
        assert bool(constraint.allowed_tokens(state)[0, index]) == is_legal, text
        assert bool(constraint.is_dead(constraint.advance(state, torch.tensor([index])))[0]) != is_legal, text
