"""Members in any order where a row remembers the names: compared with all texts of finite languages, and with many names.

The oracle writes all members in all orders, and keeps the objects that jsonschema accepts. Objects with few names need no memory,
so most tests let very few be few.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import permutations, product
from typing import Any

import jsonschema
import pytest
import torch

import logitkit as lk
from logitkit.errors import ConfigurationError, UnsupportedSchema
from logitkit.json_schema import object_plan
from tests.examples import CI
from tests.remembering.test_names import TOKENS as PIECES

TOKENS = [*PIECES[:-1], b'{"ab":', b',"ab":1', b'1,"b":', b'c":1}', b'"c":1,"a":1', None]
FEW = 1


@cache
def vocabulary() -> lk.Vocabulary:
    return lk.Vocabulary(TOKENS, eos_ids=[len(TOKENS) - 1])


def objects(names: Iterable[str], values: list[Any]) -> Iterator[dict[str, Any]]:
    """Yield all objects with some of the names, in all orders."""
    names = [*names]
    for count in range(len(names) + 1):
        for some in permutations(names, count):
            for given in product(values, repeat=count):
                yield dict(zip(some, given, strict=True))


def closed(names: Iterable[str], **keywords: Any) -> dict[str, Any]:
    """An object with members that are 1."""
    return {
        "type": "object",
        "properties": {name: {"const": 1} for name in names},
        "additionalProperties": False,
        **keywords,
    }


THREE = ["a", "ab", "b"]
PAIR = closed(["a", "b"], required=["a", "b"])
# No value satisfies these, which only shows when the texts of all parts are known.
IMPOSSIBLE = {"type": "string", "minLength": 2, "maxLength": 1}
ENDLESS = {
    "type": "object",
    "properties": {"a": {"$ref": "#/$defs/endless"}},
    "required": ["a"],
    "additionalProperties": False,
}


def lacking(name: str, value: dict[str, Any], **keywords: Any) -> dict[str, Any]:
    """An object of three names, one of which has another value."""
    found = closed(THREE, **keywords)
    return {**found, "properties": {**found["properties"], name: value}}


# Each with all values that may satisfy it: jsonschema decides.
LANGUAGES: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "all required": (closed(THREE, required=THREE), [*objects(THREE, [1])]),
    "some required": (closed([*THREE, "c"], required=["b", "c"]), [*objects([*THREE, "c"], [1])]),
    "none required": (closed(THREE), [*objects(THREE, [1])]),
    "bounds": (
        closed([*THREE, "c"], required=["c"], minProperties=2, maxProperties=3),
        [*objects([*THREE, "c"], [1])],
    ),
    "no room for others": (
        closed([*THREE, "c"], required=["c", "ab"], maxProperties=2),
        [*objects([*THREE, "c"], [1])],
    ),
    "several values": (
        {**closed(THREE), "properties": {"a": {"enum": [1, 11]}, "ab": {"type": "boolean"}, "b": {"const": "a"}}},
        [*objects(THREE, [1, 11, True, False, "a"])],
    ),
    "other names": (
        {
            "type": "object",
            "properties": {"a": {"const": 1}, "b": {"const": 1}},
            "patternProperties": {"^c{1,2}$": {"const": 11}},
            "additionalProperties": False,
            "required": ["b"],
        },
        [*objects(["a", "b", "c", "cc"], [1, 11])],
    ),
    "inside of each other": (
        {**closed(["a", "b"], required=["b"]), "properties": {"a": PAIR, "b": PAIR}},
        [*objects(["a", "b"], [*objects(["a", "b"], [1])])],
    ),
    "in an array": (
        {"type": "array", "items": PAIR, "maxItems": 2},
        [[*some] for count in range(3) for some in product([*objects(["a", "b"], [1])], repeat=count)],
    ),
    "branches": (
        {"anyOf": [closed(["a", "ab", "c"], required=["a", "c"]), closed(["a", "b"], required=["b"])]},
        [*objects(["a", "ab", "b", "c"], [1])],
    ),
    "a branch whose required name has no value": (
        {
            "anyOf": [lacking("ab", {"$ref": "#/$defs/endless"}, required=THREE), closed(["a", "c"])],
            "$defs": {"endless": ENDLESS},
        },
        [*objects(["a", "ab", "b", "c"], [1])],
    ),
    "a branch with too few names that have values": (
        {"anyOf": [lacking("b", IMPOSSIBLE, minProperties=3), closed(["a", "c"], required=["c"])]},
        [*objects(["a", "ab", "b", "c"], [1])],
    ),
    "inside of an object whose members have no values": (
        {
            **closed(["a", "b"], minProperties=2),
            "properties": {"a": PAIR, "b": {"anyOf": [lacking("a", IMPOSSIBLE, minProperties=3), PAIR]}},
        },
        [*objects(["a", "b"], [*objects(["a", "b"], [1])])],
    ),
}


@cache
def texts(name: str) -> frozenset[bytes]:
    """All texts of a language."""
    schema, values = LANGUAGES[name]
    is_valid = jsonschema.Draft202012Validator(schema).is_valid
    return frozenset(json.dumps(value, separators=(",", ":")).encode() for value in values if is_valid(value))


@cache
def beginnings(name: str) -> frozenset[bytes]:
    return frozenset(text[:length] for text in texts(name) for length in range(len(text) + 1))


@pytest.fixture
def constraint(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> lk.JsonSchema:
    """The constraint of a language, in which more than one name is many."""
    monkeypatch.setattr(object_plan, "MOST_NAMES", FEW)
    found = lk.JsonSchema(LANGUAGES[request.param][0], vocabulary(), any_order=True)
    assert found.automaton.remembers is not None
    return found


@pytest.mark.parametrize(("name", "constraint"), [(name, name) for name in LANGUAGES], indirect=["constraint"])
def test_a_token_is_legal_if_the_text_can_go_on(name: str, constraint: lk.JsonSchema) -> None:
    end, draw = vocabulary().eos_ids[0], random.Random(name)
    complete, begun = texts(name), beginnings(name)
    assert complete
    for _ in range(60 if CI else 20):
        state, text = constraint.init_state(lk.Context.of([[]], vocabulary_size=vocabulary().size)), b""
        while True:
            allowed = constraint.allowed_tokens(state)[0].nonzero().flatten().tolist()
            wanted = [i for i, token in enumerate(TOKENS) if token is not None and text + token in begun]
            assert allowed == wanted + [end] * (text in complete), text
            if not wanted:
                break
            token = draw.choice(wanted)
            state, text = constraint.advance(state, torch.tensor([token])), text + (TOKENS[token] or b"")


@pytest.mark.parametrize(("name", "constraint"), [(name, name) for name in LANGUAGES], indirect=["constraint"])
def test_an_illegal_token_ends_the_row(name: str, constraint: lk.JsonSchema) -> None:
    draw, begun = random.Random(name), beginnings(name)
    ids = [i for i, token in enumerate(TOKENS) if token is not None]
    start = constraint.init_state(lk.Context.of([[]] * len(ids), vocabulary_size=vocabulary().size))
    for text in draw.sample(sorted(begun), min(16, len(begun))):
        state = constraint.advance(start, torch.tensor([[*text]] * len(ids), dtype=torch.int64).reshape(len(ids), -1))
        after = constraint.advance(state, torch.tensor(ids))
        assert constraint.is_dead(after).tolist() == [text + (TOKENS[i] or b"") not in begun for i in ids], text


@pytest.mark.parametrize(("count", "required"), [(9, 9), (24, 24), (40, 12), (30, 0)])
def test_objects_of_many_names(count: int, required: int) -> None:
    draw = random.Random(count)
    names = [f"name{i}" for i in range(count)]
    values = {name: draw.choice(({"type": "integer"}, {"type": "string"}, {"enum": [None, True]})) for name in names}
    schema = {
        "type": "object",
        "properties": values,
        "required": draw.sample(names, required),
        "additionalProperties": False,
    }
    constraint = lk.JsonSchema(schema, vocabulary(), any_order=True)
    validator = jsonschema.Draft202012Validator(schema)

    def written(some: list[str]) -> str:
        of_kind = {"integer": 5, "string": "x", "None": True}
        members = [f"{json.dumps(name)}:{json.dumps(of_kind[str(values[name].get('type'))])}" for name in some]
        return "{" + ",".join(members) + "}"

    for _ in range(12):
        some = draw.sample(names, draw.choice((count, count, max(1, count - 1))))
        assert constraint.matches(written(some)) == validator.is_valid(json.loads(written(some)))
        assert not constraint.matches(written([*some, draw.choice(some)]))
    for seed in range(3):
        example = constraint.example(seed)
        validator.validate(json.loads(example))
        pairs = json.loads(example, object_pairs_hook=list)
        assert len({name for name, _ in pairs}) == len(pairs)


@pytest.mark.parametrize("value", [IMPOSSIBLE, {"$ref": "#/$defs/endless"}], ids=["impossible", "endless"])
@pytest.mark.parametrize(
    "keywords", [{"required": ["n3", "n8"]}, {"minProperties": 9}, {"others": None, "minProperties": 10}]
)
def test_names_without_values_are_not_counted(value: dict[str, Any], keywords: dict[str, Any]) -> None:
    """Else a row would get stuck: it counts required names, and looks for one that is left."""
    values = {**{f"n{i}": {"const": 1} for i in range(9)}, **({} if "others" in keywords else {"n3": value})}
    others = value if "others" in keywords else False
    schema = {"type": "object", "properties": values, "additionalProperties": others, "$defs": {"endless": ENDLESS}}
    schema |= {name: bound for name, bound in keywords.items() if name != "others"}
    with pytest.raises(ConfigurationError, match="no value satisfies the schema"):
        lk.JsonSchema(schema, vocabulary(), any_order=True)
    # As many as there are.
    fewer = {**schema, "required": ["n8"], "minProperties": 9 if "others" in keywords else 8}
    example = json.loads(lk.JsonSchema(fewer, vocabulary(), any_order=True).example(0))
    assert {*example} == {name for name in values if values[name] is not value}


def test_more_members_than_names_are_refused_as_any_empty_schema() -> None:
    with pytest.raises(ConfigurationError, match="no value satisfies the schema"):
        lk.JsonSchema(closed([f"n{i}" for i in range(9)], minProperties=10), vocabulary(), any_order=True)


def test_a_bound_above_the_number_of_names_needs_no_states() -> None:
    schema = closed([f"n{i}" for i in range(9)], required=["n0", "n8"])
    plain, bounded = (
        lk.JsonSchema(some, vocabulary(), any_order=True) for some in (schema, {**schema, "maxProperties": 9})
    )
    assert bounded.automaton.content_key == plain.automaton.content_key
    assert (
        lk.JsonSchema({**schema, "maxProperties": 8}, vocabulary(), any_order=True).automaton.states
        > plain.automaton.states
    )


def test_a_constraint_that_remembers_names_is_not_a_part_of_another_one() -> None:
    constraint = lk.JsonSchema(closed([f"n{i}" for i in range(9)]), vocabulary(), any_order=True)
    with pytest.raises(ConfigurationError, match=r"objects whose names must \('minProperties', any_order, "):
        lk.ForcedPrefix("{", vocabulary(), then=constraint)


def test_the_option_is_part_of_a_configuration_and_of_the_content_key() -> None:
    schema = {"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 1}}}
    constraint = lk.JsonSchema(schema, vocabulary(), any_order=True)
    assert lk.to_config(constraint) == {"json_schema": {"schema": schema, "any_order": True}}
    assert lk.from_config(lk.to_config(constraint), vocabulary()) == constraint
    assert constraint.automaton.content_key != lk.JsonSchema(schema, vocabulary()).automaton.content_key
    assert constraint.matches('{"b":1,"a":1}')
    assert not lk.JsonSchema(schema, vocabulary()).matches('{"b":1,"a":1}')


@pytest.mark.parametrize(
    ("keywords", "options", "where"),
    [
        ({}, {"closing": True}, "with 'closing'"),
        ({"dependentRequired": {"n1": ["n2"]}}, {}, "with 'dependentRequired'"),
    ],
)
def test_names_are_not_remembered_everywhere(keywords: dict[str, Any], options: dict[str, Any], where: str) -> None:
    schema = closed([f"n{i}" for i in range(9)]) | keywords
    with pytest.raises(UnsupportedSchema, match=f"an object has 9 listed names; {where}.*allowed are 8"):
        lk.JsonSchema(schema, vocabulary(), any_order=True, **options)
