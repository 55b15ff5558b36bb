"""Arguments in any order: jsonschema says which are complete, and every order of these is accepted and read."""

from __future__ import annotations

import itertools
import json
import random
from dataclasses import replace
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import logitkit as lk
from logitkit import ToolCall, ToolFormat, Tools
from logitkit.errors import LogitkitError, UnsupportedSchema
from logitkit.runtime.walk import Walk
from tests.examples import examples, of_all
from tests.tools.turns import EOS, FORMATS, accepts, ids_of, same, vocabulary

INNER = {
    "type": "object",
    "properties": {"u": {"type": "boolean"}, "v": {"type": "null"}},
    "required": ["v"],
    "additionalProperties": False,
}
KINDS: tuple[tuple[dict[str, Any], list[Any]], ...] = (
    ({"type": "integer"}, [-5, 0, 99]),
    ({"type": "string"}, ["a", "5x", "x\ny", "é"]),
    (INNER, [{"u": True, "v": None}, {"v": None, "u": False}, {"v": None}]),
)


def schema_of(names: list[str], required: list[str]) -> dict[str, Any]:
    properties = {name: KINDS[number % 3][0] for number, name in enumerate(names)}
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def any_order(form: ToolFormat) -> ToolFormat:
    return replace(form, member_order="any", verified=False)


@pytest.mark.parametrize("name", of_all(FORMATS, one_in=4))
def test_each_order_is_accepted_and_read_in_that_order(name: str) -> None:
    names = [f"n{number}" for number in range(6)]
    schema, form = schema_of(names, names[:4]), any_order(FORMATS[name])
    judge, draw = Draft202012Validator(schema), random.Random(name)
    tools = Tools([{"name": "f", "parameters": schema}], form, choice="required")
    verdicts = set()
    for _ in range(examples(80)):
        some = draw.sample(names, draw.choice((3, 4, 5, 6, 6)))
        arguments = {member: draw.choice(KINDS[names.index(member) % 3][1]) for member in some}
        text = tools.write([ToolCall("f", arguments)])
        is_right = judge.is_valid(arguments)
        assert accepts(tools, form, text) == is_right, text
        verdicts.add(is_right)
        if is_right:
            turn = tools.parse([*ids_of(text, form), EOS], vocabulary(form))
            assert same(turn.calls, [ToolCall("f", arguments)])
            # The order is kept, also inside of an object.
            assert json.dumps(turn.calls[0].arguments) == json.dumps(arguments)
            stream = tools.stream()
            for character in text:
                stream.feed(character)
            assert stream.finish()[1].calls[0].arguments == arguments
    assert verdicts == {True, False}


@pytest.mark.parametrize("name", ["hermes", "quoted", "told", "keywords", "delimited"])
def test_all_orders_of_four_arguments(name: str) -> None:
    names, form = ["a", "b", "c", "d"], any_order(FORMATS[name])
    schema = {"type": "object", "properties": {member: {"type": "integer"} for member in names}, "required": ["a", "c"]}
    tools = Tools([{"name": "f", "parameters": schema}], form, choice="required")
    in_schema = Tools([{"name": "f", "parameters": schema}], replace(form, member_order="schema"), choice="required")
    for count in range(5):
        for some in itertools.permutations(names, count):
            text = tools.write([ToolCall("f", dict.fromkeys(some, 1))])
            is_complete = {"a", "c"} <= {*some}
            assert accepts(tools, form, text) == is_complete
            assert accepts(in_schema, form, text) == (is_complete and [*some] == sorted(some))


@pytest.mark.parametrize("name", ["hermes", "listed", "deepseek_v31"])
def test_a_row_remembers_many_arguments(name: str) -> None:
    names, form = [f"m{number}" for number in range(28)], any_order(FORMATS[name])
    schema = schema_of(names, names[:26])
    judge, draw = Draft202012Validator(schema), random.Random(7)
    tools = Tools([{"name": "f", "parameters": schema}, {"name": "g"}], form, choice="required")
    whole = {member: KINDS[number % 3][1][0] for number, member in enumerate(names)}
    for turn_number in range(examples(40)):
        some = [member for member in draw.sample(names, 28) if member in names[:26] or draw.random() < 0.5]
        if turn_number % 3 == 1:
            some.remove(draw.choice(names[:26]))
        arguments = {member: whole[member] for member in some}
        calls = [ToolCall("f", arguments), ToolCall("g", {}), ToolCall("f", dict(reversed(whole.items())))]
        assert accepts(tools, form, tools.write(calls)) == judge.is_valid(arguments)
        # One that comes twice.
        text, again = tools.write([ToolCall("f", whole)]), draw.randrange(1, 28)
        assert accepts(tools, form, text)
        assert not accepts(tools, form, text.replace(f'"m{again}"', '"m0"'))


@pytest.mark.parametrize("name", ["hermes", "told"])
@pytest.mark.parametrize("seed", of_all(range(6), one_in=3))
def test_a_random_walk_never_gets_stuck(name: str, seed: int) -> None:
    form, draw = any_order(FORMATS[name]), random.Random(seed)
    names = [f"m{number}" for number in range(26 if name == "hermes" else 5)]
    schema = {"type": "object", "properties": {member: {"enum": [1, 2]} for member in names}, "required": names}
    tools = Tools([{"name": "f", "parameters": schema}], form, choice="required", parallel=False)
    walk, ids = Walk.start(tools.constraint(vocabulary(form)).automaton), list[int]()
    while not walk.may_end():
        following = [(token, walk.after(token)) for token in range(EOS)]
        token, walk = draw.choice([(token, then) for token, then in following if then.is_live])
        ids.append(token)
        assert len(ids) < 2_000
    turn = tools.parse(ids, vocabulary(form))
    assert (turn.complete, turn.outside_at) == (True, None)
    assert Draft202012Validator(schema).is_valid(turn.calls[0].arguments)
    assert [*turn.calls[0].arguments] != names


def test_a_configuration_and_limits() -> None:
    names = [f"m{number}" for number in range(9)]
    many = [{"name": "f", "parameters": schema_of(names, names)}]
    form = any_order(FORMATS["hermes"])
    # A row remembers the names of nine.
    constraint = Tools(many, form).constraint(vocabulary(form))
    assert lk.from_config(lk.to_config(constraint), vocabulary(form)) == constraint
    assert lk.to_config(constraint)["tools"]["format"]["member_order"] == "any"
    wrong = r"member_order='any', an object has 9 listed names; .*allowed are 8. Leave out member_order='any'"
    for refused in ("quoted", "told", "keywords", "ascii"):
        with pytest.raises(UnsupportedSchema, match=rf"tools\['f'\].*{wrong}"):
            Tools(many, any_order(FORMATS[refused])).constraint(vocabulary(FORMATS[refused]))
    with pytest.raises(UnsupportedSchema, match=f"{wrong}.*"):
        Tools(many, form).constraint(vocabulary(form), closing=300)
    distinct = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}
    items = [{"name": "f", "parameters": {"type": "object", "properties": {"a": distinct}}}]
    with pytest.raises(
        UnsupportedSchema, match=r"'uniqueItems' at .*/a: with member_order='any', a row cannot remember"
    ):
        Tools(items, form).constraint(vocabulary(form))
    with pytest.raises(LogitkitError, match=r"\('minProperties', any_order, member_order='any'\)"):
        lk.ForcedPrefix("{", vocabulary(form), then=constraint)
    with pytest.raises(LogitkitError, match=r"'random' is not allowed; allowed are .*'any'"):
        replace(form, member_order="random")  # type: ignore[arg-type]
