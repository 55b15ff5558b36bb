"""Strings whose characters are counted have the masks of strings that have states for each length."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.constraints.json_schema import SCHEMA_LIMITS
from logitkit.errors import ConfigurationError, StateFileError, UnsupportedSchema
from logitkit.json_schema import string_set, string_union
from logitkit.json_schema.string_set import StringSet
from tests.automata.linked import written
from tests.examples import examples
from tests.json_schema.generated import schemas
from tests.json_schema.judge import judge
from tests.vocabularies import tekken

# Tokens that end strings, begin others and have many characters.
TOKENS = [
    *[bytes([b]) for b in range(256)],
    *(b"ab", b'abc"', b'"a', b'a","', b'"}', b'{"', b'"]', b"aaaa", "éé".encode(), b"\xa9a", b'a"', b'","aa', b'":"'),
    *(
        b"\\n\\n",
        b"a\\u00",
        b"1fb",
        b'"":"',
        b"a" * 18,
        b'"' + b"a" * 18,
        b'"aaa","aaa',
        b'aaa":"' + b"a" * 17,
        b'aa",",a',
    ),
    # Strings of any length up to their end and beyond, and others.
    *(
        b'"' + b"a" * 18 + b'"',
        b'["' + b"a" * 18 + b"c",
        b'["' + b"a" * 18,
        b'["a"',
        b'["aaa"',
        b'["' + b"a" * 18 + b'"',
    ),
    # Characters of several bytes, after the beginning of a string inside the token.
    *('["éé'.encode(), ',"éé'.encode(), '":"é\\n'.encode(), '","é\\n'.encode(), ('["' + "é" * 17).encode()),
]
VOCABULARY = lk.Vocabulary([*TOKENS, None], eos_ids=[len(TOKENS)])


def string(**keywords: Any) -> dict[str, Any]:
    return {"type": "string", **keywords}


SCHEMAS: dict[str, Any] = {
    "at most": string(maxLength=20),
    "at least": string(minLength=17),
    "both, and a pattern": string(minLength=3, maxLength=20, pattern="^a(b|é\\n)*$"),
    "a pattern that needs many": string(maxLength=20, pattern="^aaaa.*aaaa$"),
    "a pattern with a count": string(pattern="^a[ab]{3,17}$"),
    "a pattern with a count, searched": string(pattern="^[^]{2}b?[^]{0,20}"),
    "a count that others follow": string(pattern="^[ac]{0,17}bb$"),
    "a count and a length": string(pattern="^[^b]{4,40}$", maxLength=18),
    "exactly": string(minLength=17, maxLength=17),
    "items": {"type": "array", "items": string(maxLength=18)},
    "members": {
        "properties": {"a": string(maxLength=30), "": string(minLength=16, maxLength=19)},
        "required": ["a", ""],
        "additionalProperties": False,
    },
    "beside objects": {
        "items": {"anyOf": [string(maxLength=17), {"type": "object", "additionalProperties": string(minLength=17)}]}
    },
    "one after another": {
        "type": "array",
        "prefixItems": [string(maxLength=17), string(minLength=18, maxLength=18), string(maxLength=19, pattern="^a")],
        "items": string(minLength=20),
    },
    "names": {"type": "object", "patternProperties": {"^[^]{1,17}$": {"type": "null"}}, "additionalProperties": False},
    "names beside others": {
        "properties": {"c": string(maxLength=17)},
        "patternProperties": {"^[ab]{1,17}$": {"type": "null"}},
        "additionalProperties": False,
    },
    "called": {"properties": {c: string(maxLength=16 + i % 2) for i, c in enumerate("abcdefghijklmnopqrst")}},
    "or of any length": {"anyOf": [string(maxLength=17), string(pattern="^[ab]*$")]},
    "or of any length, in an array": {"items": {"anyOf": [string(maxLength=17), string(pattern="^a*$")]}},
    "at least, or others, in an array": {"items": {"anyOf": [string(minLength=17), string(pattern="^a?b?$")]}},
    "at least, or others": {"anyOf": [string(minLength=17), string(pattern="^a*b$")]},
    "between, or others": {"anyOf": [string(minLength=3, maxLength=18, pattern="^[aé]*$"), string(pattern="^a(aa)*$")]},
    "several of any length": {
        "items": {"anyOf": [string(maxLength=17), string(pattern="^a*$"), string(maxLength=20), string(pattern="é$")]}
    },
    "names of any length": {
        "patternProperties": {"^([^]{1,17}|a+)$": {"type": "null"}},
        "propertyNames": {"anyOf": [{"maxLength": 16}, {"pattern": "^[ab]+$"}]},
        "additionalProperties": False,
    },
    "of any length, called": {
        "properties": {
            c: {"anyOf": [string(maxLength=17), string(pattern="^[ab]{3}(aaa|é)*c?$")]} for c in "abcdefghijklmnopqrst"
        }
    },
    "any length, in a recursion": {
        "properties": {"v": {"anyOf": [string(pattern="^(ab)*$"), string(maxLength=17)]}, "next": {"$ref": "#"}},
        "additionalProperties": False,
    },
    "in a recursion": {"properties": {"v": string(maxLength=17), "next": {"$ref": "#"}}, "additionalProperties": False},
}


# A string must be followed by another array, for which there may be no room.
PAIRS = {"type": "array", "prefixItems": [string(maxLength=17), {"$ref": "#"}], "items": False, "minItems": 2}


def automata(schema: Any, counted_from: int, max_depth: int = 6) -> tuple[TokenAutomaton, TokenAutomaton]:
    """Return the automaton that counts, and the one that has states for each length."""
    found = []
    for shortest, limits in ((counted_from, SCHEMA_LIMITS), (10**9, lk.Limits(SCHEMA_LIMITS.states + 1))):
        with (
            patch.object(string_set, "COUNTED_FROM", shortest),
            patch.object(string_union, "COUNTED_FROM", shortest),
        ):
            found.append(lk.JsonSchema(schema, VOCABULARY, max_depth=max_depth, limits=limits).automaton)
    return found[0], found[1]


def check_masks(counting: TokenAutomaton, other: TokenAutomaton, seed: int, walks: int) -> None:
    """Follow the same random tokens with both; tokens with much text are chosen more often."""
    rng = random.Random(seed)
    for _ in range(walks):
        rows = [(a.start, bytes(4 * a.nesting.max_depth)) for a in (counting, other)]
        for _ in range(40):
            legal = [a.per_token(a.legal(a.mask_key(*row, -1))) for a, row in zip((counting, other), rows, strict=True)]
            assert np.array_equal(legal[0], legal[1])
            ids = np.flatnonzero(legal[0]).tolist()
            token = rng.choices(ids, [1 + 3 * len(VOCABULARY.tokens[i] or b"") for i in ids])[0]
            rows = [a.step(*row, token) for a, row in zip((counting, other), rows, strict=True)]
            assert counting.has_state(rows[0][0])
            assert (rows[0][0] < 2) == (rows[1][0] < 2)
            if rows[0][0] < 2:
                break


@pytest.mark.parametrize("name", SCHEMAS)
def test_masks_are_those_of_states_for_each_length(name: str) -> None:
    counting, other = automata(SCHEMAS[name], string_set.COUNTED_FROM)
    assert counting.counting is not None or name == "a pattern with a count, searched"
    assert other.counting is None
    check_masks(counting, other, seed=1, walks=examples(40))


def test_nothing_is_counted_where_other_texts_begin_like_a_string() -> None:
    ways = (({"const": "b" * 5}, {"type": "null"}), (string(maxLength=17, pattern="^[ac]*$"), {"type": "boolean"}))
    pairs = [{"type": "array", "prefixItems": way, "minItems": 2, "items": False} for way in map(list, ways)]
    schema = {"anyOf": pairs}
    counting, other = automata(schema, string_set.COUNTED_FROM)
    assert counting.counting is None
    check_masks(counting, other, seed=3, walks=10)


@pytest.mark.parametrize("max_depth", [1, 2, 3])
def test_a_string_begins_only_where_what_follows_has_room(max_depth: int) -> None:
    schema = {"anyOf": [PAIRS, {"type": "array", "maxItems": 0}]}
    counting, other = automata(schema, string_set.COUNTED_FROM, max_depth)
    assert counting.counting is not None
    check_masks(counting, other, seed=2, walks=40)


@settings(max_examples=examples(60), deadline=None)
@given(schemas, st.integers(0, 1000))
def test_those_of_generated_schemas_too(schema: Any, seed: int) -> None:
    try:
        counting, other = automata(schema, 1)
    except (ConfigurationError, UnsupportedSchema):
        return
    check_masks(counting, other, seed, walks=4)


@pytest.mark.parametrize(("least", "most"), [(0, 32767), (1000, 1000), (31, 10**12)])
def test_long_strings_cost_no_states(least: int, most: int) -> None:
    schema = string(minLength=least, maxLength=most)
    constraint = lk.JsonSchema(schema, tekken())
    assert constraint.automaton.states < 100
    valid = judge(schema).is_valid
    for seed, length in enumerate((0, least - 1, least, least + 1, min(most, 40_000), min(most, 40_000) + 1)):
        text = "aé\n" * (length // 3) + "x" * (length % 3)
        assert written(text, constraint, seed) == valid(text)


def test_few_strings_that_must_be_long_are_counted_too() -> None:
    length = 20_000
    constraint = lk.JsonSchema(string(pattern="^a*$", minLength=length, maxLength=length + 1), VOCABULARY)
    assert constraint.automaton.states < 10
    assert [written("a" * n, constraint, 0) for n in (length - 1, length + 1, length + 2)] == [False, True, False]
    none = StringSet.of_values(["a"], SCHEMA_LIMITS) & StringSet.of_length(length, None, SCHEMA_LIMITS)
    assert none.values() == []


def test_a_count_is_saved_and_an_impossible_one_refused(tmp_path: Path) -> None:
    constraint = lk.JsonSchema(string(maxLength=1000), VOCABULARY)
    context = lk.Context.of([[]], vocabulary_size=VOCABULARY.size)
    state = constraint.advance(constraint.init_state(context), torch.tensor([list(b'"' + b"a" * 999)]))
    lk.save_state(tmp_path / "state", state, constraint)
    loaded = lk.load_state(tmp_path / "state", constraint)
    masked = constraint.process_logits(loaded, torch.zeros(1, VOCABULARY.size), context)[1][0]
    assert (masked[[ord("a"), ord('"')]] == 0).all()
    assert masked[TOKENS.index(b"ab")] == -torch.inf
    broken = state._replace(at=state.at._replace(state=state.at.state + (2 << 32)))
    lk.save_state(tmp_path / "broken", broken, constraint)
    with pytest.raises(StateFileError, match="is in state"):
        lk.load_state(tmp_path / "broken", constraint)


def test_no_token_leaves_a_count_as_it_is() -> None:
    automaton = lk.JsonSchema(string(maxLength=1000), VOCABULARY).automaton
    row = automaton.start, bytes(4 * automaton.nesting.max_depth)
    for token in b'"aaa':
        row = automaton.step(*row, token)
    assert automaton.step(*row, -1) == row


def test_masks_are_computed_once_for_counts_between_which_nothing_changes() -> None:
    automaton = lk.JsonSchema(string(maxLength=1000), VOCABULARY).automaton
    row, places = (automaton.start, bytes(4 * automaton.nesting.max_depth)), set()
    for token in b'"' + b"a" * 1000:
        row = automaton.step(*row, token)
        places.add(automaton.mask_key(*row, -1))
    assert len(places) < 2 * max(map(len, TOKENS))
