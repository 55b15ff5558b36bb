"""Long arrays inside of long arrays, in a chain with another constraint: they need a stack, so they are not joined with it."""

from __future__ import annotations

import json
from typing import Any

import pytest

import logitkit as lk
from logitkit.constraints.intersection import Intersection
from logitkit.errors import ConfigurationError
from logitkit.languages import json_schema
from tests.json_schema.judge import judge

CALL = 257
BYTES = lk.Vocabulary([*(bytes([byte]) for byte in range(256)), None, None], eos_ids=[256], special={"<call>": CALL})
BAN = lk.BannedStrings(["11"], BYTES)
NULLS: dict[str, Any] = {"type": "array", "items": {"type": "null"}, "maxItems": 60}
SCHEMAS: dict[str, Any] = {
    "arrays": {"type": "array", "items": NULLS, "maxItems": 60},
    "arrays with a minimum": {"type": "array", "items": {**NULLS, "minItems": 50}, "minItems": 50, "maxItems": 60},
    "objects": {
        "type": "array",
        "items": {"type": "object", "maxProperties": 50, "additionalProperties": {"type": "null"}},
        "maxItems": 60,
    },
    "records": {
        "type": "array",
        "items": {"type": "object", "properties": {"t": NULLS}, "additionalProperties": False},
        "maxItems": 60,
    },
}
INSIDE: dict[str, list[str]] = {
    "arrays": ["[" + ",".join(["null"] * count) + "]" for count in (0, 1, 50, 60, 61)],
    "objects": ["{" + ",".join(f'"{"a" * i}":null' for i in range(count)) + "}" for count in (0, 1, 50, 51)],
    "records": ["{}", *('{"t":[' + ",".join(["null"] * count) + "]}" for count in (0, 1, 60, 61))],
}
INSIDE["arrays with a minimum"] = INSIDE["arrays"]
BROKEN = ["[[]", "[[,]", "[{}", "[{,}]", "[[null,]]", "[]]", "[[]]]", "["]


@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.parametrize("order", [1, -1])
def test_a_chain_allows_what_both_allow(name: str, order: int) -> None:
    """It had an automaton without the stack, which took `[[]` for a whole array."""
    schema, validator = lk.JsonSchema(SCHEMAS[name], BYTES), judge(SCHEMAS[name])
    made: list[Any] = [
        lk.chain(*[BAN, schema][::order]),
        lk.chain(*[lk.Regex(r"[^1]*", BYTES), schema][::order]),
        lk.from_config({"banned_strings": ["11"], "json_schema": SCHEMAS[name]}, BYTES),
    ]
    # Short items many times, and long ones once.
    counts = [
        *((one, count) for one in INSIDE[name][:2] for count in (0, 1, 60, 61)),
        *((one, 1) for one in INSIDE[name]),
    ]
    if name == "arrays with a minimum":
        counts += [(INSIDE[name][2], count) for count in (49, 50)]
    texts = ["[" + ",".join([one] * count) + "]" for one, count in counts]
    verdicts = {text: validator.is_valid(json.loads(text)) for text in texts}
    assert len({*verdicts.values()}) == 2
    for text, valid in [*verdicts.items(), *((text, False) for text in BROKEN)]:
        assert [chain.matches(text) for chain in made] == [valid] * 3, text


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("marker", [CALL, "<call>", "x"])
def test_after_a_marker(marker: Any, order: int) -> None:
    text = marker if isinstance(marker, str) else "<call>"
    after = lk.then(None, lk.JsonSchema(SCHEMAS["arrays"], BYTES), marker)
    chain = lk.chain(*[BAN, after][::order])
    assert [chain.matches(f"a{text}{rest}") for rest in ("[[]]", "[]", "[[]", "[[,]")] == [True, True, False, False]


@pytest.mark.parametrize("marker", [CALL, "x"])
def test_before_a_marker_it_is_refused(marker: Any) -> None:
    schema = lk.JsonSchema(SCHEMAS["arrays"], BYTES)
    with pytest.raises(ConfigurationError, match="too large without a stack, so it can only come last"):
        lk.then(schema, None, marker)
    with pytest.raises(ConfigurationError, match="a part of an intersection must be a finite automaton"):
        Intersection((BAN, schema))


@pytest.mark.parametrize("order", [1, -1])
def test_languages_that_count(order: int) -> None:
    """The only automaton of a language is the one that counts."""
    words = json_schema({"type": "string", "maxLength": 40}).constraint(BYTES)
    numbers = json_schema({"type": "array", "items": {"type": "integer"}, "maxItems": 100}).constraint(BYTES)
    for language, texts in (
        (words, {f'"{"a" * count}"': count <= 40 for count in (0, 39, 40, 41)}),
        (numbers, {f"[{','.join('2' * count)}]": count <= 100 for count in (0, 99, 100, 101)}),
    ):
        chain = lk.chain(*[BAN, language][::order])
        assert {text: chain.matches(text) for text in texts} == texts
