r"""Raw text of which the characters are counted: its masks are those of the automaton that has a state for each length."""

from __future__ import annotations

from typing import Any

import pytest

from logitkit.compiler.bounded_cache import BoundedCache
from logitkit.compiler.nested_grammars import instance_builder
from logitkit.errors import ConfigurationError
from logitkit.languages import dispatch, either, sequence, text_fragments, xml_arguments
from tests.examples import examples
from tests.tools.raw_text import LONG, VOCABULARY, counts, walk

SCHEMAS: dict[str, dict[str, Any]] = {
    "longest": {"x": LONG},
    "two": {"x": LONG, "y": {"type": "string", "maxLength": 33}},
    "twice the same": {"x": LONG, "y": LONG},
    "shortest": {"x": {"type": "string", "minLength": 17}, "y": {"type": "integer"}},
    "between": {"x": {"type": "string", "minLength": 5, "maxLength": 17}, "y": LONG},
    "pattern": {"x": {"type": "string", "maxLength": 18, "pattern": "^[a-c\n<]*[a-z]$"}},
    "no line feeds": {"x": {"type": "string", "maxLength": 18, "pattern": "^[a-f<>/]+$", "minLength": 1}},
    "beside JSON": {"x": LONG, "y": {"type": "array", "items": {"type": "string", "maxLength": 18}, "maxItems": 2}},
    "other names": {"x": LONG},
    "beside any text": {"x": {"type": "string"}, "y": LONG},
}
# Not counted: texts that are too short could not always go on, or JSON may stand in the same place.
UNCOUNTED: dict[str, dict[str, Any]] = {
    "narrow": {"x": {"type": "string", "minLength": 15, "maxLength": 20}},
    "at least, by a pattern": {"x": {"type": "string", "minLength": 4, "maxLength": 60, "pattern": "^[a-z]*$"}},
    "or null": {"x": {"type": ["string", "null"], "maxLength": 20}},
    "short": {"x": {"type": "string", "maxLength": 5}},
    "any text": {"x": {"type": "string"}, "y": {"type": "string"}, "z": {"type": "integer"}},
    "anything": {"x": {}, "y": {"type": "array", "items": {"type": "string"}}},
}


def schema_of(name: str) -> dict[str, Any]:
    properties = {**SCHEMAS, **UNCOUNTED}[name]
    others = {"type": "string", "maxLength": 19} if name == "other names" else False
    return {"type": "object", "properties": properties, "required": ["x"], "additionalProperties": others}


@pytest.mark.parametrize("name", [*SCHEMAS, *UNCOUNTED])
def test_masks_are_those_without_counting(name: str) -> None:
    language = xml_arguments(schema_of(name))
    assert counts(language) == (name in SCHEMAS)
    for seed in range(examples(40)):
        walk(language, seed, 60)


def test_other_markers_and_text_around() -> None:
    for begin, end in (("<{name}>", "</>"), ("\n{name}: ", ";\n"), ("<p {name}>", "</p>  ")):
        for name in ("two", "between"):
            language = sequence("Go", xml_arguments(schema_of(name), begin=begin, end=end, separator=" "), ".")
            assert counts(language)
            for seed in range(examples(20)):
                walk(language, seed, 50)


def test_tags_that_tell_kinds() -> None:
    properties = {"x": {"type": ["string", "null", "array"], "maxLength": 20, "items": {"type": "integer"}}, "y": {}}
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    language = xml_arguments(schema, begin='<p {name}="{kind}">', end="</p>", kinds=("s", "j"))
    constraint = language.constraint(VOCABULARY)
    assert counts(language)
    verdicts = {
        '<p x="s">null</p>': True,
        '<p x="j">null</p>': True,
        '<p x="j">[1,2]</p>\n<p y="j">[1,"</p>"]</p>': True,
        '<p x="s">[1</p>\n<p y="s">"</p>': True,
        '<p x="j">"a"</p>': False,
        '<p x="s">' + "a" * 21 + "</p>": False,
        '<p y="j">a</p>': False,
    }
    assert {text: constraint.matches(text) for text in verdicts} == verdicts
    for seed in range(examples(20)):
        walk(language, seed, 50)


@pytest.mark.parametrize("kinds", [("a",), ("a", ""), ("a", "ab"), ["a", "b"], ("a", 1), ("a", "b", "c")])
def test_wrong_kinds_are_refused(kinds: Any) -> None:
    with pytest.raises(ConfigurationError, match="kinds is"):
        xml_arguments({}, begin='<{name} k="{kind}">', kinds=kinds)


@pytest.mark.parametrize(
    "begin", ["<{kind} {name}>", "<{name}>", "<{name}{kind}>", "<{name} {kind}", "<{name} {kind} {kind}>"]
)
def test_wrong_places_of_kinds_are_refused(begin: str) -> None:
    with pytest.raises(ConfigurationError, match="begin is"):
        xml_arguments({}, begin=begin, kinds=("a", "b"))


@pytest.mark.parametrize("begin", ['<p name="{name}"', "<{name}=é"])
def test_other_openings_are_not_counted(begin: str) -> None:
    language = xml_arguments(schema_of("two"), begin=begin)
    assert not counts(language)
    walk(language, 0, 30)


def test_strings_are_counted_except_where_two_of_them_begin() -> None:
    schema = {"anyOf": [schema_of("two"), {**schema_of("between"), "required": ["x", "y"]}]}
    language = xml_arguments(schema)
    assert counts(language)
    for seed in range(examples(15)):
        walk(language, seed, 40)


@pytest.mark.parametrize(
    "name", ["two", "twice the same", "shortest", "beside JSON", "any text", "anything", "beside any text"]
)
def test_masks_of_texts_that_are_called(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instance_builder, "LARGE_INSTANCES", 0)
    arguments = xml_arguments(schema_of(name))
    language = sequence(arguments, "|", dispatch({"<call>": sequence("<call>", arguments, "</call>")}))
    assert language.constraint(VOCABULARY).automaton.nesting.strings
    for seed in range(examples(30)):
        walk(language, seed, 80)


def test_any_text_in_two_kinds_of_tags_that_begin_alike() -> None:
    schema = schema_of("any text")
    language = either(xml_arguments(schema, end="</parameter>"), xml_arguments(schema, begin="<parameter={name}>"))
    for seed in range(examples(20)):
        walk(language, seed, 50)


def test_strings_are_counted_beside_any_text_in_place() -> None:
    """Any text begins in two kinds of tags, or beside JSON, so it has states of its own; long strings still have few."""
    long = {"type": "array", "items": {"type": "string", "maxLength": 300}}
    schema = {"type": "object", "properties": {"x": {"type": "string"}, "y": long}, "additionalProperties": False}
    tags = either(xml_arguments(schema, end="</parameter>"), xml_arguments(schema, begin="<parameter={name}>"))
    other = {**schema, "properties": {"x": {"type": "integer"}, "y": long}}
    for language in (tags, xml_arguments({"anyOf": [schema, other]})):
        automaton = language.constraint(VOCABULARY).automaton
        assert automaton.counting is not None
        assert automaton.states < 500
        walk(language, 0, 60)


def test_a_fragment_that_is_forgotten_at_once_is_still_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread may clear what is remembered."""

    class Forgetful(BoundedCache[Any, Any]):
        def keep(self, key: Any, value: Any, nbytes: int) -> Any:
            return value

    monkeypatch.setattr(text_fragments, "_known", Forgetful(0))
    schema = {"type": "object", "properties": {"a": {"type": "string", "maxLength": 71}}, "required": ["a"]}
    assert xml_arguments(schema).constraint(VOCABULARY).automaton.counting is not None
