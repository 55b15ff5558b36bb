r"""Patterns with halves of surrogate pairs: as JavaScript reads them, and only whole characters are written."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.errors import ConfigurationError, PatternSyntaxError, PatternTooLarge, UnsupportedSchema
from logitkit.json_schema import StringSet
from logitkit.limits import DEFAULT_LIMITS, Limits
from tests.examples import examples
from tests.json_schema.acceptance import BYTES, acceptor
from tests.json_schema.javascript import (
    MATCHED,
    PATTERNS,
    TEXTS,
    found_by_re,
    is_without_the_flag,
)
from tests.json_schema.writing import Writer


@pytest.mark.parametrize(("pattern", "with_flag", "matched"), MATCHED)
def test_whole_characters_match_as_in_javascript(pattern: str, with_flag: bool, matched: str) -> None:
    accepts = acceptor({"type": "string", "pattern": pattern})
    expected = matched.split(" ")
    assert is_without_the_flag(pattern) != with_flag
    assert [text for text in TEXTS if accepts(json.dumps(text, ensure_ascii=False))] == expected
    assert [text for text in TEXTS if found_by_re(pattern, text)] == expected


@settings(max_examples=examples(300), deadline=None, suppress_health_check=list(HealthCheck))
@given(PATTERNS, st.lists(st.text("a🌀🌁😀\uffff", max_size=4), max_size=4))
def test_any_pattern_matches_as_in_javascript(pattern: str, texts: list[str]) -> None:
    strings = StringSet.matching(pattern, DEFAULT_LIMITS)
    for text in [*TEXTS, *texts]:
        assert strings.contains(text) == found_by_re(pattern, text), text
        assert (~strings).contains(text) != strings.contains(text)


@pytest.mark.parametrize("pattern", [pattern for pattern, _, _ in MATCHED])
def test_what_is_written_is_utf8_and_matches(pattern: str) -> None:
    rng, writer = random.Random(2), Writer(lk.JsonSchema({"type": "string", "pattern": pattern}, BYTES).nested_dfa())
    for _ in range(20):
        text = json.loads(writer.write(rng).decode())
        assert found_by_re(pattern, text), text


def test_lengths_count_characters_and_names_are_strings_too() -> None:
    accepts = acceptor({"type": "string", "pattern": r"^(\ud83c[\udf00-\udfff])*$", "minLength": 2, "maxLength": 3})
    assert [accepts(f'"{"🌀" * count}"') for count in range(5)] == [False, False, True, True, False]
    names = acceptor(
        {"patternProperties": {r"^\ud83c[\udf00-\udfff]$": {"type": "null"}}, "additionalProperties": False}
    )
    assert names('{"🌀":null}')
    assert not names('{"🌀":1}')
    assert not names('{"😀":null}')


@pytest.mark.parametrize("pattern", [r"^\ud83c$", r"^\udf00\ud83c$", r"^\ud83ca"])
def test_a_pattern_of_halves_that_form_no_pair_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigurationError, match="no value satisfies"):
        lk.JsonSchema({"type": "string", "pattern": pattern}, BYTES)


@pytest.mark.parametrize(
    ("pattern", "escape", "position"),
    [
        (r"\u{1f300}\ud83c", r"\u{1f300}", 0),
        (r"\ud83c[\udf00-\udfff]|\p{L}", r"\p{L}", 22),
        (r"😀\ud83c[\p{L}]", r"\p{L}", 8),
    ],
)
def test_escapes_that_need_the_flag_are_refused_beside_halves(pattern: str, escape: str, position: int) -> None:
    with pytest.raises(PatternSyntaxError) as caught:
        StringSet.matching(pattern, DEFAULT_LIMITS)
    assert caught.value.position == position
    assert caught.value.reason.startswith(f"{escape} has its meaning with the flag u only")
    with pytest.raises(UnsupportedSchema, match="flag u"):
        lk.JsonSchema({"pattern": pattern}, BYTES)


def test_code_units_take_work_that_is_limited() -> None:
    units = "".join(rf"|[\ud8{first:02x}\udc{first:02x}a]{{{first + 1}}}" for first in range(60))
    with pytest.raises(PatternTooLarge):
        StringSet.matching(rf"(?:{units[1:]})\ud800", Limits(work=100_000))
