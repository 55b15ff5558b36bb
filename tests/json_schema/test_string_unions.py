"""Unions and differences of strings whose lengths are bounded: only bounds that differ have states for each length."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any
from unittest.mock import patch

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import logitkit as lk
from logitkit.json_schema import StringSet, string_union
from logitkit.json_schema.string_union import united
from logitkit.limits import DEFAULT_LIMITS
from tests.automata.linked import written
from tests.json_schema.judge import judge
from tests.vocabularies import tekken

TEXTS = ["".join(letters) for length in range(6) for letters in product("ab", repeat=length)]
PATTERNS = ["", "^a", "b$", "^(ab)*$", "^a{2,4}$", "^a*b?$", "^(?!)"]
URI: dict[str, Any] = {"type": "string", "format": "uri", "maxLength": 1001}
WORDS: dict[str, Any] = {"type": "string", "pattern": "^[ab ]*$", "minLength": 2, "maxLength": 300}


@st.composite
def _sets(draw: st.DrawFn) -> StringSet:
    if draw(st.integers(0, 3)) == 0:
        return StringSet.of_values(draw(st.lists(st.sampled_from(TEXTS), max_size=3)), DEFAULT_LIMITS)
    least, most = draw(st.integers(0, 3)), draw(st.none() | st.integers(0, 5))
    return StringSet.matching(draw(st.sampled_from(PATTERNS)), DEFAULT_LIMITS) & StringSet.of_length(
        least, most, DEFAULT_LIMITS
    )


def _members(strings: StringSet) -> set[str]:
    return {text for text in TEXTS if strings.contains(text)}


@pytest.mark.parametrize("union", [StringSet.__or__, united])
@given(_sets(), _sets(), _sets())
def test_operations_are_those_of_sets(
    union: Callable[[StringSet, StringSet], StringSet], one: StringSet, other: StringSet, third: StringSet
) -> None:
    """Also if the operands are results of operations."""
    with patch.object(string_union, "COUNTED_FROM", 1):
        check_operations(union, one, other, third)


def check_operations(
    union: Callable[[StringSet, StringSet], StringSet], one: StringSet, other: StringSet, third: StringSet
) -> None:
    both, left = union(one, other), one - other
    assert _members(both) == _members(one) | _members(other)
    assert _members(left) == _members(one) - _members(other)
    assert _members(both - third) == _members(both) - _members(third)
    assert _members(third - both) == _members(third) - _members(both)
    assert _members(union(left, third)) == _members(left) | _members(third)
    assert _members(union(both, third)) == _members(both) | _members(third)
    assert _members(both & third) == _members(third & both) == _members(both) & _members(third)
    assert _members(~both) == {*TEXTS} - _members(both)
    for strings in (both, left, both - third, union(left, third), union(both, third), union(third, both), both & both):
        found = strings.values()
        assert found is None or {text for text in found if text in TEXTS} == _members(strings)
        expanded = StringSet(strings.language)
        assert _members(expanded) == _members(strings)
        assert strings.is_empty == expanded.is_empty
        assert strings.longest == expanded.longest


@pytest.mark.parametrize("lengths", [(0, 2), (2, None), (1, 3)])
@pytest.mark.parametrize("pattern", ["", "^a*$"])
@pytest.mark.parametrize("others", ["^(ab)*$", "b$"])
def test_operations_on_strings_beside_others_of_any_length(others: str, pattern: str, lengths: tuple[int, int]) -> None:
    bounded = StringSet.matching(pattern, DEFAULT_LIMITS) & StringSet.of_length(*lengths, DEFAULT_LIMITS)
    with patch.object(string_union, "COUNTED_FROM", 1):
        for third in (StringSet.matching("a$", DEFAULT_LIMITS), StringSet.of_length(1, 4, DEFAULT_LIMITS)):
            both = united(bounded, StringSet.matching(others, DEFAULT_LIMITS))
            assert type(both) is not StringSet
            check_operations(united, both, third, StringSet.matching("^b", DEFAULT_LIMITS))


def test_no_states_are_made_for_lengths_while_sets_are_joined() -> None:
    bounded = StringSet.of_length(0, 2000, DEFAULT_LIMITS)
    both = united(bounded, StringSet.of_format("uri", DEFAULT_LIMITS))
    words = StringSet.matching("^b*$", DEFAULT_LIMITS) & StringSet.of_length(0, 3000, DEFAULT_LIMITS)
    for joined in (
        united(both, words),
        united(words, both),
        both & StringSet.matching("a", DEFAULT_LIMITS),
        both & both,
    ):
        assert joined.contains("a" * 1999)
        assert not joined.is_everything
    assert "texts" not in vars(both)


def test_a_set_without_strings_is_left_out_of_a_union() -> None:
    never = {"type": "string", "minLength": 20, "maxLength": 17}
    constraint = lk.JsonSchema({"anyOf": [never, {"type": "string", "pattern": "^a*$"}]}, tekken())
    assert constraint.automaton.counting is None
    assert [written(text, constraint, 0) for text in ("a" * 40, "b")] == [True, False]


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
@pytest.mark.parametrize(
    "schemas",
    [
        [URI, {"type": "integer"}, {"type": "string", "maxLength": 16}],
        [URI, {"type": "string", "maxLength": 1001}],
        [URI, {"enum": ["none", "a b", 5]}],
        [URI, {"type": "string", "format": "date"}],
        [WORDS, URI],
        [WORDS, {"type": "string", "maxLength": 20}, {"const": "c" * 40}],
    ],
)
def test_strings_of_different_lengths_are_counted_together(keyword: str, schemas: list[Any]) -> None:
    check_counted({keyword: schemas})


@pytest.mark.parametrize(
    "schemas",
    [
        [{"type": "string", "format": "uri"}, {"type": "string", "maxLength": 300}],
        [{"type": "string", "format": "date-time"}, {"type": "string", "minLength": 16, "maxLength": 1000}],
        [{"type": "string", "pattern": "^a*$"}, WORDS, {"type": "string", "minLength": 40}],
    ],
)
def test_strings_beside_others_of_any_length_are_counted(schemas: list[Any]) -> None:
    check_counted({"anyOf": schemas})


def check_counted(schema: dict[str, Any]) -> None:
    constraint, valid = lk.JsonSchema(schema, tekken()), judge(schema).is_valid
    assert constraint.automaton.states < 6000
    texts = [b * n for b in ("a", " ", "c") for n in (0, 1, 2, 15, 16, 17, 20, 21, 40, 299, 300, 301, 1001, 1002)]
    texts += ["http://" + "a" * n for n in (1, 8, 9, 10, 993, 994, 995)] + ["none", "a b", "2024-02-29"]
    for seed, text in enumerate(texts):
        assert written(text, constraint, seed) == valid(text), text


def test_a_bound_beside_none_is_left_out_if_all_strings_are_allowed() -> None:
    constraint = lk.JsonSchema({"anyOf": [URI, {"type": "string"}]}, tekken())
    assert constraint.automaton.states < 100
    assert written("a" * 2000, constraint, 0)


@pytest.mark.parametrize("free", [False, True], ids=["bounds", "beside texts of any length"])
def test_tokens_over_a_whole_string_know_the_bounds_of_its_end(free: bool) -> None:
    """A token that begins with the opening quote and ends the string: nothing has been counted before it."""
    texts = [letter * length for length in (0, 1, 19, 20, 21, 29, 30, 31, 40) for letter in "ab"]
    pieces = [f'"{text}"{after}'.encode() for text in texts for after in ("", "]")]
    vocabulary = lk.Vocabulary([*(bytes([byte]) for byte in range(256)), *pieces, None], eos_ids=[256 + len(pieces)])
    bounded = {"type": "string", "minLength": 20, "maxLength": 30}
    items = {"anyOf": [bounded, {"type": "string", "pattern": "^a*$"}]} if free else bounded
    constraint = lk.JsonSchema({"type": "array", "items": items, "minItems": 1, "maxItems": 1}, vocabulary)
    assert constraint.automaton.counting is not None
    context = lk.Context.of([[]], vocabulary.size)
    state = constraint.advance(constraint.init_state(context), torch.tensor([ord("[")]))
    legal = constraint.allowed_tokens(state)[0, 256:-1].tolist()
    wanted = [20 <= len(text) <= 30 or (free and set(text) <= {"a"}) for text in texts for _ in range(2)]
    assert legal == wanted
