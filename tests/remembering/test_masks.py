"""Masks of arrays whose items must differ, compared with all texts of a finite language, over all ways to write them in tokens.

The oracle lists the values by Python, keeps the arrays that jsonschema accepts, and writes them with `json.dumps`. A token is
legal if the text with it begins one of these.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import product
from typing import Any

import pytest
import torch
from jsonschema import Draft202012Validator

import logitkit as lk
from tests.examples import CI

PIECES = [
    *(
        ",",
        '","',
        '",',
        '["',
        '"]',
        '"a',
        'a"',
        '"b"',
        '","a',
        'a","',
        '","b","',
        "1,",
        ",1",
        "1,1",
        "10",
        "11",
        "1]",
        ",1]",
    ),
    *(
        "[]",
        "[],",
        "],[",
        "]]",
        '},{"',
        '{"a":',
        ":1}",
        '":1',
        "1}",
        '1},{"a":1',
        '"a":',
        ',"b":',
        "tru",
        "e,",
        "e}",
        '"]]',
        '"],["',
    ),
    *("2]", "3,", "0,", "]", "a", "ab", "b", 'b"'),
    # An array with several items begins in one token.
    *('["a","a', '["a","b', '["b","b"]', "[1,1", "[1,10"),
]


@cache
def vocabulary() -> lk.Vocabulary:
    """All bytes, and pieces of JSON texts that end and begin items."""
    tokens = [*(bytes([byte]) for byte in range(256)), *(piece.encode() for piece in PIECES), None]
    return lk.Vocabulary(tokens, eos_ids=[len(tokens) - 1])


def arrays(items: Iterable[Any], most: int) -> Iterator[list[Any]]:
    """All arrays of up to some number of items."""
    values = [*items]
    for count in range(most + 1):
        yield from map(list, product(values, repeat=count))


def words(letters: str, most: int) -> list[str]:
    return ["".join(word) for count in range(most + 1) for word in product(letters, repeat=count)]


def objects(**members: list[Any]) -> list[dict[str, Any]]:
    """All objects with some of the members, which may be missing."""
    found: list[dict[str, Any]] = [{}]
    for name, values in members.items():
        found = [*found, *[{**one, name: value} for one in found for value in values]]
    return found


def array(items: Any, **keywords: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, "uniqueItems": True, **keywords}


NAMED = {
    "type": "object",
    "properties": {"a": {"enum": [1, 2, 10, 11]}, "b": {"type": "boolean"}},
    "additionalProperties": False,
}
WORDS = {"type": "string", "pattern": "^[ab]{0,3}$"}
NUMBERS = {"type": "integer", "minimum": 0, "maximum": 13}
MIXED_ITEMS = {"anyOf": [NUMBERS, {"enum": ["a", "b"]}]}
MIXED = [*range(14), "a", "b"]
# Each with all values that may satisfy it: jsonschema decides.
LANGUAGES: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "words": (array({"type": "string", "pattern": "^[ab]{0,3}$"}, maxItems=3), [*arrays(words("ab", 3), 3)]),
    "integers": (array({"type": "integer", "minimum": 0, "maximum": 13}, maxItems=3), [*arrays(range(14), 3)]),
    "beginnings with one end": (
        array({"enum": [*range(1, 8), *range(11, 80, 11)]}, maxItems=3),
        [*arrays([*range(1, 8), *range(11, 80, 11)], 3)],
    ),
    "all used": (
        {
            "type": "array",
            "prefixItems": [{"const": 1}],
            "items": {"enum": [*range(13)]},
            "uniqueItems": True,
            "maxItems": 3,
        },
        [*arrays(range(13), 3)],
    ),
    "at least two": (
        array({"type": "string", "pattern": "^[ab]{1,3}$"}, minItems=2, maxItems=2),
        [*arrays(words("ab", 3), 2)],
    ),
    "objects": (array(NAMED, maxItems=2), [*arrays(objects(a=[1, 2, 10, 11], b=[True, False]), 2)]),
    "arrays in an array": (
        array(array({"type": "string", "pattern": "^[ab]{0,3}$"}, minItems=1, maxItems=1), maxItems=2),
        [*arrays(arrays(words("ab", 3), 1), 2)],
    ),
    "a tuple": (
        {
            "type": "array",
            "prefixItems": [{"type": "string", "pattern": "^[ab]{0,3}$"}, {"enum": ["a", 1]}],
            "items": {"enum": ["a", "b", 1, 2, 11]},
            "uniqueItems": True,
            "maxItems": 3,
        },
        [*arrays([*words("ab", 3), 1, 2, 11], 3)],
    ),
    "contains": (
        array(
            {"type": "string", "pattern": "^[ab]{1,3}$"},
            contains={"enum": ["ab", "aab"]},
            minContains=2,
            maxItems=3,
        ),
        [*arrays(words("ab", 3), 3)],
    ),
    "contains few": (
        array(
            {"type": "string", "pattern": "^[ab]{1,3}$"},
            contains={"pattern": "^b"},
            maxContains=1,
            minItems=2,
            maxItems=3,
        ),
        [*arrays(words("ab", 3), 3)],
    ),
    "in a member": (
        {
            "type": "object",
            "properties": {"a": array({"type": "string", "pattern": "^[ab]{0,3}$"}, maxItems=2), "b": {"const": 1}},
            "required": ["a", "b"],
            "additionalProperties": False,
        },
        [{"a": one, "b": 1} for one in arrays(words("ab", 3), 2)],
    ),
    "any of two sets": (
        {"anyOf": [array(WORDS, maxItems=2), array(NUMBERS, minItems=1, maxItems=2), array(MIXED_ITEMS, maxItems=1)]},
        [*arrays([*MIXED, *words("ab", 3)], 2)],
    ),
    "one of two sets": (
        {"oneOf": [array(NUMBERS, minItems=1, maxItems=3), array(MIXED_ITEMS, minItems=2, maxItems=2)]},
        [*arrays(MIXED, 3)],
    ),
    "from two items on": (
        {"type": "array", "items": WORDS, "maxItems": 3, "if": {"minItems": 2}, "then": {"uniqueItems": True}},
        [*arrays(words("ab", 3), 3)],
    ),
    "eleven values": (array({"enum": [*range(10), "a"]}, maxItems=3, minItems=1), [*arrays([*range(10), "a"], 3)]),
    "not equal ones": (
        {"type": "array", "items": NUMBERS, "maxItems": 3, "not": {"not": {"uniqueItems": True}}},
        [*arrays(range(14), 3)],
    ),
}


@cache
def texts(name: str) -> frozenset[bytes]:
    """All texts of a language."""
    schema, values = LANGUAGES[name]
    is_valid = Draft202012Validator(schema).is_valid
    return frozenset(json.dumps(value, separators=(",", ":")).encode() for value in values if is_valid(value))


@cache
def beginnings(name: str) -> frozenset[bytes]:
    return frozenset(text[:length] for text in texts(name) for length in range(len(text) + 1))


@pytest.mark.parametrize("name", LANGUAGES)
def test_a_token_is_legal_if_the_text_can_go_on(name: str) -> None:
    constraint = lk.JsonSchema(LANGUAGES[name][0], vocabulary())
    assert constraint.automaton.remembers is not None
    tokens, end, draw = vocabulary().tokens, vocabulary().eos_ids[0], random.Random(name)
    complete, begun = texts(name), beginnings(name)
    for _ in range(60 if CI else 15):
        state, text = constraint.init_state(lk.Context.of([[]], vocabulary_size=vocabulary().size)), b""
        while True:
            allowed = constraint.allowed_tokens(state)[0].nonzero().flatten().tolist()
            wanted = [i for i, token in enumerate(tokens) if token is not None and text + token in begun]
            assert allowed == wanted + [end] * (text in complete), text
            if not wanted:
                break
            # Longer texts say more.
            longer = [i for i in wanted if b"]" not in (tokens[i] or b"")]
            token = draw.choice(longer if longer and draw.random() < 0.9 else wanted)
            state, text = constraint.advance(state, torch.tensor([token])), text + (tokens[token] or b"")


@pytest.mark.parametrize("name", LANGUAGES)
def test_an_illegal_token_ends_the_row(name: str) -> None:
    """So an unconstrained draft leaves the language where the mask would have."""
    constraint = lk.JsonSchema(LANGUAGES[name][0], vocabulary())
    tokens, draw, begun = vocabulary().tokens, random.Random(name), beginnings(name)
    draws = draw.sample(sorted(begun), 16)
    ids = [i for i, token in enumerate(tokens) if token is not None]
    context = lk.Context.of([[]] * len(ids), vocabulary_size=vocabulary().size)
    start = constraint.init_state(context)
    for text in draws:
        state = constraint.advance(start, torch.tensor([[*text]] * len(ids), dtype=torch.int64).reshape(len(ids), -1))
        after = constraint.advance(state, torch.tensor(ids))
        assert constraint.is_dead(after).tolist() == [text + (tokens[i] or b"") not in begun for i in ids], text
