"""The keyword that refuses a value is the one of the only error that `jsonschema` reports."""

from __future__ import annotations

import json
from itertools import permutations, product
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from logitkit.explaining.findings import Source
from logitkit.explaining.pattern_sources import automaton
from logitkit.explaining.schema_sources import schema_sources
from logitkit.json_schema.document import load
from logitkit.languages import json_schema
from tests.explaining.one_error import OneError, legal_beginning, only_error
from tests.json_schema import generated
from tests.json_schema.corpus import Case, cases

if TYPE_CHECKING:
    from collections.abc import Iterator

CASES = [case for case in cases() if case.invalid]
# Without this keyword, the schema cannot be compiled, so it is not known whether the keyword is the reason.
UNKNOWN = {"unevaluated/variant_keys"}


def agrees(schema: Any, value: Any, whole: bool = True) -> bool | None:
    """Whether the reason is that of `jsonschema`; None if the value does not have exactly one error."""
    found = both(schema, value, whole)
    return None if found is None else (found[0].pointer, found[0].path) == (found[1].pointer, found[1].path)


def both(schema: Any, value: Any, whole: bool = True) -> tuple[Source, OneError] | None:
    """Return the reason and the error of `jsonschema`; None if the value does not have exactly one error."""
    error, dfa = only_error(schema, value), automaton(json_schema(schema))
    if error is None or dfa is None:
        return None
    written = legal_beginning(dfa, error.text)
    rest = error.text[len(written) :]
    return schema_sources(load(schema), written, rest if whole else rest[:1])[0], error


@pytest.mark.parametrize("name", ["a/b~", "50%", "%41", "100%25\n", "é\u2028", "a b"])
def test_names_in_pointers_are_those_of_the_schema(name: str) -> None:
    schema = {"properties": {name: {"additionalProperties": {"maximum": 9}}}}
    text = json.dumps({name: {name: 10}}, ensure_ascii=False, separators=(",", ":")).encode()
    source = schema_sources(load(schema), text[:-3], text[-3:])[0]
    written = name.replace("~", "~0").replace("/", "~1")
    assert source.pointer == f"/properties/{written}/additionalProperties/maximum"
    assert source.path == f"/{written}/{written}"


@pytest.mark.parametrize("case", CASES[::3], ids=str)
def test_the_reason_is_the_only_error(case: Case) -> None:
    """In schemas written by hand, with the whole text known."""
    for value in case.invalid:
        assert agrees(case.schema, value) is not (str(case) in UNKNOWN), value


def test_the_byte_alone_is_often_enough() -> None:
    """Where the text stops at the refused byte, a keyword may be named that refuses it together with others."""
    found = [agrees(case.schema, value, whole=False) for case in CASES[::5] for value in case.invalid]
    assert found.count(True) > 9 * found.count(False) > 0


@st.composite
def _cases(draw: st.DrawFn) -> tuple[Any, Any]:
    schema = draw(generated.schemas)
    return schema, draw(generated.instances(schema))


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(_cases())
def test_the_reason_is_the_only_error_of_generated_values(case: tuple[Any, Any]) -> None:
    """In generated schemas."""
    found = both(*case)
    assume(found is not None)
    assert found is not None
    reason, error = found
    if reason.text == "the members stand in the order of the schema":
        # Where only a condition that refers to the whole schema lists a name, the text has another order than the mask.
        assert agrees_in_another_order(case[0], error)
        return
    assert (reason.pointer, reason.path) == (error.pointer, error.path)


def agrees_in_another_order(schema: Any, error: OneError) -> bool:
    """Whether the reason is the error if the members of objects come in some other order."""
    dfa = automaton(json_schema(schema))
    assert dfa is not None
    for value in in_every_order(json.loads(error.text)):
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
        written = legal_beginning(dfa, text)
        found = schema_sources(load(schema), written, text[len(written) :])[0]
        if (found.pointer, found.path) == (error.pointer, error.path):
            return True
    return False


def in_every_order(value: Any) -> Iterator[Any]:
    """Yield a JSON value with the members of its objects in every order."""
    if isinstance(value, dict):
        for names in permutations(value):
            for values in product(*(in_every_order(value[name]) for name in names)):
                yield dict(zip(names, values, strict=True))
    elif isinstance(value, list):
        yield from map(list, product(*map(in_every_order, value)))
    else:
        yield value


def test_the_order_may_be_the_reason_before_the_error() -> None:
    inside = {"if": {"$ref": "#"}, "then": {"type": "null"}}
    schema = {"properties": {"b": inside, "a": {"enum": [None]}}}
    found = both(schema, {"b": {"ab": None, "a": 1}, "a": {}})
    assert found is not None
    reason, error = found
    assert (reason.text, reason.path) == ("the members stand in the order of the schema", "/b/ab")
    assert agrees_in_another_order(schema, error)
