"""Schemas that are made to take long: compiled cheaply, or refused by a limit that counts all of their parts together."""

from __future__ import annotations

import json
import warnings
from typing import Any

import pytest

import logitkit as lk
from logitkit.errors import UnsupportedSchema
from tests.json_schema.acceptance import BYTES, acceptor


def _nested(levels: int) -> Any:
    schema: Any = {"type": "integer"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


def _doubling(levels: int) -> Any:
    names = {f"x{i}": {"$ref": f"#/$defs/x{i - 1}"} for i in range(1, levels + 1)}
    inside = {name: {"type": "object", "properties": {"l": ref, "r": ref}} for name, ref in names.items()}
    return {"$ref": f"#/$defs/x{levels}", "$defs": {"x0": {"type": "string"}, **inside}}


def _conditions(count: int) -> Any:
    conditions = [
        {"if": {"properties": {"k": {"const": f"v{i}"}}}, "then": {"required": [f"a{i}"]}} for i in range(count)
    ]
    kind = {"enum": [f"v{i}" for i in range(count)]}
    return {"type": "object", "properties": {"k": kind}, "required": ["k"], "allOf": conditions}


def _kind(i: int) -> Any:
    properties = {"kind": {"const": f"k{i}"}, "v": {"type": "integer"}}
    return {"type": "object", "properties": properties, "required": ["kind"], "additionalProperties": False}


# Each with a text that it accepts and one that it does not, and the most states that it may take.
COMPILED: dict[str, tuple[Any, str, str, int]] = {
    "a chain of references": (
        {
            "$ref": "#/$defs/t0",
            "$defs": {**{f"t{i}": {"$ref": f"#/$defs/t{i + 1}"} for i in range(500)}, "t500": {"type": "null"}},
        },
        "null",
        "1",
        20,
    ),
    "references that double": (_doubling(30), '{"l":{"r":{}}}', '{"l":1}', 5000),
    "conditions on one member": (_conditions(20), '{"k":"v3","a3":1}', '{"k":"v3","a4":1}', 5000),
    "objects in an enum": (
        {"enum": [{"id": i, "n": [i, str(i)]} for i in range(200)]},
        '{"id":7,"n":[7,"7"]}',
        '{"id":7,"n":[8,"8"]}',
        10_000,
    ),
    "arrays in an enum": ({"enum": [[i, -0.5 * i] for i in range(300)]}, "[4,-2]", "[4,-2.0]", 3000),
    "one of many constants": ({"oneOf": [{"const": f"k{i}"} for i in range(100)]}, '"k42"', '"k420"', 50),
    "one of many kinds": ({"oneOf": [_kind(i) for i in range(60)]}, '{"kind":"k42","v":1}', '{"kind":"k60"}', 100),
    "one of many that overlap": (
        {"type": "object", "oneOf": [{"required": [f"a{i}"]} for i in range(8)]},
        '{"a3":1}',
        '{"a3":1,"a4":1}',
        1000,
    ),
    "arrays in arrays": (_nested(100), "[[]]", "[[1]]", 2000),
    "the same again": ({"allOf": [{"type": "string", "maxLength": 3}] * 300}, '"abc"', '"abcd"', 100),
    "a string of 10,000 characters": (
        {"type": "string", "maxLength": 10_000},
        '"' + "é\\n" * 5000 + '"',
        '"' + "é\\n" * 5000 + 'x"',
        150_000,
    ),
    "a string of 2,000 characters among any others": (
        {"properties": {"a": {"type": "string", "maxLength": 2000}}},
        '{"a":"' + "\\u0000" * 2000 + '","b":[]}',
        '{"a":"' + "x" * 2001 + '"}',
        30_000,
    ),
    "an e-mail address of 254 characters": (
        {"type": "string", "format": "email", "maxLength": 254},
        '"' + "a" * 244 + '@[1.2.3.4]"',
        '"' + "a" * 244 + '@[1.2.3.45]"',
        5000,
    ),
    "a host name of 253 characters": (
        {"type": "string", "format": "hostname", "maxLength": 253},
        '"' + ("a" * 62 + ".") * 4 + 'b"',
        '"' + ("a" * 62 + ".") * 4 + 'bc"',
        25_000,
    ),
    "many equal items": (
        {"type": "array", "items": {"type": "array", "items": {"type": "string"}}, "maxItems": 60},
        '[["a"],[]]',
        "[1]",
        3000,
    ),
}


@pytest.mark.parametrize("name", COMPILED)
def test_it_is_compiled(name: str) -> None:
    schema, valid, invalid, most_states = COMPILED[name]
    accepts = acceptor(schema)
    assert accepts(valid)
    assert not accepts(invalid)
    assert lk.JsonSchema(schema, BYTES).automaton.states <= most_states


# Each with what the error says.
REFUSED: dict[str, tuple[Any, str]] = {
    "nested too deeply": (_nested(1000), "the schema at #: the schema is nested more than 256"),
    "itself": ({"$ref": "#"}, "'$ref' at #: it refers to itself"),
    "itself in allOf": ({"allOf": [{"$ref": "#"}]}, "it refers to itself without going into"),
    "each other": (
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
        "'$ref' at",
    ),
    "negations in negations": (json.loads('{"not":' * 100 + "{}" + "}" * 100), "more than 40 schemas are nested"),
    "branches that multiply": (
        {"type": "object", "allOf": [{"anyOf": [{"required": [f"a{i}"]}, {"required": [f"b{i}"]}]} for i in range(20)]},
        "'allOf' at #: compiling the schema takes more than",
    ),
    "items without number": (
        {"type": "array", "maxItems": 10**9, "contains": {"type": "null"}, "minContains": 100},
        "'maxItems' at #",
    ),
    "long names": ({"properties": {"a": {"propertyNames": {"minLength": 10**9}}}}, "'propertyNames' at #/properties/a"),
    "no long names": ({"not": {"type": "string", "maxLength": 10**9}}, "'not' at #"),
    "a bound whose digits are never written": ('{"minLength": 1e999999999}', "'minLength' at #"),
    "a number of many digits": ('{"minimum": 1e999999999}', "'minimum' at #: a number has more than 5000 digits"),
    "an exponent of many digits": ('{"minimum": 1e99999999999999999999}', "the exponent of the number"),
    "a huge integer": ({"minimum": 10**100_000}, "a number of more than 4000 digits"),
    "remainders without number": ({"type": "integer", "multipleOf": 10**18 + 9}, "'multipleOf' at #"),
    "names by many patterns": (
        {"patternProperties": {f"x{i}": {"type": "integer"} for i in range(60)}, "additionalProperties": False},
        "'patternProperties' at #: the patterns divide names into more than",
    ),
    "a pattern that explodes": ({"type": "string", "pattern": "^(a|b)*a(a|b){40}$"}, "'pattern' at #"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_by_name(name: str) -> None:
    schema, said = REFUSED[name]
    with pytest.raises(UnsupportedSchema) as error:
        lk.JsonSchema(schema, BYTES)
    assert type(error.value) is UnsupportedSchema
    assert error.value.pointer is not None
    assert said in str(error.value)


# Schemas that are slow in different stages, in many copies that are each cheap.
MANY: dict[str, Any] = {
    "patterns": {"anyOf": [{"type": "string", "pattern": f"a{i}.*b{i}"} for i in range(30)]},
    "lengths": {"propertyNames": {"anyOf": [{"maxLength": 2 * i, "minLength": i} for i in range(400)]}},
    "counted strings": {"prefixItems": [{"type": "string", "maxLength": i} for i in range(640)], "items": False},
    "objects": {"properties": {f"p{i}": {"type": "object", "properties": {f"b{i}": True}} for i in range(300)}},
    "negated members": {"not": {"properties": {f"a{i}": {"type": "string"} for i in range(60)}}},
    "optional members": {
        "properties": {f"p{i}": {"type": "integer"} for i in range(600)},
        "additionalProperties": False,
    },
}


@pytest.mark.parametrize("name", MANY)
def test_the_parts_of_a_schema_are_counted_together(name: str) -> None:
    with pytest.raises(UnsupportedSchema) as error:
        lk.JsonSchema(MANY[name], BYTES, limits=lk.Limits(work=400_000))
    assert "compiling the schema takes more than 400000 steps; simplify the schema" in str(error.value)
    assert "limits=Limits(work=...)" in str(error.value)
    assert error.value.pointer is not None


def test_what_counts_is_the_same_at_every_time() -> None:
    schema = {"type": "object", "properties": {"a": {"format": "email", "type": "string"}}, "required": ["a"]}
    limits = [lk.Limits(work=work) for work in range(20_000, 200_000, 40_000)]

    def compiled() -> list[bool]:
        found = []
        for limit in limits:
            try:
                lk.JsonSchema(schema, lk.Vocabulary([*map(bytes, zip(range(256))), None], eos_ids=[256]), limits=limit)
                found.append(True)
            except UnsupportedSchema:
                found.append(False)
        return found

    assert compiled() == compiled()


def test_it_is_said_again_what_is_left_out() -> None:
    for _ in range(2):
        with pytest.warns(UserWarning, match="'format' at #: the format 'wat' is not known"):
            lk.JsonSchema({"type": "string", "format": "wat"}, BYTES, lax=True, strict_formats=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lk.JsonSchema({"type": "string"}, BYTES, lax=True)
