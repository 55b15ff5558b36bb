"""Generated schemas: what is written validates, and what validates can be written."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from jsonschema.protocols import Validator

import logitkit as lk
from logitkit.errors import ConfigurationError, UnsupportedSchema
from tests.examples import examples
from tests.json_schema.acceptance import BYTES, Accepted, acceptor, nested
from tests.json_schema.canonical import canonical
from tests.json_schema.generated import NAMES, instances, leaves, schemas
from tests.json_schema.judge import exact, judge, parse
from tests.json_schema.orders import accepted_in_some_order
from tests.json_schema.writing import Writer

QUICK = settings(
    max_examples=examples(160),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
    phases=[Phase.generate],  # the schema in the message is small enough, and shrinking it takes minutes
)

# Of small schemas.
MANY = settings(QUICK, max_examples=examples(300))


@QUICK
@given(st.data())
def test_values_are_accepted_exactly_if_they_are_valid(data: st.DataObject) -> None:
    check(data, schemas)


@MANY
@given(st.data())
def test_values_at_bounds_are_accepted_exactly_if_they_are_valid(data: st.DataObject) -> None:
    check(data, leaves)


def ends(validator: Validator) -> bool:
    """Whether a schema does not refer to itself where its verdict does not matter, as in an `if` without a `then`."""
    try:
        # One name alone is looked at too: if several are invalid, what one of them asks for may not be.
        for value in (dict.fromkeys(NAMES, 1), *({name: 1} for name in NAMES), [1] * 4):
            validator.is_valid(value)
    except BaseException as error:
        # Where the recursion ends within jsonschema's extension in Rust, that panics.
        if isinstance(error, RecursionError) or type(error).__name__ == "PanicException":
            return False
        raise
    return True


def check(data: st.DataObject, drawn: st.SearchStrategy[Any]) -> None:
    schema = data.draw(drawn)
    try:
        accepts = acceptor(schema)
    except UnsupportedSchema:
        return
    validator = judge(schema)
    assume(ends(validator))
    for value in data.draw(st.lists(instances(schema), min_size=6, max_size=12)):
        text = canonical(value, validator)
        valid = validator.is_valid(exact(value))
        if valid and not accepts(text):
            assert accepted_in_some_order(parse(text), schema, Accepted(lk.JsonSchema(schema, BYTES))), (schema, text)
            continue
        assert accepts(text) == valid, (schema, text)


@QUICK
@given(schemas, st.integers(0, 2**32))
def test_what_is_written_is_valid(schema: Any, seed: int) -> None:
    try:
        automaton = nested(schema)
    except (UnsupportedSchema, ConfigurationError):
        assume(condition=False)
    validator = judge(schema)
    assume(ends(validator))
    rng, writer = random.Random(seed), Writer(automaton)
    for _ in range(10):
        validator.validate(parse(writer.write(rng)))
