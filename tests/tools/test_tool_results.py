"""Results of tools are checked against their declared types and schemas: jsonschema and pydantic say which are right."""

from __future__ import annotations

import enum
import json
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Literal, get_origin

import pydantic
import pytest
from hypothesis import assume, given, settings
from jsonschema import Draft202012Validator
from typing_extensions import TypedDict

import logitkit as lk
from logitkit import Tools
from logitkit.errors import ConfigurationError, ToolResultError, UnsupportedSchema
from tests.examples import examples
from tests.json_schema.generated import schemas, values
from tests.json_schema.judge import judge
from tests.tools.turns import FORMATS, vocabulary


@dataclass
class Point:
    a: int
    b: list[float]


class Size(TypedDict, total=False):
    a: int
    ab: str


class Day(pydantic.BaseModel):
    a: date
    b: int | None = None


class Even(pydantic.BaseModel):
    a: Annotated[int, pydantic.AfterValidator(lambda n: n if n % 2 == 0 else int("odd"))]


class Colour(enum.Enum):
    RED = "a"


TYPES: list[Any] = [
    *(int, str, float, bool, type(None), list[int], dict[str, int], Point, Size, Day, int | None, list[Point]),
    *(Literal["a", 1], Colour, Annotated[int, pydantic.Field(ge=2)], pydantic.TypeAdapter(list[str])),
]


def returning(declared: Any) -> Tools:
    def tool() -> None: ...

    tool.__annotations__["return"] = declared
    return Tools([{"name": "tool", "returns": declared}] if isinstance(declared, pydantic.TypeAdapter) else [tool])


@settings(max_examples=examples(600), deadline=None)
@given(schema=schemas, value=values)
def test_a_schema_allows_what_jsonschema_allows(schema: Any, value: Any) -> None:
    with suppress(ConfigurationError, UnsupportedSchema):
        expected = judge(schema).is_valid(value)
        assert (error_of(Tools([{"name": "tool", "output_schema": schema}]), value) is None) == expected


def test_a_schema_may_be_a_bool() -> None:
    error = error_of(Tools([{"name": "tool", "output_schema": False}]), 1)
    assert str(error) == "the result of the tool 'tool' is wrong: it is 1; its schema is false"
    assert error_of(Tools([{"name": "tool", "output_schema": True}]), [1]) is None


def error_of(tools: Tools, value: Any) -> ToolResultError | None:
    """Return the error for a result, whose path leads to a value in it."""
    try:
        assert tools.check_result("tool", value) is value
    except ToolResultError as error:
        for name in error.path.replace("~1", "/").replace("~0", "~").split("/")[1:]:
            value = value[int(name)] if isinstance(value, list) else value[name]
        return error
    return None


@pytest.mark.parametrize("declared", TYPES)
@settings(max_examples=examples(160), deadline=None)
@given(value=values)
def test_a_type_allows_the_json_data_that_its_schema_allows(declared: Any, value: Any) -> None:
    # pydantic takes true for 1, and false for 0, among literals of several types, also in strict mode.
    assume(not (isinstance(value, bool) and get_origin(declared) is Literal))
    tools = returning(declared)
    adapter = declared if isinstance(declared, pydantic.TypeAdapter) else pydantic.TypeAdapter(declared)
    expected = Draft202012Validator(adapter.json_schema(), format_checker=Draft202012Validator.FORMAT_CHECKER).is_valid(
        value
    )
    if expected:
        # The same as pydantic reads.
        assert tools.check_result("tool", value) == adapter.validate_json(json.dumps(value))
    else:
        with pytest.raises(ToolResultError) as error:
            tools.check_result("tool", value)
        assert isinstance(error.value.__cause__, pydantic.ValidationError)


@pytest.mark.parametrize(
    ("declared", "value", "data"),
    [
        (Point, Point(1, [0.5]), {"a": 1, "b": [0.5]}),
        (Day, Day(a=date(2024, 2, 29)), {"a": "2024-02-29", "b": None}),
        (list[Day], [Day(a=date(2024, 2, 29), b=2)], [{"a": "2024-02-29", "b": 2}]),
        (Size, {"a": 1}, {"a": 1}),
        (dict[str, date], {"x": date(2024, 1, 1)}, {"x": "2024-01-01"}),
        (Colour, Colour.RED, "a"),
        (bytes, b"ab", "ab"),
        (tuple[int, str], (1, "a"), [1, "a"]),
    ],
)
def test_a_value_of_the_type_and_its_json_data_are_the_same(declared: Any, value: Any, data: Any) -> None:
    tools = returning(declared)
    assert tools.check_result("tool", value) == value
    assert tools.check_result("tool", data) == value
    assert type(tools.check_result("tool", data)) is type(value)


def test_values_and_data_may_be_mixed() -> None:
    assert returning(Day).check_result("tool", {"a": date(2024, 1, 1)}) == Day(a=date(2024, 1, 1))
    assert returning(list[Point]).check_result("tool", [Point(1, []), {"a": 2, "b": []}]) == [
        Point(1, []),
        Point(2, []),
    ]


def test_a_validator_of_the_type_is_asked() -> None:
    tools = returning(Even)
    assert tools.check_result("tool", {"a": 2}) == Even(a=2)
    with pytest.raises(ToolResultError, match="wrong at /a: it is 3; Value error, invalid literal for int"):
        tools.check_result("tool", {"a": 3})


def without() -> Iterator[tuple[Any, str]]:
    def nothing():  # type: ignore[no-untyped-def]
        """Do nothing."""

    def anything() -> Any: ...

    yield nothing, "nothing"
    yield anything, "anything"
    yield {"name": "bare"}, "bare"
    yield {"name": "described", "returns": "the weather as text"}, "described"
    yield Day, "Day"
    yield {"type": "custom", "custom": {"name": "custom"}}, "custom"


@pytest.mark.parametrize(("tool", "name"), [*without()])
def test_without_a_declared_type_the_value_itself_is_returned(tool: Any, name: str) -> None:
    tools = Tools([tool])
    for value in (object(), 5, {"a": [1]}, None):
        assert tools.check_result(name, value) is value


@pytest.mark.parametrize("key", ["returns", "return", "output_schema", "outputSchema"])
def test_the_keys_that_declare_results(key: str) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    for tool in ({"name": "f", key: schema}, {"type": "function", "function": {"name": "f", key: schema}}):
        tools = Tools([tool])
        assert tools.check_result("f", {"n": 1, "other": 2}) == {"n": 1, "other": 2}
        with pytest.raises(ToolResultError) as error:
            tools.check_result("f", {"n": "1"})
        assert (error.value.tool, error.value.path) == ("f", "/n")
        assert str(error.value) == (
            "the result of the tool 'f' is wrong at /n: it is '1'; expected type: \"integer\" (/properties/n/type in the schema)"
        )
        # Chat templates see what was given, and the tools of a configuration declare the same.
        assert tools.schemas()[0]["function"][key] == schema
        every = vocabulary(FORMATS["hermes"])
        read: Any = lk.from_config(json.loads(json.dumps(lk.to_config(tools.constraint(every)))), every)
        with pytest.raises(ToolResultError):
            Tools(read.tools).check_result("f", {"n": "1"})
    typed = Tools([{"name": "f", key: list[int]}])
    assert typed.schemas()[0]["function"][key] == {"type": "array", "items": {"type": "integer"}}
    assert typed.check_result("f", [1]) == [1]


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        (
            {"type": "array", "items": {"maximum": 5}},
            [1, 9],
            r"wrong at /1: it is 9; expected maximum: 5 \(/items/maximum",
        ),
        ({"required": ["a"]}, {}, r'wrong: it is {}; expected required: \["a"\]'),
        ({"anyOf": [{"type": "null"}, {"minLength": 2}]}, "x", "wrong: it is 'x'; expected anyOf"),
        ({"$ref": "#/$defs/n", "$defs": {"n": {"const": 3}}}, 4, r"expected const: 3 \(/\$defs/n/const"),
        ({"properties": {"a/b": {"type": "string"}}}, {"a/b": 1}, r"wrong at /a~1b: it is 1"),
        ({"uniqueItems": True}, [1, 1.0], "expected uniqueItems: true"),
        ({}, float("inf"), "it is inf of type float; allowed are JSON values"),
        ({}, {"a": [1, {2}]}, r"wrong at /a/1: it is \{2\} of type set; allowed are JSON values"),
        ({}, {1: 2}, "it has the key 1; allowed are texts"),
        ({"items": {"type": "string"}}, ["x" * 30_000, 5], "wrong at /1: it is 5, which its schema does not allow"),
    ],
)
def test_errors_name_the_place_and_what_was_expected(schema: Any, value: Any, message: str) -> None:
    with pytest.raises(ToolResultError, match=message):
        Tools([{"name": "f", "returns": schema}]).check_result("f", value)


def test_what_cannot_be_checked_is_an_error_of_its_own() -> None:
    def stream() -> Iterator[Point]: ...  # type: ignore[empty-body]

    class Strange:
        pass

    def strange() -> Strange: ...  # type: ignore[empty-body]

    # The tools can be called all the same.
    strange.__annotations__["return"] = Strange
    tools = Tools([strange, {"name": "known"}, {"name": "far", "returns": {"$ref": "https://example.org/a.json"}}])
    with pytest.raises(ConfigurationError, match="the results of the tool 'strange' cannot be checked"):
        tools.check_result("strange", 5)
    with pytest.raises(UnsupportedSchema, match="the results of the tool 'far'"):
        tools.check_result("far", 5)
    for name in ("unknown", 5, ["known"], None):
        with pytest.raises(ConfigurationError, match=r"there is no tool .*; allowed are 'far', 'known', 'strange'"):
            tools.check_result(name, 5)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="declares its results twice, in 'returns' and 'outputSchema'"):
        Tools([{"name": "f", "returns": {}, "outputSchema": {}}])


def test_hostile_results_are_refused_in_time() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    loop: list[Any] = []
    loop.append(loop)
    tree = {"type": "array", "items": {"$ref": "#"}}
    for declared in (tree, int, list[Any], Point):
        tools = returning(declared) if isinstance(declared, type) else Tools([{"name": "tool", "returns": declared}])
        for value in (deep, loop, {"a": deep}, ["x"] * 200_000, {"a": 1, "b": loop}):
            begin = time.process_time()
            with suppress(ToolResultError):
                tools.check_result("tool", value)
            assert time.process_time() - begin < 10
