"""Objects that need several names which are not listed: a row remembers them. Compared with all texts of finite languages.

The oracle writes all members in all orders, without a name that comes twice, and keeps the objects that jsonschema accepts. Names
are listed in an automaton if they are few. So these tests let very few be few.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import permutations, product
from pathlib import Path
from typing import Any

import pytest
import torch
from jsonschema import Draft202012Validator

import logitkit as lk
from logitkit.errors import StateFileError, UnsupportedSchema
from logitkit.json_schema import member_names
from logitkit.runtime.remembering.remembering_state import RememberingState
from tests.examples import CI
from tests.remembering.test_masks import PIECES, words

MORE = [
    'a":',
    'b":1',
    '1,"',
    '1,"a',
    '":1,"',
    '":1,"a":',
    '{"a":1,"a',
    '{"a":1,"b',
    '{"b":1,"',
    '},"a":',
    '":{"',
    '"a":1}',
    "1},",
]
TOKENS = [*(bytes([byte]) for byte in range(256)), *(piece.encode() for piece in [*PIECES, *MORE]), None]
# More names than these are not listed.
FEW = 3


@cache
def vocabulary() -> lk.Vocabulary:
    return lk.Vocabulary(TOKENS, eos_ids=[len(TOKENS) - 1])


@pytest.fixture(autouse=True)
def few_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(member_names, "MOST_LISTED", FEW)


def objects(names: Iterable[str], values: list[Any], most: int, listed: Iterable[str] = ()) -> Iterator[dict[str, Any]]:
    """Yield all objects of up to some number of members, in all orders in which listed names come first, in theirs."""
    order, every = [*listed], [*listed, *names]
    for count in range(most + 1):
        for some in permutations(every, count):
            first = [name for name in order if name in some]
            if [*some[: len(first)]] == first:
                for given in product(values, repeat=count):
                    yield dict(zip(some, given, strict=True))


WORDS = words("ab", 2)
NAMES = {"propertyNames": {"pattern": "^[ab]{0,2}$"}}
TWO: dict[str, Any] = {
    "type": "object",
    **NAMES,
    "additionalProperties": {"const": 1},
    "minProperties": 2,
    "maxProperties": 2,
}
# Each with all values that may satisfy it: jsonschema decides.
LANGUAGES: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "at least two": (
        {**TWO, "additionalProperties": {"enum": [1, 11]}, "maxProperties": 3},
        [*objects(WORDS, [1, 11], 3)],
    ),
    "at least three": ({**TWO, "minProperties": 3, "maxProperties": 4}, [*objects(WORDS, [1], 4)]),
    "all names used": (
        {
            "type": "object",
            "patternProperties": {"^(|a|aa|b)$": {"const": 1}},
            "additionalProperties": False,
            "minProperties": 2,
        },
        [*objects(["", "a", "aa", "b"], [1], 4)],
    ),
    "listed names": (
        {
            "type": "object",
            "properties": {"ab": {"const": 1}, "c": {"const": 1}},
            "patternProperties": {"^[ab]{0,2}$": {"const": 1}},
            "additionalProperties": False,
            "minProperties": 3,
            "maxProperties": 3,
        },
        [*objects([word for word in WORDS if word != "ab"], [1], 3, ["ab", "c"])],
    ),
    "a required name": (
        {**TWO, "properties": {"a": {"const": 1}}, "required": ["a"], "minProperties": 3, "maxProperties": 3},
        [*objects([word for word in WORDS if word != "a"], [1], 3, ["a"])],
    ),
    "two sets of names": (
        {
            "type": "object",
            "patternProperties": {"^a[ab]{0,2}$": {"const": 1}, "^b[ab]{0,2}$": {"const": 2}},
            "additionalProperties": False,
            "minProperties": 2,
            "maxProperties": 2,
        },
        [*objects([word for word in words("ab", 3) if word], [1, 2], 2)],
    ),
    "inside of each other": (
        {
            "type": "object",
            "properties": {"c": TWO},
            "patternProperties": {"^[ab]{0,2}$": {"const": 1}},
            "additionalProperties": False,
            "required": ["c"],
            "minProperties": 3,
            "maxProperties": 3,
        },
        [{"c": inner, **outer} for inner in objects(WORDS, [1], 2) for outer in objects(WORDS, [1], 2)],
    ),
    "branches": (
        {
            "anyOf": [
                TWO,
                {
                    "type": "object",
                    "properties": {"a": {"const": 2}, "b": {"const": 2}},
                    "required": ["a"],
                    "additionalProperties": False,
                },
                {
                    "type": "object",
                    "patternProperties": {"^b[ab]?$": {"const": 3}},
                    "additionalProperties": False,
                    "maxProperties": 2,
                    "minProperties": 1,
                },
            ],
            "propertyNames": {"pattern": "^[ab]{0,2}$"},
            "additionalProperties": {"enum": [1, 2, 3]},
        },
        [*objects(WORDS, [1], 2), {"a": 2}, {"a": 2, "b": 2}, *objects([], [3], 2, ["b", "ba", "bb"])],
    ),
    "in an array": (
        {"type": "array", "items": TWO, "minItems": 1, "maxItems": 2},
        [[*pair] for count in (1, 2) for pair in product([*objects(WORDS, [1], 2)], repeat=count)],
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
    end, draw = vocabulary().eos_ids[0], random.Random(name)
    complete, begun = texts(name), beginnings(name)
    assert complete
    for _ in range(60 if CI else 15):
        state, text = constraint.init_state(lk.Context.of([[]], vocabulary_size=vocabulary().size)), b""
        while True:
            allowed = constraint.allowed_tokens(state)[0].nonzero().flatten().tolist()
            wanted = [i for i, token in enumerate(TOKENS) if token is not None and text + token in begun]
            assert allowed == wanted + [end] * (text in complete), text
            if not wanted:
                break
            token = draw.choice(wanted)
            state, text = constraint.advance(state, torch.tensor([token])), text + (TOKENS[token] or b"")


@pytest.mark.parametrize("name", LANGUAGES)
def test_an_illegal_token_ends_the_row(name: str) -> None:
    constraint = lk.JsonSchema(LANGUAGES[name][0], vocabulary())
    draw, begun = random.Random(name), beginnings(name)
    ids = [i for i, token in enumerate(TOKENS) if token is not None]
    start = constraint.init_state(lk.Context.of([[]] * len(ids), vocabulary_size=vocabulary().size))
    for text in draw.sample(sorted(begun), 16):
        state = constraint.advance(start, torch.tensor([[*text]] * len(ids), dtype=torch.int64).reshape(len(ids), -1))
        after = constraint.advance(state, torch.tensor(ids))
        assert constraint.is_dead(after).tolist() == [text + (TOKENS[i] or b"") not in begun for i in ids], text


def test_a_loaded_row_knows_the_names(tmp_path: Path) -> None:
    schema = {"type": "object", "additionalProperties": {"type": "object", "minProperties": 2}}
    processor = lk.JsonSchema(schema, vocabulary())
    state = processor.init_state(lk.Context.of([[]], vocabulary_size=vocabulary().size))
    state = processor.advance(state, torch.tensor([[*b'{"a":{"a":1,"b']]))
    lk.save_state(tmp_path / "state", state, processor)
    again = lk.load_state(tmp_path / "state", processor)
    assert torch.equal(processor.allowed_tokens(again), processor.allowed_tokens(state))
    # The inner object has the name "a" already, the outer one may have "b".
    for text, is_legal in ((b'b":1,"a"', False), (b'":1,"bb":1},"b"', True), (b'":1},"b":{"a":1,"b":1', True)):
        after = processor.advance(again, torch.tensor([[*text]]))
        assert bool(processor.is_dead(after)[0]) != is_legal, text


def test_a_text_of_another_bracket_is_refused(tmp_path: Path) -> None:
    processor = lk.JsonSchema({"type": "object", "minProperties": 2}, vocabulary())
    state = processor.init_state(lk.Context.of([[]], vocabulary_size=vocabulary().size))
    state = processor.advance(state, torch.tensor([[*b'{"a']]))
    assert isinstance(state, RememberingState)
    changed = state._replace(text=torch.tensor([[*b'["a']], dtype=torch.int16))
    lk.save_state(tmp_path / "state", changed, processor)
    with pytest.raises(StateFileError, match="does not begin with"):
        lk.load_state(tmp_path / "state", processor)


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "with 'closing'": ({"type": "object", "minProperties": 2}, {"closing": True}),
    "there may be too few": ({"type": "object", "propertyNames": {"pattern": "^[ab]{1,2}$"}, "minProperties": 6}, {}),
    "other items or names": (
        {
            "type": "array",
            "items": {"type": "object"},
            "contains": {"type": "object", "minProperties": 2},
            "maxContains": 1,
        },
        {},
    ),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_names_are_not_remembered_everywhere(reason: str) -> None:
    schema, options = REFUSED[reason]
    with pytest.raises(UnsupportedSchema, match=f"different names that are not listed would be needed, and .*{reason}"):
        lk.JsonSchema(schema, vocabulary(), **options)


def test_other_objects_are_not_remembered() -> None:
    for keywords in ({"minProperties": 1}, {"maxProperties": 2}, {"minProperties": 2, "required": ["a", "b"]}):
        assert lk.JsonSchema({"type": "object", **keywords}, vocabulary()).automaton.remembers is None
