"""Random towers of schemas, patterns and structural tags, and all kinds of towers together."""

from __future__ import annotations

import json
import random
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from tests.campaigns.grammar_towers import grammars, lark_grammars
from tests.campaigns.tower import Tower, levels_and_end

__all__ = ["towers"]

# N is the level below, I the number of the level.
SCHEMAS: tuple[Any, ...] = (
    {"allOf": ["N", "N"]},
    {"anyOf": ["N", {"properties": {"aI": "N"}}]},
    {"anyOf": ["N", {"type": "array", "items": "N"}]},
    {"oneOf": ["N", {"type": "string", "minLength": 3}]},
    {"allOf": ["N", {"properties": {"kI": {"type": "integer"}}}]},
    {"type": "object", "properties": {"l": "N", "r": "N"}, "required": ["l"]},
    {"type": "object", "properties": {"l": "N"}, "additionalProperties": "N"},
    {"type": "object", "patternProperties": {"^aI": "N", "b$": "N"}},
    {"type": "object", "properties": {"kI": "N"}, "unevaluatedProperties": False, "anyOf": ["N", {"required": ["kI"]}]},
    {"type": "array", "items": "N", "contains": "N"},
    {"type": "array", "prefixItems": ["N", "N"], "items": False},
    {"type": "array", "items": "N", "maxItems": 20, "minItems": 3, "uniqueItems": False},
    {"if": "N", "then": "N", "else": {"type": "string"}},
    {"not": {"allOf": ["N", {"type": "integer"}]}},
    {"type": "object", "dependentSchemas": {"a": "N", "bI": "N"}},
    {"type": "object", "propertyNames": "N", "minProperties": 2},
    {"type": "string", "pattern": "a{0,I}b|[a-z]*"},
    {"enum": ["aI", "b", 1, [1, {"a": "I"}]]},
    {"$ref": "#/$defs/d0"},
)
SCHEMA_ENDS: tuple[Any, ...] = (
    {"type": "integer"},
    {"type": "string", "maxLength": 99},
    {},
    {"const": {"a": [1, 2]}},
    {"type": "number", "multipleOf": 0.07},
    {"type": "string", "pattern": "^(a|b)*a(a|b){8}$"},
    {"$ref": "#"},
    {"type": "string", "format": "date-time"},
    False,
    {"type": "object", "properties": {"v": {"$ref": "#"}}},
    {"enum": [*range(300)]},
    {"type": "string", "minLength": 9000},
)


def _schema(template: Any, level: int) -> Any:
    match template:
        case "N":
            return {"$ref": f"#/$defs/d{level + 1}"}
        case str():
            return template.replace("I", str(level))
        case dict():
            return {
                _schema(key, level) if key != "N" else key: _schema(value, level) for key, value in template.items()
            }
        case list():
            return [_schema(value, level) for value in template]
        case _:
            return template


@st.composite
def schemas(draw: DrawFn) -> Tower:
    levels, end = draw(levels_and_end(SCHEMAS, SCHEMA_ENDS, 1000))
    defined = {f"d{i}": _schema(template, i) for i, template in enumerate(levels)}
    schema = {"$ref": "#/$defs/d0", "$defs": {**defined, f"d{len(levels)}": end}}
    form = draw(st.sampled_from(("json_schema", "json_schema", "lax", "tools", "lark", "tag")))
    if form == "lark":
        text = f"start: %json {json.dumps(schema)}"
        return Tower("a schema in a grammar", json.dumps({"grammar": {"text": text, "syntax": "lark"}}))
    if form == "tools":
        function = {
            "name": "f",
            "parameters": {"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": schema["$defs"]},
        }
        return Tower("a tool", json.dumps({"tools": [{"type": "function", "function": function}]}))
    if form == "tag":
        tag = {"type": "tag", "begin": "<a>", "content": {"type": "json_schema", "json_schema": schema}, "end": "</a>"}
        return Tower("a structural tag", json.dumps({"structural_tag": {"type": "structural_tag", "format": tag}}))
    lax = form == "lax"
    return Tower("a schema, lax" if lax else "a schema", json.dumps({"json_schema": {"schema": schema, "lax": lax}}))


PATTERNS = (
    "NN",
    "N?N",
    "(?:N|NN)",
    "(?:N|x)",
    "N*aN",
    "(?:N)+b?",
    "(?=N)N",
    "(?!N)N?",
    "(?<=a)N",
    "(?>N)N",
    "N.{0,30}",
    r"\w{0,9}N",
    "[^x]*N",
    "(?i:N)",
    r"\bN",
    "N{0,5}",
    "(?:N){3}",
    r"(?:N|\p{L}N)",
)
PATTERN_ENDS = ("a", "a?", "[ab]*", r"\w", ".", "(?:a|ab)", r"\p{Lu}\d", "é", "(?:a|b)*a(?:a|b){5}")


@st.composite
def patterns(draw: DrawFn) -> Tower:
    levels, pattern = draw(levels_and_end(PATTERNS, PATTERN_ENDS, 75))
    for template in levels:
        longer = template.replace("N", pattern)
        if len(longer) > 50_000:
            break
        pattern = longer
    return Tower("a pattern", json.dumps({"regex": pattern}))


FORMATS: tuple[Any, ...] = (
    {"type": "sequence", "elements": ["N", "N"]},
    {"type": "or", "elements": ["N", {"type": "const_string", "value": "xI"}]},
    {"type": "tag", "begin": "<aI>", "content": "N", "end": "</aI>"},
    {
        "type": "triggered_tags",
        "triggers": ["<f"],
        "tags": [
            {"begin": "<fI>", "content": "N", "end": "</f>"},
            {"begin": "<f>", "content": {"type": "any_text"}, "end": "</f>"},
        ],
    },
    {"type": "tags_with_separator", "separator": ",", "tags": [{"begin": "<a>", "content": "N", "end": "</a>"}]},
)
FORMAT_ENDS: tuple[Any, ...] = (
    {"type": "any_text"},
    {"type": "const_string", "value": "a"},
    {"type": "regex", "pattern": "[a-z]{1,50}"},
    {"type": "json_schema", "json_schema": {"type": "object"}},
    {"type": "grammar", "grammar": 'root ::= "a" root "b" | "c"'},
)


@st.composite
def structural_tags(draw: DrawFn) -> Tower:
    levels, found = draw(levels_and_end(FORMATS, FORMAT_ENDS, 10))
    for level, template in enumerate(levels):
        written = json.dumps(template).replace('"N"', json.dumps(found)).replace("I", str(level))
        if len(written) > 100_000:
            break
        found = json.loads(written)
    return Tower("a structural tag", json.dumps({"structural_tag": {"type": "structural_tag", "format": found}}))


@st.composite
def large_lists(draw: DrawFn) -> Tower:
    """Many alike parts side by side, rather than in each other."""
    count = draw(st.sampled_from((100, 1000, 5000)))
    chance = random.Random(draw(st.integers(0, 99)))
    words = [
        "".join(chance.choices("abcé", k=chance.randint(1, draw(st.sampled_from((3, 12, 60)))))) for _ in range(count)
    ]
    kind = draw(st.integers(0, 8))
    options = '" | "'.join(words)
    configs: tuple[Any, ...] = (
        {"grammar": f'root ::= ("{options}") root?'},
        {
            "grammar": {
                "text": f'start: (NAME | "{options}")*\nNAME: /[a-cé]+/',
                "syntax": "lark",
                "lexer": draw(st.sampled_from(("longest", "contextual"))),
            }
        },
        {"json_schema": {"enum": words}},
        {"json_schema": {"properties": {word: {"type": "string", "pattern": word} for word in words}}},
        {"json_schema": {"anyOf": [{"required": [word], "properties": {word: {"const": word}}} for word in words]}},
        {"choice": words},
        {"banned_strings": words},
        {"regex": "|".join(f"{word}.*" for word in words)},
        {
            "tools": [
                {
                    "type": "function",
                    "function": {"name": f"f{i}", "parameters": {"type": "object", "properties": {word: {}}}},
                }
                for i, word in enumerate(words)
            ]
        },
    )
    return Tower("a large list", json.dumps(configs[kind]))


def towers() -> st.SearchStrategy[Tower]:
    """Return the strategy of all kinds."""
    return st.one_of(grammars(), lark_grammars(), schemas(), schemas(), patterns(), structural_tags(), large_lists())
