"""Arrays of many items, where a row keeps what it knows of the items before: the mask and the step agree on all tokens.

The step reads each token byte by byte. The mask leaves out most tokens by what is known of items, of the place and of earlier
masks.
"""

from __future__ import annotations

import json
import random
from decimal import Decimal
from typing import Any

import pytest
import torch

import logitkit as lk
from logitkit.json_schema.layout import Whitespace
from tests.examples import CI
from tests.remembering.test_masks import PIECES, array

MORE = [
    "50,",
    ",-",
    ",0e",
    ",0",
    ".0",
    ".5,",
    "1e1",
    "-0",
    "0]",
    "5}",
    '0},{"',
    '":"',
    '{"a":',
    "true},",
    '","b":',
    "},",
]
SPACED = [
    " ",
    '" "',
    '", "',
    ", ",
    ": ",
    " ]",
    " }",
    '" ',
    " 1",
    "\n",
    "\n  ",
    "1 ,",
    "0 ",
    " -",
    '": 1',
    '", "a',
    " -0",
    ', "',
    ' "a',
    "}, {",
]
TOKENS = [*(bytes([byte]) for byte in range(256)), *(piece.encode() for piece in [*PIECES, *MORE, *SPACED]), None]
VOCABULARY = lk.Vocabulary(TOKENS, eos_ids=[len(TOKENS) - 1])
CONTEXT = lk.Context.of([[]] * len(TOKENS), vocabulary_size=VOCABULARY.size)

OBJECTS = {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "string"}}}
CLOSED = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "boolean"}},
    "required": ["a", "b"],
    "additionalProperties": False,
}
# The schemas of items, and the bytes that texts are made of.
ITEMS: dict[str, tuple[dict[str, Any], bytes]] = {
    "strings": ({"type": "string"}, b'"ab'),
    "an enum": ({"enum": [f"a{number}" for number in range(30)]}, b'"a0123456789'),
    "words": ({"type": "string", "pattern": "^[ab]{0,4}$"}, b'"ab'),
    "integers": ({"type": "integer"}, b"015-"),
    "a range": ({"type": "integer", "minimum": -5, "maximum": 30}, b"0123456789-"),
    "numbers": ({"type": "number"}, b"015-.e"),
    "numbers up to 1": ({"type": "number", "minimum": 0, "maximum": 1}, b"015-.e"),
    "objects": (OBJECTS, b'"ab1.:5{},c'),
    "closed objects": (CLOSED, b'"ab123:{},trufals'),
    "objects of two names": (
        {"type": "object", "minProperties": 2, "additionalProperties": {"type": "integer"}},
        b'"ab1:{},',
    ),
    "arrays": (array({"type": "integer", "minimum": 0, "maximum": 13}), b"01[],"),
    "arrays of numbers": ({"type": "array", "items": {"type": "number"}, "maxItems": 2}, b"015.[],"),
    "anything": ({}, b'"a1.:5{},[]-'),
}


def next_token(legal: list[int], letters: bytes, draw: random.Random) -> int | None:
    """Return a token that goes on, for the most part."""
    ids = [token for token in legal if TOKENS[token] is not None]
    going_on = [token for token in ids if not (TOKENS[token] or b"").translate(None, letters + b",")]
    kept = going_on if going_on and draw.random() < 0.95 else ids
    return draw.choice(kept) if kept else None


def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object, whose names are different."""
    assert len(dict(pairs)) == len(pairs), pairs
    return dict(pairs)


def compared(value: Any) -> Any:
    """Return a value that is equal for equal JSON values."""
    if isinstance(value, list):
        return tuple(map(compared, value))
    if isinstance(value, dict):
        return frozenset((name, compared(member)) for name, member in value.items())
    return (str(value), value) if isinstance(value, bool | str) else value


# Those that are also written with white space.
ALSO_SPACED = (
    "strings",
    "integers",
    "numbers",
    "objects",
    "closed objects",
    "objects of two names",
    "arrays of numbers",
)
CASES = [*((name, "compact") for name in ITEMS), *((name, "bounded") for name in ALSO_SPACED)]


@pytest.mark.parametrize(("name", "whitespace"), CASES)
def test_mask_and_step_agree_and_no_item_comes_again(name: str, whitespace: Whitespace) -> None:
    items, letters = ITEMS[name]
    if whitespace == "bounded":
        letters += b" "
    hook = members if "minProperties" in items else None
    constraint, draw = lk.JsonSchema(array(items), VOCABULARY, whitespace=whitespace), random.Random(name)
    for _ in range(2):
        state, text = constraint.init_state(CONTEXT), b""
        for _ in range(60 if CI else 30):
            legal = constraint.allowed_tokens(state)[0].tolist()
            dead = constraint.is_dead(constraint.advance(state, torch.arange(len(TOKENS)))).tolist()
            assert [not one for one in dead] == legal, (
                text,
                [TOKENS[i] for i in range(len(TOKENS)) if legal[i] == dead[i]],
            )
            token = next_token([i for i, is_legal in enumerate(legal) if is_legal], letters, draw)
            if token is None:
                break
            text += TOKENS[token] or b""
            state = constraint.advance(state, torch.full((len(TOKENS),), token))
        complete = text[: text.rfind(b",")] + b"]"
        try:
            values = json.loads(complete, parse_float=Decimal, parse_int=Decimal, object_pairs_hook=hook)
        except ValueError:
            # The last comma stands in an item.
            continue
        assert len({compared(value) for value in values}) == len(values), complete


def test_a_token_that_was_harmless_is_not_after_it_would_repeat_an_item() -> None:
    tokens = [*(bytes([byte]) for byte in range(256)), b',"b"', b',"b":', b',"b', b',"bcd"', None]
    vocabulary = lk.Vocabulary(tokens, eos_ids=[len(tokens) - 1])
    context, longer = lk.Context.of([[]], vocabulary_size=vocabulary.size), range(256, 260)
    named = {"type": "object", "minProperties": 2, "additionalProperties": {"type": "integer"}}
    for schema, text in (
        (array({"type": "string"}), b'["a","b","c","bcd","e"'),
        (array({"enum": [*"abcdefgh", "bcd"]}), b'["a","b","c","bcd","e"'),
        (array(named), b'[{"a":1,"b":1,"c":1,"bcd":1,"e":1},{"a":1,"b":2'),
        (named, b'{"a":1,"b":1,"c":1,"bcd":1,"e":1'),
    ):
        constraint = lk.JsonSchema(schema, vocabulary)
        state = constraint.init_state(context)
        for byte in text:
            # The masks before are what a row knows of tokens that are harmless.
            mask = constraint.allowed_tokens(state)[0]
            for token in longer:
                is_dead = bool(constraint.is_dead(constraint.advance(state, torch.tensor([token])))[0])
                assert bool(mask[token]) is not is_dead, (schema, tokens[token])
            state = constraint.advance(state, torch.tensor([byte]))
        assert not constraint.allowed_tokens(state)[0, 256]
