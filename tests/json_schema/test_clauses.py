"""Branches of objects that share one graph, which `jsonschema` judges by random values: few combinations have a state."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.errors import UnsupportedSchema
from logitkit.json_schema import applicators, clause_plan, values
from logitkit.json_schema.clauses import FALSE, TRUE, Counted, Formula, assigned, counted
from tests.campaigns.schemas import Case, check
from tests.examples import examples
from tests.json_schema.acceptance import BYTES, Accepted, acceptor, nested
from tests.json_schema.judge import judge
from tests.json_schema.orders import orders

INTEGER, KINDS = {"type": "integer"}, range(20)


def open_objects(number: int, names: int = 1, needed: bool = False) -> list[dict[str, Any]]:
    """Return schemas of objects with integers of different names."""
    properties = [{f"p{i}_{j}": INTEGER for j in range(names)} for i in range(number)]
    return [{"properties": some, **({"required": [*some]} if needed else {})} for some in properties]


def in_some_order(value: Any, texts: Accepted) -> bool:
    """Return whether an object is accepted in some order of its members."""
    return any(texts.accepts(text.encode()) for text in orders(value, "", texts))


@pytest.mark.parametrize("needed", [False, True])
@pytest.mark.parametrize("names", [1, 3])
@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
def test_branches_of_open_objects_take_few_states(keyword: str, names: int, needed: bool) -> None:
    schema = {"type": "object", keyword: open_objects(16, names, needed)}
    texts, validator = Accepted(lk.JsonSchema(schema, BYTES)), judge(schema)
    assert texts.dfa is not None
    assert texts.dfa.states < 40_000
    some = [f"p{i}_{names - 1}" for i in (0, 5, 15)]
    for chosen in product([None, 1, "x"], repeat=3):
        value = {name: inside for name, inside in zip(some, chosen, strict=True) if inside is not None}
        assert in_some_order(value, texts) == validator.is_valid(value)


def test_a_constant_tells_thousands_of_branches_apart() -> None:
    branches = [{"properties": {"kind": {"const": i}, f"x{i}": INTEGER}, "required": ["kind"]} for i in range(500)]
    schema = {"type": "object", "oneOf": branches}
    accepts = acceptor(schema)
    assert accepts('{"kind":7,"x7":1,"x8":"y"}')
    assert not accepts('{"kind":7,"x7":"y"}')
    assert not accepts('{"kind":500}')
    half = nested({**schema, "oneOf": branches[:250]}).states
    assert nested(schema).states < 2.2 * half


@pytest.mark.parametrize("needed", [False, True])
def test_many_branches_that_cannot_hold_together_tell_what_they_have_looked_at(needed: bool) -> None:
    branches = [{"properties": {"kind": {"const": i}, f"x{i}": {}}, "required": ["kind"]} for i in KINDS]
    if not needed:
        branches.append({"properties": {"other": True}})
    accepts = acceptor({"type": "object", "anyOf": branches, "unevaluatedProperties": False})
    assert accepts('{"kind":3,"x3":1}')
    assert not accepts('{"kind":3,"x4":1}')
    assert accepts('{"kind":3,"x3":1,"other":1}') == accepts('{"other":1}') == (not needed)


def test_more_than_six_that_may_all_hold_are_refused() -> None:
    schema = {"type": "object", "anyOf": open_objects(7), "unevaluatedProperties": False}
    with pytest.raises(UnsupportedSchema, match="would need more than 63 combinations of its 7 schemas"):
        lk.JsonSchema(schema, BYTES)


@pytest.mark.parametrize(("least", "most"), [(least, most) for least in range(4) for most in (None, 0, 1, 2, 3)])
def test_a_formula_is_what_it_says(least: int, most: int | None) -> None:
    inner = counted(1, 1, (2, 3))
    formula = counted(least, most, (0, 1, inner))
    for truth in product([False, True], repeat=4):
        count = truth[0] + truth[1] + (truth[2] != truth[3])
        expected = TRUE if count >= least and (most is None or count <= most) else FALSE
        left: Formula = formula
        for thing, holds in enumerate(truth):
            left = assigned(left, {thing: holds})
        assert left == assigned(formula, dict(enumerate(truth))) == expected
    assert not isinstance(formula, Counted) or all(part not in (TRUE, FALSE) for part in formula.parts)


NAMES = st.sampled_from("abcd")
LEAVES = st.sampled_from(
    [True, False, INTEGER, {"const": 1}, {"const": 2}, {"enum": [1, "x"]}, {"properties": {"a": INTEGER}}]
)
OBJECTS = st.fixed_dictionaries(
    {"properties": st.dictionaries(NAMES, LEAVES, max_size=3)},
    optional={
        "required": st.lists(NAMES, max_size=2, unique=True),
        "additionalProperties": st.sampled_from([False, False, True, INTEGER]),
        "patternProperties": st.sampled_from([{"^[ab]": False}, {"^(c|e)$": {"const": 2}}]),
    },
)
SCHEMAS = st.recursive(
    OBJECTS,
    lambda inside: st.one_of(
        st.builds(
            lambda own, keyword, branches: {**own, keyword: branches},
            OBJECTS | st.just({}),
            st.sampled_from(["anyOf", "oneOf", "allOf"]),
            st.lists(inside, min_size=2, max_size=4),
        ),
        st.builds(lambda schema: {"not": schema}, inside),
        st.builds(lambda a, b, c: {"if": a, "then": b, "else": c}, inside, inside, inside),
        st.builds(lambda own, name, then: {**own, "dependentSchemas": {name: then}}, OBJECTS, NAMES, inside),
    ),
    max_leaves=6,
).map(lambda schema: {"type": "object", **schema})
VALUES = st.dictionaries(
    st.sampled_from("abcdef"), st.sampled_from([1, 2, "x", None, {}, {"a": 1}, {"a": "x"}]), max_size=4
)


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Write unions and combinations of branches in one graph, however few they are, and count these graphs."""
    monkeypatch.setattr(clause_plan, "MOST_OPEN", 0)
    monkeypatch.setattr(applicators, "LARGE_APART", -(10**9))
    monkeypatch.setattr(values, "MOST_BRANCHES", 1)
    made: Counter[str] = Counter()
    plan = clause_plan._Writer.plan

    def counting(writer: Any) -> Any:
        made["some must not hold" if writer.exact else "union"] += 1
        return plan(writer)

    monkeypatch.setattr(clause_plan._Writer, "plan", counting)
    return made


@settings(max_examples=examples(120), suppress_health_check=[*HealthCheck])
@given(st.builds(Case, SCHEMAS, st.lists(VALUES, min_size=6, max_size=10).map(tuple), st.integers(0, 2**32)))
def test_random_objects_have_the_verdicts_of_jsonschema(always: Counter[str], case: Case) -> None:
    check(case, Counter())


def test_all_combinations_of_branches_have_some_order(always: Counter[str]) -> None:
    """By brute force: all objects of three names and three values."""
    schema = {
        "type": "object",
        "oneOf": [
            {"properties": {"a": INTEGER}, "required": ["b"]},
            {"anyOf": [{"properties": {"b": {"const": 1}}}, {"required": ["c"]}]},
            {"properties": {"c": {"const": "x"}}, "additionalProperties": False},
        ],
    }
    texts, validator = Accepted(lk.JsonSchema(schema, BYTES)), judge(schema)
    for chosen in product([None, 1, "x"], repeat=3):
        value = {name: inside for name, inside in zip("abc", chosen, strict=True) if inside is not None}
        assert in_some_order(value, texts) == validator.is_valid(value), value
    assert always["some must not hold"]
