"""Tools as data: from functions, models, dataclasses and dicts; what is not a tool is refused."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Required, TypedDict

import pytest
from pydantic import BaseModel, Field, TypeAdapter

from logitkit import Tools, Vocabulary
from logitkit.errors import ConfigurationError, PatternTooLarge, UnsupportedSchema
from logitkit.tools.definitions import MOST_TOOLS

BYTES = Vocabulary([*(bytes([byte]) for byte in range(256)), None], eos_ids=[256])


class Search(BaseModel):
    """Search the web."""

    query: str = Field(description="What to look for.", max_length=20)
    limit: int = 5


@dataclass
class Move:
    """Move a piece.

    Args:
        to: The square.
    """

    to: Annotated[str, Field(pattern="^[a-h][1-8]$")]
    quickly: bool = False


@dataclass
class Plain:
    x: int


def book(model_name: str, _from: Literal["A", "B"], schema: list[int] | None = None, *, copy: bool = False) -> str:
    """Book a train.

    More about it.

    Args:
        model_name: The model
            of the train.
        _from (str): Where it starts.

    Returns:
        The booking.
    """
    return f"{model_name}{_from}{schema}{copy}"


def parameters(tool: object) -> dict[str, Any]:
    found: dict[str, Any] = Tools([tool]).schemas()[0]["function"]["parameters"]
    return found


def test_a_function() -> None:
    schema = Tools([book]).schemas()[0]
    assert schema["type"] == "function"
    assert schema["function"]["name"] == "book"
    assert schema["function"]["description"] == "Book a train.\n\nMore about it."
    found = parameters(book)
    assert found["required"] == ["model_name", "_from"]
    assert list(found["properties"]) == ["model_name", "_from", "schema", "copy"]
    assert found["properties"]["model_name"] == {"type": "string", "description": "The model of the train."}
    assert found["properties"]["_from"]["enum"] == ["A", "B"]
    assert found["properties"]["_from"]["description"] == "Where it starts."
    assert found["additionalProperties"] is False


def test_a_model_and_a_dataclass() -> None:
    schema = Tools([Search, Move]).schemas()
    assert [tool["function"]["name"] for tool in schema] == ["Search", "Move"]
    assert schema[0]["function"]["description"] == "Search the web."
    assert parameters(Search)["properties"]["query"] == {
        "description": "What to look for.",
        "maxLength": 20,
        "type": "string",
    }
    assert schema[1]["function"]["description"] == "Move a piece."
    assert parameters(Move)["properties"]["to"]["description"] == "The square."
    assert "description" not in Tools([Plain]).schemas()[0]["function"]


def test_arguments_are_what_pydantic_reads() -> None:
    tools = Tools([Search, Move])
    turn = tools.parse('<tool_call>\n{"name": "Move", "arguments": {"to": "e4"}}\n</tool_call>')
    assert TypeAdapter(Move).validate_python(dict(turn.calls[0].arguments)) == Move("e4")


class Node(BaseModel):
    """Add a node."""

    name: str
    children: list[Node] = []


def test_a_recursive_model_has_its_properties_at_the_top() -> None:
    found = parameters(Node)
    assert found["type"] == "object"
    assert found["properties"] == {
        "name": {"type": "string"},
        "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}, "default": []},
    }
    constraint = Tools([Node], choice="required").constraint(BYTES)
    for children, legal in (('[{"name": "b"}]', True), ('[{"nam": "b"}]', False)):
        call = f'<tool_call>\n{{"name": "Node", "arguments": {{"name": "a", "children": {children}}}}}\n</tool_call>'
        assert constraint.matches(call) == legal


def test_dicts_are_shown_as_they_were_given() -> None:
    inner = {"name": "f", "description": "D", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}
    whole = {"type": "function", "function": inner, "strict": True}
    assert Tools([whole]).schemas() == [whole]
    assert Tools([inner]).schemas() == [{"type": "function", "function": inner}]


def test_parameters_may_be_a_type() -> None:
    """Chat templates and configurations get its schema."""
    inner = {"name": "f", "parameters": Plain}
    schema = {
        "type": "object",
        "properties": {"x": {"title": "X", "type": "integer"}},
        "required": ["x"],
        "title": "Plain",
        "additionalProperties": False,
    }
    shown = [{"type": "function", "function": {"name": "f", "parameters": schema}}]
    assert Tools([inner]).schemas() == shown
    assert Tools([{"type": "function", "function": inner}]).schemas() == shown
    assert json.loads(json.dumps(shown)) == shown


class Place(TypedDict, total=False):
    city: Required[str]


def travel(place: Place, other: Place | None = None) -> str:
    return f"{place}{other}"


def test_an_argument_may_be_a_typed_dict_of_typing() -> None:
    """Before Python 3.12, pydantic reads those of `typing_extensions` alone."""
    found = parameters(travel)
    assert found["$defs"]["Place"]["required"] == ["city"]
    assert found["required"] == ["place"]


@pytest.mark.parametrize(
    ("more", "allowed"),
    [({}, False), ({"additionalProperties": True}, True), ({"additionalProperties": {"type": "integer"}}, True)],
)
def test_members_that_the_schema_does_not_speak_of_are_not_allowed(more: dict[str, Any], allowed: bool) -> None:
    tool = {"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}, **more}}
    dfa = Tools([tool], choice="required").constraint(BYTES).nested_dfa()
    text = '<tool_call>\n{"name": "f", "arguments": {"b": 1}}\n</tool_call>'
    assert dfa.accepts(text.encode()) is allowed


def test_a_tool_without_parameters_takes_none() -> None:
    dfa = Tools([{"name": "f"}], choice="required").constraint(BYTES).nested_dfa()
    assert dfa.accepts(b'<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>')
    assert not dfa.accepts(b'<tool_call>\n{"name": "f", "arguments": {"b": 1}}\n</tool_call>')


def no_annotation(a) -> None:  # type: ignore[no-untyped-def]
    """A tool that is refused."""


def positional(a: int, /) -> None:
    """A tool that is refused."""


def several(*a: int) -> None:
    """A tool that is refused."""


def callback(a: Callable[[int], int]) -> None:
    """A tool that is refused."""


def function_type(a: BYTES) -> None:  # type: ignore[valid-type]
    """A tool that is refused."""


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        ([], "tools is empty"),
        ("book", "allowed is a list"),
        ({"name": "f"}, "allowed is a list"),
        ([5], "allowed are a function"),
        ([int], "allowed are a function"),
        ([no_annotation], "has no annotation; add one, such as `a: str`"),
        ([positional], "positional-only"),
        ([several], "variadic"),
        ([function_type], "no JSON Schema|cannot be read"),
        (
            [callback],
            "the arguments of the tool 'callback': they have no JSON Schema",
        ),
        ([{"name": "a", "parameters": []}], "the parameters of the tool 'a': schema is of type list"),
        ([lambda x: x], "the name of tools"),
        ([{"type": "code", "function": {"name": "f"}}], "allowed are 'function' and 'custom'"),
        ([{"type": "function"}], "has no 'name'"),
        ([{"name": ""}], "name of tools.0. is ''"),
        ([{"name": "a b"}], "letters, digits"),
        ([{"name": '</tool_call>"'}], "taken for markup"),
        ([{"name": 5}], "is 5"),
        ([{"name": "a"}, {"name": "a"}], "two tools have the name 'a'"),
        ([{"name": "a", "description": 5}], "allowed is text"),
        (
            [{"name": "a", "parameters": {"type": "dict"}}],
            "'type' of the parameters of the tool 'a' is 'dict'; allowed is 'object'",
        ),
        (
            [{"name": "a", "input_schema": {"type": "object"}}],
            "has no 'parameters', but 'input_schema'; give the schema",
        ),
        (
            [{"type": "function", "function": {"name": "a", "inputSchema": {}}}],
            "has no 'parameters', but 'inputSchema'",
        ),
        (
            [{"type": "web_search_20250305", "name": "a", "max_uses": 5}],
            r"tools\[0\] has the type 'web_search_20250305'",
        ),
        ([{"name": "a", "properties": {"x": {"type": "string"}}}], "has no 'parameters', but 'properties'"),
        ([{"name": "a", "input": {"type": "object"}}], "has no 'parameters', but 'input'"),
        ([{"name": "a", "required": ["x"]}], "has no 'parameters', but 'required'"),
        (
            [{"name": "a", "parameters": {"properties": {"x": {}}, "required": ["x", "y"]}}],
            "requires 'y', which its 'properties' do not have",
        ),
        ([{"name": "a", "paramters": {"type": "object"}}], "has no 'parameters', but 'paramters'"),
        ([{"name": "a", "parameters": True}], "schema of an object"),
        ([{"name": f"f{i}"} for i in range(MOST_TOOLS + 1)], "allowed are at most"),
        ([{"name": "a", "parameters": {"type": "object", "x": object()}}], "which is not a JSON value"),
    ],
)
def test_what_is_not_a_tool_is_refused(tools: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Tools(tools)


@pytest.mark.parametrize(
    "tool",
    [
        {"name": "a", "input_examples": [{}]},
        {"name": "a", "confirmation_required": True},
        {"name": "a", "parameters": None, "required": []},
        {"type": "object", "name": "a", "parameters": {"type": "object"}},
        {"name": "a", "parameters": {"required": ["x"], "additionalProperties": True}},
        {"name": "a", "parameters": {"required": ["x"], "anyOf": [{"properties": {"x": True}}]}},
    ],
    ids=str,
)
def test_other_keys_say_nothing_of_parameters(tool: dict[str, Any]) -> None:
    assert [definition.name for definition in Tools([tool]).tools] == ["a"]


def test_hostile_tools_end_in_time() -> None:
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(300):
        deep = {"type": "object", "properties": {"a": deep}}
    with pytest.raises(UnsupportedSchema, match="deep"):
        Tools([{"name": "f", "parameters": deep}])
    names = [f"m{i}" for i in range(30)]
    exploding = {
        "type": "object",
        "properties": {name: {"type": "string"} for name in names},
        "oneOf": [{"required": [a, b]} for a in names for b in names],
    }
    many = [{"name": f"f{i}", "parameters": {**exploding, "title": str(i)}} for i in range(20)]
    start = time.perf_counter()
    with pytest.raises((UnsupportedSchema, PatternTooLarge)):
        Tools(many).constraint(BYTES)
    assert time.perf_counter() - start < 20


def test_fields_of_arguments_are_read_as_by_validate_call() -> None:
    """A `Field` is the default value of an argument, or in its annotation."""

    def search(
        q: str = Field(description="What to look for.", min_length=3),
        limit: int = Field(default=5, ge=1, le=10, alias="most"),
        kinds: list[str] = Field(default_factory=list),  # noqa: B008 (as with pydantic.validate_call)
        lang: Annotated[str, Field(description="The language.")] = "en",
        page: Annotated[int, Field(ge=0)] = 0,
    ) -> None:
        """Search.

        Args:
            limit: The most results.
            lang: Another description.
            page: The page.
        """

    found = parameters(search)
    assert found["required"] == ["q"]
    assert found["properties"] == {
        "q": {"type": "string", "minLength": 3, "description": "What to look for."},
        "limit": {"type": "integer", "minimum": 1, "maximum": 10, "default": 5, "description": "The most results."},
        "kinds": {"type": "array", "items": {"type": "string"}},
        "lang": {"type": "string", "default": "en", "description": "The language."},
        "page": {"type": "integer", "minimum": 0, "default": 0, "description": "The page."},
    }
    constraint = Tools([search], choice="required").constraint(BYTES)
    for arguments, legal in (('{"q": "tea"}', True), ("{}", False), ('{"q": "tea", "limit": 11}', False)):
        call = f'<tool_call>\n{{"name": "search", "arguments": {arguments}}}\n</tool_call>'
        assert constraint.matches(call) == legal
