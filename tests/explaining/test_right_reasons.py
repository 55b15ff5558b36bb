"""Reasons that were wrong or unreadable once."""

from __future__ import annotations

from typing import Any

import pytest

import logitkit as lk
from logitkit.explaining.expected import expected_words
from logitkit.languages import choice, repeat
from logitkit.patterns.charset import CharSet
from logitkit.patterns.unicode_classes import perl_class

VOCABULARY = lk.Vocabulary([*(bytes([byte]) for byte in range(256)), None], eos_ids=[256])
EOS = 256


def refusal(processor: Any, output: str | list[int]) -> Any:
    return lk.explain(processor, VOCABULARY, [], output).refusal


@pytest.mark.parametrize(
    ("processor", "output"),
    [(lk.StopStrings(["END"], VOCABULARY), "ENDx"), (lk.NoRepeatNGram(2), "abab"), (lk.BanTokens([97]), "a")],
)
def test_an_output_with_a_banned_token_is_not_complete(processor: Any, output: str) -> None:
    found = lk.explain(processor, VOCABULARY, [], output)
    assert found.refusal is not None
    assert not found.complete
    assert found.completion is None


@pytest.mark.parametrize(
    ("pattern", "output", "span"),
    [("(?!no$)[a-z]{2,5}", b"no", (0, 7)), ("[a-z]+(?<!ing)", b"king", (6, 14)), (r"a.*\b", b"a-", (3, 5))],
)
def test_a_lookaround_that_refuses_the_end_is_the_source(pattern: str, output: bytes, span: tuple[int, int]) -> None:
    found = refusal(lk.Regex(pattern, VOCABULARY), [*output, EOS])
    assert found.cause == "end"
    assert [source.span for source in found.sources] == [span]


def test_a_lookaround_is_not_blamed_for_an_end_that_the_rest_refuses() -> None:
    found = refusal(lk.Regex("(?!no)[a-z]{2,5}", VOCABULARY), [*b"y", EOS])
    assert [source.text for source in found.sources] == ["[a-z]{2,5}"]


PERSON = {"type": "object", "properties": {"a": {"type": "integer"}, "s": {"type": "string"}}, "required": ["a"]}


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (' {"a":1}', "whitespace: compact"),
        ('{"a":1,"s":"x" }', "whitespace: compact"),
        ('{"a":1,"s":"x\ny"}', "the syntax of JSON"),
        ('{"a":1,"s":"\\x"}', "the syntax of JSON"),
        ('{"a":1,"s":"\\u00e9"}', "no needless escapes"),
        ('{"a":01}', "the syntax of JSON"),
        ('{"a":-}', "the syntax of JSON"),
        ('{"a":1.5}', 'type: "integer"'),
    ],
)
def test_a_keyword_is_not_blamed_for_what_is_not_json(text: str, rule: str) -> None:
    assert refusal(lk.JsonSchema(PERSON, VOCABULARY), text).sources[0].text == rule


def test_sources_leave_out_the_branches_that_the_text_has_ruled_out() -> None:
    kinds = [{"properties": {"k": {"const": k}, "v": {"type": t}}, "required": ["k", "v"]} for k, t in enumerate(TYPES)]
    schema = {"anyOf": [{"type": "object", **kind} for kind in kinds]}
    found = refusal(lk.JsonSchema(schema, VOCABULARY), '{"k":2,"v":[]}')
    assert [source.pointer for source in found.sources] == ["/anyOf", "/anyOf/2/properties/v/type"]


TYPES = ["boolean", "string", "integer"]


def test_a_language_without_a_part_to_blame_has_no_sources() -> None:
    digits = repeat(choice(["a", "b"]), 1, 2).constraint(VOCABULARY)
    assert refusal(digits, "aba").sources == ()


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        (perl_class("d", False), "any character but digit of any script"),
        (perl_class("s", False), "any character but white space"),
        (CharSet.of([(0x30, 0x39), (0x61, 0x7A)]), "any character but digit and lower-case letter"),
    ],
)
def test_the_complement_of_a_set_is_named_by_the_set(missing: CharSet, words: str) -> None:
    assert expected_words(~missing) == words


def test_a_banned_text_is_the_source_beside_another_constraint() -> None:
    both = lk.chain(lk.Regex("[abxy]{3}", VOCABULARY), lk.BannedStrings(["ab", "xy"], VOCABULARY))
    found = refusal(both, "xya")
    assert (found.processor, found.byte) == ("BannedStrings", 1)
    assert [(source.kind, source.text) for source in found.sources] == [("text", "xy")]


LISTS = {"$defs": {"t": {"type": "array", "items": {"$ref": "#/$defs/t"}}}, "$ref": "#/$defs/t"}


@pytest.mark.parametrize(
    ("processor", "output", "byte", "brackets"),
    [
        (lk.JsonSchema(LISTS, VOCABULARY, max_depth=3), "[[],[[[[", 6, "[[["),
        (lk.JsonSchema(True, VOCABULARY, max_depth=3), '{"a":[[{', 7, "{[["),
        (lk.Grammar('root ::= "(" root? ")"', VOCABULARY, max_depth=3), "(((((", 3, ""),
        (lk.Grammar('root ::= ("(" root ")" | "(" root "]")?', VOCABULARY, max_depth=3), "(((((", 3, ""),
    ],
)
def test_the_maximum_depth_is_the_source_if_only_it_refuses_a_byte(
    processor: Any, output: str, byte: int, brackets: str
) -> None:
    found = refusal(processor, output)
    assert (found.byte, found.sources[0].text, found.open_brackets) == (byte, "max_depth=3", brackets)
    assert "max_depth" not in str(lk.explain(processor, VOCABULARY, [], output[:byte] + "x"))


def test_the_maximum_depth_of_the_arguments_of_a_tool() -> None:
    parameters = {"type": "object", "properties": {"list": {"$ref": "#/$defs/t"}}, "$defs": LISTS["$defs"]}
    sort = lk.Tools([{"name": "sort", "parameters": parameters}], format="hermes").constraint(VOCABULARY, max_depth=2)
    found = refusal(sort, '<tool_call>\n{"name": "sort", "arguments": {"list":[[[[[')
    assert [source.text for source in found.sources] == ["max_depth=2"]


def test_the_open_brackets_of_a_schema_beside_another_constraint() -> None:
    schema = lk.JsonSchema({"type": "array", "items": {"enum": ["x", "y"]}}, VOCABULARY)
    found = refusal(lk.chain(schema, lk.BannedStrings(['"x"'], VOCABULARY)), '["y","x"]')
    assert (found.byte, found.expected, found.open_brackets) == (6, "'y'", "[")


def test_the_marker_that_has_begun_is_the_source() -> None:
    words = lk.Then(lk.Regex("[a-z ]*", VOCABULARY), lk.Regex("[0-9]", VOCABULARY), "####")
    found = refusal(words, "hm ##x")
    assert (found.byte, [source.text for source in found.sources]) == (5, ["####"])
