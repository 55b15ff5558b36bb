"""Arrays with many items in languages: their blocks are called, and the masks are those of brute force."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.languages import Language, any_text, dispatch, either, json_schema, repeat, sequence, tag
from logitkit.limits import Limits
from tests.examples import examples
from tests.json_schema.block_schemas import small_blocks
from tests.languages.comparison import compare
from tests.languages.random_languages import SCHEMAS as OTHERS
from tests.languages.random_languages import languages
from tests.languages.test_random import same_masks
from tests.languages.vocabularies import BYTES, SHOWN
from tests.tools.turns import TOOLS


def array(most: int, items: Any, **keywords: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, "maxItems": most, **keywords}


WORDS = array(5, {"enum": [None, "a"]})
NESTED = array(4, array(3, {"type": "null"}, minItems=2), minItems=1)
MEMBERS = {"type": "object", "additionalProperties": {"type": "null"}, "maxProperties": 4}
SCHEMAS = [WORDS, NESTED, array(6, {"const": "b"}, minItems=4)]

LANGUAGES: dict[str, Language] = {
    "between texts": sequence("a", json_schema(WORDS), "b"),
    "in a tag": tag("<t>", json_schema(NESTED), "<o>"),
    "after free text": sequence(any_text(until="<t>"), json_schema(WORDS)),
    "twice": repeat(json_schema(WORDS), 1, 2, "a"),
    "one of two": either(sequence("a", json_schema(WORDS)), sequence("b", json_schema(NESTED))),
    "that begin alike": either(json_schema(WORDS), json_schema(array(3, {"const": "b"}))),
    "in free text": dispatch({"<t>": sequence("<t>", json_schema(WORDS))}, at_least=1, stop_after_first=True),
    "in an object": json_schema(
        {"properties": {"a": WORDS}, "required": ["a"], "additionalProperties": False, "type": "object"}
    ),
}


@pytest.mark.parametrize(("least", "items"), [(1, 1), (2, 2)])
@pytest.mark.parametrize("name", LANGUAGES)
def test_masks(name: str, least: int, items: int) -> None:
    # Nothing has been compiled with these limits before.
    limits = Limits(states=200_000, work=7_000_000 + 10 * least + items)
    with small_blocks(least, items):
        assert compare(LANGUAGES[name], BYTES, most=4000, shown=SHOWN, limits=limits) > 10
        made = LANGUAGES[name].constraint(BYTES, limits=limits).automaton.nesting
    assert made.blocks > 0


@given(st.data())
@settings(max_examples=examples(60))
def test_random_languages(data: st.DataObject) -> None:
    language = data.draw(languages([*SCHEMAS, *OTHERS]))
    items = data.draw(st.integers(1, 2))
    with small_blocks(1, items):
        same_masks(language, BYTES, shown=SHOWN, limits=Limits(states=200_000, work=8_000_000 + items))


def test_tools_may_have_long_arrays(tekken: lk.Vocabulary) -> None:
    rows = {"type": "array", "maxItems": 1000, "items": {"type": "object", "properties": {"id": {"type": "integer"}}}}
    parameters = {"type": "object", "properties": {"rows": rows}, "required": ["rows"]}
    tools = [{"type": "function", "function": {"name": f"add{i}", "parameters": parameters}} for i in range(5)]
    constraint = lk.Tools([*TOOLS, *tools], "hermes", choice="required").constraint(tekken)
    assert constraint.automaton.states < 2000
    for count in (0, 1, 17, 48, 49, 300, 1000, 1001):
        listed = ",".join(['{"id":7}'] * count)
        call = f'<tool_call>\n{{"name": "add3", "arguments": {{"rows":[{listed}]}}}}\n</tool_call>'
        assert constraint.matches(call) == (count <= 1000), count


def test_arguments_between_tags_may_have_long_arrays(tekken: lk.Vocabulary) -> None:
    parameters = {"type": "object", "properties": {"rows": array(1000, {"type": "integer"})}, "required": ["rows"]}
    tools = [{"type": "function", "function": {"name": "add", "parameters": parameters}}]
    for closing in (False, 5000):
        constraint = lk.Tools(tools, "qwen_coder", choice="required").constraint(tekken, closing=closing)
        assert constraint.automaton.nesting.blocks > 0
        assert constraint.automaton.states < 1000
        for count in (0, 1, 17, 49, 1000, 1001):
            listed = ",".join(["7"] * count)
            call = f"<function=add>\n<parameter=rows>\n[{listed}]\n</parameter>\n</function>"
            assert constraint.matches(f"<tool_call>\n{call}\n</tool_call>") == (count <= 1000), count
