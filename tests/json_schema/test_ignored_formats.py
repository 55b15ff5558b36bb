"""A format that is unknown or not enforced, or describes no possible value, is an annotation, which `ignored` lists."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

import logitkit as lk
from logitkit.errors import UnsupportedSchema
from logitkit.runtime.automaton_files import AutomatonFiles
from logitkit.runtime.shared import shared_by
from tests.json_schema.acceptance import BYTES
from tests.json_schema.format_rules import NUMBER_RULES
from tests.json_schema.judge import judge

UNKNOWN = "the format 'phone' is not known"

# Schemas, and the pointers of the formats that say nothing there.
SCHEMAS: dict[str, tuple[Any, list[str]]] = {
    "unknown": ({"format": "phone"}, ["#"]),
    "unknown in a member": ({"properties": {"a/b": {"format": "phone"}}}, ["#/properties/a~1b"]),
    "of regular expressions": ({"type": "string", "format": "regex"}, ["#"]),
    "of other host names": ({"properties": {"a": {"format": "idn-hostname", "minLength": 2}}}, ["#/properties/a"]),
    "regular expressions negated": ({"type": "string", "not": {"format": "regex", "maxLength": 2}}, ["#/not"]),
    "of regular expressions in names": ({"propertyNames": {"format": "regex"}}, ["#/propertyNames"]),
    "of no string": ({"type": "integer", "format": "date"}, ["#"]),
    "before the type": ({"format": "regex", "type": ["object", "null"]}, ["#"]),
    "of no string by an enum": ({"format": "idn-hostname", "enum": [1, None, []]}, ["#"]),
    "of no string by a reference": (
        {"$defs": {"n": {"type": "number"}}, "$ref": "#/$defs/n", "format": "date"},
        ["#"],
    ),
    "of no number": ({"type": "string", "format": "int64"}, ["#"]),
    "negated": ({"type": "string", "not": {"format": "phone", "maxLength": 2}}, ["#/not"]),
    "negated alone": ({"anyOf": [{"not": {"format": "phone"}}, {"type": "null"}]}, ["#/anyOf/0/not"]),
    "one of two": ({"oneOf": [{"type": "string", "format": "phone"}, {"const": "a"}]}, ["#/oneOf/0"]),
    "in a condition": ({"if": {"format": "phone"}, "then": {"type": "string"}}, ["#/if"]),
    "not evaluated": (
        {"properties": {"a": True}, "format": "phone", "unevaluatedProperties": False},
        ["#"],
    ),
    "known": ({"type": ["string", "null"], "format": "date"}, []),
    "a byte": ({"format": "uint8"}, []),
    "a width": ({"type": ["number", "null"], "format": "double"}, []),
    "a hint": ({"type": ["string", "null"], "format": "password"}, []),
}
VALUES = [
    *(None, True, 0, 1, -1, 255, 256, 1.5, 2**31, 2**63, "", "a", "abc", "2024-02-29", "(", [], ["a"]),
    *({}, {"a": 1}, {"a/b": "x"}, {"b": 1}),
]


def _compiled(schema: Any, **options: Any) -> lk.JsonSchema:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return lk.JsonSchema(schema, BYTES, **options)


@pytest.mark.parametrize(("schema", "pointers"), SCHEMAS.values(), ids=SCHEMAS.keys())
def test_it_says_nothing(schema: Any, pointers: list[str]) -> None:
    """The library `jsonschema` ignores unknown formats too."""
    found, validator = _compiled(schema), judge(schema)
    assert [text.split(": ")[0] for text in found.ignored] == [f"'format' at {pointer}" for pointer in pointers]
    automaton = found.nested_dfa()
    for value in VALUES:
        assert automaton.accepts(json.dumps(value, separators=(",", ":")).encode()) == validator.is_valid(value), value


@pytest.mark.parametrize(("schema", "pointers"), SCHEMAS.values(), ids=SCHEMAS.keys())
def test_strict_formats_refuse_it(schema: Any, pointers: list[str]) -> None:
    if not pointers:
        assert _compiled(schema, strict_formats=True).ignored == ()
        return
    with pytest.raises(UnsupportedSchema, match="or pass strict_formats=False to ignore it") as error:
        lk.JsonSchema(schema, BYTES, strict_formats=True)
    assert (error.value.pointer, error.value.keyword) == (pointers[0], "format")
    with pytest.warns(UserWarning, match=f"'format' at {pointers[0]}: the format"):
        assert lk.JsonSchema(schema, BYTES, strict_formats=True, lax=True).ignored == ()


def test_all_are_listed_and_equal_schemas_once() -> None:
    phone, date = {"type": "string", "format": "phone"}, {"type": "integer", "format": "date"}
    regex = {"format": "regex", "minLength": 1}
    schema = {"properties": {"a": phone, "b": date, "c": dict(phone), "d": regex}}
    assert sorted(_compiled(schema).ignored) == [
        f"'format' at #/properties/a: {UNKNOWN}",
        "'format' at #/properties/b: the format 'date' describes strings, and no string is possible here",
        "'format' at #/properties/d: the format 'regex' is not enforced: the language of regular expressions is not regular",
    ]


@pytest.mark.parametrize("name", NUMBER_RULES)
@pytest.mark.parametrize("kind", ["integer", "number"])
def test_the_range_of_integers(name: str, kind: str) -> None:
    schema = {"type": kind, "format": name}
    automaton, validator = _compiled(schema).nested_dfa(), judge(schema)
    bounds = [
        sign * (2**bits + more)
        for bits in (0, 7, 8, 15, 16, 31, 32, 53, 63, 64)
        for sign in (1, -1)
        for more in (-1, 0, 1)
    ]
    for value in (*bounds, 0, 10**30, -(10**30)):
        assert automaton.accepts(str(value).encode()) == validator.is_valid(value), value
    assert not automaton.accepts(b"1.5")


def test_it_is_listed_for_a_shared_automaton_and_for_one_of_a_file(tmp_path: Path) -> None:
    schema = {"type": "array", "items": {"type": "string", "format": "phone"}, "maxItems": 3}
    listed = (f"'format' at #/items: {UNKNOWN}",)

    def vocabulary() -> lk.Vocabulary:
        found = lk.Vocabulary([b"[", b"]", b",", b'"', b"a", None], eos_ids=[5])
        shared_by(found).files = AutomatonFiles(tmp_path / "cache", found.content_key)
        return found

    one = vocabulary()
    first, second = lk.JsonSchema(schema, one), lk.JsonSchema(schema, one)
    assert first.automaton is second.automaton
    assert first.ignored == second.ignored == listed
    del first, second, one
    files = list((tmp_path / "cache").iterdir())
    assert len(files) == 1
    read = AutomatonFiles.read
    found = []

    def reading(self: AutomatonFiles, key: Any) -> Any:
        found.append(read(self, key))
        return found[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AutomatonFiles, "read", reading)
        assert lk.JsonSchema(schema, vocabulary()).ignored == listed
    assert found[-1] is not None


def test_strict_and_other_formats_share_nothing() -> None:
    assert _compiled({"format": "phone"}).ignored
    with pytest.raises(UnsupportedSchema, match="the format 'phone' is not known"):
        lk.JsonSchema({"format": "phone"}, BYTES, strict_formats=True)


def test_it_is_a_key_of_configurations() -> None:
    schema = {"type": "string", "format": "date"}
    written = {"json_schema": {"schema": schema, "strict_formats": True}}
    made = lk.from_config(written, BYTES)
    assert lk.to_config(made) == written
    with pytest.raises(UnsupportedSchema, match="strict_formats=False"):
        lk.from_config({"json_schema": {"schema": {"format": "phone"}, "strict_formats": True}}, BYTES)
