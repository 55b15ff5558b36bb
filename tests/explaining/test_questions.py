"""`matches`, `example` and `allowed_tokens` of constraints, and completions where texts nest."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import logitkit as lk
from logitkit import languages
from logitkit.composition.chain import Chain
from logitkit.errors import ConfigurationError
from logitkit.runtime.completion import completion_of
from logitkit.runtime.walk import Walk
from tests.explaining.small_patterns import TEXTS, TOKENS, VOCABULARY, matching, small_patterns

BYTES = lk.Vocabulary([*(bytes([b]) for b in range(256)), None, None], eos_ids=[256], special={"<end>": 257})


@given(small_patterns(), st.sampled_from(TEXTS))
def test_a_text_matches_as_in_re(pattern: str, text: str) -> None:
    if matching(pattern):
        assert lk.Regex(pattern, VOCABULARY).matches(text) == bool(re.fullmatch(pattern, text))


@given(small_patterns(), st.integers(0, 3))
def test_an_example_matches_as_in_re(pattern: str, seed: int) -> None:
    if matching(pattern):
        constraint = lk.Regex(pattern, VOCABULARY)
        text = constraint.example(seed)
        assert re.fullmatch(pattern, text)
        assert constraint.example(seed) == text


@pytest.mark.parametrize(
    "pattern",
    [r"\d{4}-\d{2}-\d{2}", r"[\s\S]{3,2000}", r"(?!no)\w+é", r"\p{Lu}{2}", r"([a-z]{5} ){100}end", "[α-ω]+|x{500}"],
)
def test_examples_of_long_and_foreign_patterns_match(pattern: str, tekken: lk.Vocabulary) -> None:
    for vocabulary in (BYTES, tekken):
        constraint = lk.Regex(pattern, vocabulary)
        texts = [constraint.example(seed) for seed in range(5)]
        assert all(re.fullmatch(pattern.replace(r"\p{Lu}", r"[^\W\d_a-z]"), text) for text in texts)
        assert all(map(constraint.matches, texts))
        assert len(set(texts)) > 1 or "x{500}" in pattern


SCHEMAS: list[Any] = [
    True,
    {"type": "array", "items": {"type": "integer", "minimum": 3}, "minItems": 2},
    {"type": "object", "properties": {"a": {}, "b": {"type": "array"}, "c": {}}, "required": ["a", "b", "c"]},
    {"$defs": {"t": {"type": "object", "properties": {"t": {"$ref": "#/$defs/t"}}}}, "$ref": "#/$defs/t"},
    {"type": "string", "maxLength": 1000, "minLength": 50},
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
@pytest.mark.parametrize("closing", [False, True, 400])
def test_examples_of_schemas_are_valid(schema: Any, closing: bool | int, tekken: lk.Vocabulary) -> None:
    for vocabulary in (BYTES, tekken):
        constraint = lk.JsonSchema(schema, vocabulary, closing=closing)
        for seed in range(3):
            text = constraint.example(seed)
            jsonschema.validate(json.loads(text), schema)
            assert constraint.matches(text)
        assert not constraint.matches(text + "x")


def test_special_tokens_appear_by_name() -> None:
    constraint = languages.sequence("a", languages.special("<end>"), "b").constraint(BYTES)
    assert constraint.example() == "a<end>b"
    assert constraint.matches("a<end>b")
    # The language names the token, not its spelling.
    assert not lk.Dfa({(0, 97): 1}, 0, [1], BYTES).matches("a<end>")
    assert lk.then(None, lk.Regex("x", BYTES), "<end>").matches("hm<end>x")


def test_token_ids_have_examples_and_matches_too() -> None:
    dfa = lk.Dfa({(0, 257): 1, (1, 97): 2}, 0, [2], BYTES)
    assert dfa.example() == "<end>a"
    assert dfa.matches("<end>a")
    assert not dfa.matches("a")


def test_examples_keep_to_the_tokens_and_the_limit() -> None:
    # No token spells [ or ] alone.
    few = lk.Vocabulary([b"[1", b",1", b"1]", b",", b"]", b"[]x", None], eos_ids=[6])
    schema = lk.JsonSchema({"type": "array", "items": {"const": 1}}, few, closing=3)
    for seed in range(20):
        text = schema.example(seed)
        assert schema.matches(text)
        assert len(json.loads(text)) <= 3


@given(small_patterns(), st.lists(st.integers(0, 4), max_size=3))
def test_allowed_tokens_are_those_that_the_mask_leaves(pattern: str, output: list[int]) -> None:
    if not matching(pattern):
        return
    constraint = lk.Regex(pattern, VOCABULARY)
    context = lk.Context.of([[], []], vocabulary_size=6)
    tokens = torch.tensor([output, output], dtype=torch.int64)
    state = constraint.advance(constraint.init_state(context), tokens)
    allowed = constraint.allowed_tokens(state)
    masked = constraint.process_logits(state, torch.zeros(2, 6), context)[1]
    assert allowed.dtype == torch.bool
    assert torch.equal(allowed, masked == 0)
    text = "".join(TOKENS[i] for i in output)
    if any(found.startswith(text) for found in matching(pattern)):
        assert bool(allowed[1, 5]) == (text in matching(pattern))


def test_completions_are_found_where_too_many_texts_nest() -> None:
    """Every completion takes 40 tokens here, and there are far more places on the way than can be searched."""
    names = [f"n{i}" for i in range(12)]
    schema = {"type": "object", "properties": {name: {} for name in names}, "required": names}
    constraint = lk.JsonSchema(schema, BYTES)
    history = list(b'{"n0":[')
    found = completion_of(constraint, history)
    assert found is not None
    text = bytes([*history, *found]).decode()
    jsonschema.validate(json.loads(text), schema)
    shortest = json.dumps({"n0": [], **dict.fromkeys(names[1:], 1)}, separators=(",", ":"))
    assert len(text) == len(shortest)


def test_a_text_without_completion_has_none() -> None:
    constraint = lk.Regex("ab", VOCABULARY)
    assert completion_of(constraint, [1]) is None
    assert not Walk.start(constraint.automaton).after(1).is_live
    nothing = lk.Regex("a{9}", VOCABULARY)
    assert nothing.example() == "a" * 9
    with pytest.raises(ConfigurationError):
        lk.explain(nothing, VOCABULARY, [], "ac")


def test_a_chain_asks_all_its_constraints() -> None:
    ban, regex = lk.BanTokens([0]), lk.Regex("[ab]{2}", VOCABULARY)
    chain = lk.chain(regex, ban, lk.RepetitionPenalty(2.0), lk.BannedStrings(["bb"], VOCABULARY))
    assert [text for text in ("ab", "bb", "ba", "a") if chain.matches(text)] == ["ab", "ba"]
    assert {chain.example(seed) for seed in range(9)} == {"aa", "ab", "ba"}
    assert [chain.example(5) for _ in range(2)] == [chain.example(5)] * 2
    with pytest.raises(ConfigurationError, match="has no constraint on text"):
        lk.chain(ban).example()
    apart = Chain((regex, ban, lk.BannedStrings(["a", "b"], VOCABULARY)))
    with pytest.raises(ConfigurationError, match="none of 100 texts of Regex is allowed by the other constraints"):
        apart.example()
    state = chain.init_state(lk.Context.of([[], []], vocabulary_size=6))
    assert chain.allowed_tokens(state).tolist() == [[False, True, True, True, False, False]] * 2
    state = chain.advance(state, torch.tensor([1, 2]))
    # After b, only a could follow, which is banned: a conflict.
    assert chain.allowed_tokens(state).tolist() == [[False] * 6, [False] * 5 + [True]]
    assert chain.conflicts(state).tolist() == [True, False]
    with pytest.raises(ConfigurationError, match="give the columns"):
        lk.chain(ban).allowed_tokens(lk.chain(ban).init_state(lk.Context.of([[]], vocabulary_size=6)))


def test_what_takes_too_many_tokens_to_close_has_no_completion(tekken: lk.Vocabulary) -> None:
    schema = lk.JsonSchema({"type": "array", "items": {"type": "null"}, "minItems": 100_000}, tekken)
    with pytest.raises(ConfigurationError, match="no way to complete"):
        schema.example()
    refused = lk.explain(schema, tekken, "", "[null,x").steps[-1].refusal
    assert refused is not None
    assert refused.completion is None
