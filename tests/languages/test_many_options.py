"""Texts that many options begin with are words. No language is refused because of that, and no error is another one."""

from __future__ import annotations

import pytest

import logitkit as lk
from logitkit.errors import ConfigurationError
from logitkit.languages import Language, any_text, either, json_schema, regex, sequence
from tests.languages.comparison import accepts
from tests.languages.vocabularies import BYTES

VALUE = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
OBJECT = json_schema(VALUE)
LONG = [sequence(f"{letter}{'x' * 30}{number}: ", OBJECT) for number in range(25) for letter in "abcd"]
SHORT = [sequence(f"{letter}: ", OBJECT) for letter in "abcd"]


def test_many_states_that_read_the_same_words_cost_little() -> None:
    """All of them would look at all words, but without words they only look at the first characters."""
    language = sequence(regex("[0-9]{0,100}"), either(*LONG))
    constraint = language.constraint(BYTES, limits=lk.Limits(states=200_000, work=300_000))
    begin = b"12c" + b"x" * 30
    assert accepts(constraint, begin + b'24: {"a":1}')
    assert not accepts(constraint, begin + b'25: {"a":1}')


def test_an_attempt_with_words_is_not_counted_nor_its_schemas() -> None:
    schemas = [{**VALUE, "properties": {"a": {"items": {"type": "integer"}}, f"b{n}": {}}} for n in range(40)]
    # `t1` begins like the words.
    language = either("t1", either(*(sequence(f"t{n}: ", json_schema(schema)) for n, schema in enumerate(schemas))))
    constraint = language.constraint(BYTES, limits=lk.Limits(states=200_000, work=460_000))
    assert accepts(constraint, b"t1")
    assert accepts(constraint, b't39: {"a":[1],"b39":1}')


def test_the_error_is_that_of_the_language_without_words() -> None:
    """With words, the bracket is met first. Then the limited text stands beside words only."""
    bracket = either(json_schema(True), regex("[[x]*"))
    limited = sequence(any_text(until="<", max_tokens=2), "x")
    found = [
        _refusal(sequence(bracket, "!" * 20, either(limited, options)))
        for options in (either(*SHORT), either(*SHORT[:3]))
    ]
    assert "max_tokens" in found[0]
    assert found[0] == found[1]


def _refusal(language: Language) -> str:
    with pytest.raises(ConfigurationError) as refused:
        language.constraint(BYTES)
    return str(refused.value)
