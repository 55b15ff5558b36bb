"""Other spellings of strings, against Python: what is accepted is what `json.dumps` writes, or what Python shows."""

from __future__ import annotations

import ast
import json
import re
import unicodedata
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from logitkit.compiler.language import byte_dfa_of
from logitkit.compiler.text_language import TextLanguage
from logitkit.errors import ConfigurationError, UnsupportedSchema
from logitkit.json_schema.string_spellings import StringSpelling, python_string, spelled_strings, spelled_text
from logitkit.languages import xml_arguments
from logitkit.languages.schemas import JsonValue
from logitkit.limits import DEFAULT_LIMITS
from tests.json_schema.acceptance import BYTES, acceptor
from tests.json_schema.canonical import canonical
from tests.json_schema.generated import instances, schemas
from tests.json_schema.judge import judge
from tests.json_schema.test_generated import QUICK, ends

WRITERS: dict[StringSpelling, tuple[Callable[[str], str], Callable[[str], Any]]] = {
    "ascii": (json.dumps, json.loads),
    "python": (repr, ast.literal_eval),
}
LITERALS = {"null": "None", "true": "True", "false": "False"}
PATTERNS = (
    r"[\s\S]*",
    r"[a-z'\"é😀]{0,3}",
    r"\w+[^\n]*",
    "[\x00-\xff\U00010000-\U0001f64a]*",
    r"[\s\S]{2,3}",
    r"it's|\"",
    "'+",
)
AWKWARD = "ab'\"\\\n\t\r é" + "".join(
    map(
        chr,
        (
            0,
            0x1F,
            0x7F,
            0xA0,
            0xAD,
            0xFF,
            0x100,
            0x200D,
            0x2028,
            0xFEFF,
            0xFFFF,
            0x10000,
            0x1F600,
            0x1F64A,
            0x1F64B,
            0xE0001,
        ),
    )
)


def test_python_shows_all_assigned_characters_so() -> None:
    for code_point in range(0x110000):
        character = chr(code_point)
        if unicodedata.category(character) not in ("Cn", "Cs"):
            assert python_string(character) == repr(character), hex(code_point)
        elif not 0xD800 <= code_point < 0xE000:
            assert ast.literal_eval(python_string(character)) == character, hex(code_point)


@given(st.text(st.sampled_from(AWKWARD)))
def test_a_text_is_spelled_as_python_does(text: str) -> None:
    assume(all(unicodedata.category(character) != "Cn" for character in text))
    assert python_string(text) == repr(text)
    usual = json.dumps(text, ensure_ascii=False)
    assert spelled_text(usual, "python") == repr(text)
    assert spelled_text(usual, "ascii") == json.dumps(text)
    assert (
        spelled_text(f"{{{usual}:[{usual},1e-05,null]}}", "ascii")
        == f"{{{json.dumps(text)}:[{json.dumps(text)},1e-05,null]}}"
    )


@pytest.mark.parametrize("spelling", WRITERS)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_strings_of_a_pattern_have_one_spelling(spelling: StringSpelling, pattern: str) -> None:
    write, read = WRITERS[spelling]
    language = TextLanguage.of_pattern(pattern, DEFAULT_LIMITS)
    accepts = byte_dfa_of(spelled_strings(language, spelling), DEFAULT_LIMITS).accepts
    pieces = [character for character in AWKWARD if unicodedata.category(character) != "Cn"]
    count = 0
    for length in range(4):
        for some in product(pieces if length < 3 else pieces[:7], repeat=length):
            text = "".join(some)
            expected = re.fullmatch(pattern, text) is not None
            assert accepts(write(text).encode()) == expected, text
            count += expected
            for other in (json.dumps(text, ensure_ascii=False), json.dumps(text), repr(text), f"'{text}'", f'"{text}"'):
                if other != write(text) and accepts(other.encode()):
                    assert write(read(other)) == other, other
    assert count


@pytest.mark.parametrize("spelling", WRITERS)
def test_every_text_that_is_accepted_is_the_spelling_of_its_value(spelling: StringSpelling) -> None:
    """All texts of a few characters, by brute force."""
    write, read = WRITERS[spelling]
    language = TextLanguage.of_pattern(r"[^x]{0,3}", DEFAULT_LIMITS)
    accepts = byte_dfa_of(spelled_strings(language, spelling), DEFAULT_LIMITS).accepts
    found = 0
    for length in range(7):
        for some in product("'\"\\nxu", repeat=length):
            text = "".join(some)
            if accepts(text.encode()):
                value = read(text)
                assert write(value) == text
                assert re.fullmatch(r"[^x]{0,3}", value), text
                found += 1
    values = [*map("".join, (some for n in range(4) for some in product("'\"\\nu\n", repeat=n)))]
    assert found == sum(
        len(write(value)) < 7 and "\n" not in write(value) for value in values if set(write(value)) <= set("'\"\\nxu")
    )


@QUICK
@given(st.data(), st.sampled_from(sorted(WRITERS)))
def test_a_value_is_accepted_where_it_is_in_the_usual_spelling(data: st.DataObject, spelling: StringSpelling) -> None:
    schema = data.draw(schemas)
    try:
        usual = acceptor(schema)
        constraint = JsonValue(schema, strings=spelling).constraint(BYTES)
    except UnsupportedSchema:
        # In another spelling, a row cannot remember items of arrays.
        return
    except ConfigurationError as error:
        assert "no value satisfies" in str(error)  # noqa: PT017
        return
    validator = judge(schema)
    assume(ends(validator))
    for value in data.draw(st.lists(instances(schema), min_size=4, max_size=8)):
        text = canonical(value, validator)
        spelled = respelled(text, spelling)
        assert constraint.matches(spelled) == usual(text), (schema, spelled)
        assert spelled == text or not constraint.matches(text), (schema, text)


def respelled(text: str, spelling: StringSpelling) -> str:
    return re.sub(r'"(?:[^"\\]|\\.)*"', lambda found: WRITERS[spelling][0](json.loads(found.group())), text)


@QUICK
@given(st.data())
def test_values_between_tags_are_accepted_where_they_are_as_json(data: st.DataObject) -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"x": data.draw(schemas)},
        "required": ["x"],
        "additionalProperties": False,
    }
    tags: dict[str, Any] = {"begin": "<{name}>", "end": "</>", "separator": "", "literals": "python"}
    try:
        usual = xml_arguments(schema, **tags).constraint(BYTES)
        shown = xml_arguments(schema, **tags, strings="python").constraint(BYTES)
    except (UnsupportedSchema, ConfigurationError):
        # Items cannot be remembered, or there is no value.
        return
    validator = judge(schema["properties"]["x"])
    assume(ends(validator))
    for value in data.draw(st.lists(instances(schema["properties"]["x"]), min_size=4, max_size=8)):
        text = canonical(value, validator)
        if not isinstance(value, dict | list):
            assert shown.matches(f"<x>{text}</>") == usual.matches(f"<x>{text}</>")
            continue
        python = re.sub(
            r'"(?:[^"\\]|\\.)*"|[a-z]{4,}',
            lambda found: LITERALS.get(found.group()) or repr(json.loads(found.group())),
            text,
        )
        assert shown.matches(f"<x>{python}</>") == usual.matches(f"<x>{text}</>"), (schema, python)


def test_a_spelling_that_is_not_known_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="strings is 'latin'; allowed are 'json', 'ascii', 'python'"):
        xml_arguments({}, strings="latin")  # type: ignore[arg-type]
