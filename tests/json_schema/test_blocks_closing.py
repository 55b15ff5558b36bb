"""With `closing`, texts of many items are complete in time, whether the items are written in blocks or not."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

import logitkit as lk
from logitkit.errors import ConfigurationError, UnsupportedSchema
from tests.json_schema.block_schemas import ENDS_DECIDE, SCHEMAS, SMALL, array, in_blocks_and_out
from tests.json_schema.judge import judge, parse
from tests.json_schema.walks import walk
from tests.vocabularies import tekken


@pytest.mark.parametrize("items", [1, 2])
@pytest.mark.parametrize("name", [name for name in SCHEMAS if name not in ENDS_DECIDE])
def test_texts_in_blocks_are_complete_in_time(name: str, items: int) -> None:
    schema, options = SCHEMAS[name]
    context = lk.Context.of([[]], vocabulary_size=SMALL.size)
    for seed, more in enumerate((0, 1, 5, 20, 60)):
        _, out = in_blocks_and_out(schema, {**options, "closing": True}, items)
        # Where items are called, a token that ends one and begins another is not counted on.
        budget = int(out.automaton.cost[out.automaton.start]) + 5 + more
        constraints = in_blocks_and_out(schema, {**options, "closing": budget}, items)
        chance, text = random.Random(seed), b""
        states = [constraint.init_state(context) for constraint in constraints]
        for place in range(budget + 1):
            legal, exact = (c.allowed_tokens(state)[0] for c, state in zip(constraints, states, strict=True))
            assert not (legal & ~exact).any()
            if budget - place > 30:
                assert torch.equal(legal, exact)
            token = chance.choice(legal.nonzero()[:, 0].tolist())
            if token in SMALL.eos_ids:
                break
            text += SMALL.tokens[token] or b""
            states = [c.advance(state, torch.tensor([token])) for c, state in zip(constraints, states, strict=True)]
        # A row that has died ends too.
        assert judge(schema).is_valid(parse(text))


@pytest.mark.parametrize("name", ENDS_DECIDE)
def test_where_an_end_decides_how_many_items_follow_it_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="only the end of a nested value decides"):
        lk.JsonSchema(SCHEMAS[name][0], SMALL, closing=True)


def test_a_large_bound_costs_little_with_a_token_limit() -> None:
    schema = array({"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}, maxItems=10**5)
    constraint = lk.JsonSchema(schema, tekken(), closing=40)
    assert constraint.automaton.states < 1000
    assert constraint.automaton.nesting.blocks
    for seed in range(5):
        text, _, ended = walk(constraint, seed, 40, lambda logits, _: logits)
        assert ended, text


def test_with_closing_the_last_items_are_written_in_time() -> None:
    schema = array({"type": "null"}, minItems=55, maxItems=60)
    constraint = lk.JsonSchema(schema, SMALL, closing=140)
    assert constraint.automaton.nesting.blocks == 0
    text, _, ended = walk(constraint, 0, 141)
    assert ended
    assert 55 <= text.count(b"null") <= 60


def test_required_items_are_written_out_and_those_after_them_in_blocks() -> None:
    schema = array({"type": "null"}, minItems=100, maxItems=10**6)
    constraint = lk.JsonSchema(schema, SMALL, closing=230)
    assert constraint.automaton.nesting.blocks
    valid = judge(schema).is_valid
    for seed in range(5):
        text, _, ended = walk(constraint, seed, 231)
        assert ended
        assert valid(parse(text))


@pytest.mark.parametrize(
    ("schema", "pointer", "keyword"),
    [
        (array({"type": "null"}, minItems=10**6), "#", "minItems"),
        (array({"type": "null"}, minItems=10**6, maxItems=2 * 10**6), "#", "minItems"),
        ({"properties": {"a": array({}, minItems=10**6, maxItems=2 * 10**6)}}, "#/properties/a", "minItems"),
        (array({"type": "null"}, minItems=2, maxItems=10**6, contains={"enum": [None]}), "#", "maxItems"),
    ],
)
def test_the_bound_that_takes_too_many_states_is_named(schema: dict[str, Any], pointer: str, keyword: str) -> None:
    with pytest.raises(UnsupportedSchema, match="too many") as error:
        lk.JsonSchema(schema, SMALL, closing=True)
    assert (error.value.pointer, error.value.keyword) == (pointer, keyword)
    assert f"'{keyword}'" in str(error.value)
