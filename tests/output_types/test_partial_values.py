"""Values of the beginnings of JSON texts, against pydantic's reader of partial JSON, and instances of models."""

from __future__ import annotations

import json
import re
import typing
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, PrivateAttr, RootModel
from pydantic_core import from_json

import logitkit as lk
from logitkit.errors import ConfigurationError
from logitkit.output_types import output_type_of
from logitkit.output_types.partial_values import partial_json, partial_value

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=4), inside, max_size=3),
    max_leaves=8,
)
# Ends of texts after which pydantic's reader shows more or less: in a number, an escape or a literal.
_UNSETTLED = re.compile(r"[-+.\deEtrufalsn]$|\\(u[0-9a-f]{0,4})?$|\\u[dD][89abAB][0-9a-fA-F]{2}(\\u[0-9a-f]{0,3})?$")


def _grows(before: Any, after: Any) -> bool:
    """Whether all that was shown is still shown."""
    match before:
        case dict():
            return isinstance(after, dict) and all(
                name in after and _grows(before[name], after[name]) for name in before
            )
        case list():
            return isinstance(after, list) and all(
                _grows(*pair) for pair in zip(before, after[: len(before)], strict=True)
            )
        case str():
            return isinstance(after, str) and after.startswith(before)
        case _:
            return type(after) is type(before) and after == before


@given(VALUES, st.booleans(), st.sampled_from((None, 1)))
def test_each_beginning_is_read_as_pydantic_reads_it(value: Any, ascii_only: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    shown: Any = None
    for size in range(1, len(text) + 1):
        found = partial_json(text[:size])
        assert shown is None or _grows(shown, found), (text[:size], shown, found)
        shown = found
        if not _UNSETTLED.search(text[:size]):
            assert found == from_json(text[:size], allow_partial="trailing-strings"), text[:size]
    assert partial_json(text + "\n") == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ('"', ""),
        ('"a\\', "a"),
        ('"a\\u00e', "a"),
        ('"a\\u00e9', "aé"),
        ('"\\ud83d', ""),
        ('"\\ud83d\\ude0', ""),
        ('"\\ud83d\\ude00', "😀"),
        ('"\\\\', "\\"),
        ("12", None),
        ("12 ", 12),
        ("tru", None),
        ("[1, 23", [1]),
        ("[1, 23]", [1, 23]),
        ('{"a', {}),
        ('{"a"', {}),
        ('{"a": ', {}),
        ('{"a": "', {"a": ""}),
        ('{"a": {"b": [', {"a": {"b": []}}),
        ('{"a": 1, "a', {"a": 1}),
        ("]", None),
    ],
)
def test_beginnings_by_hand(text: str, value: Any) -> None:
    assert partial_json(text) == value


def test_a_number_that_python_does_not_read_is_its_text() -> None:
    number = "9" * 5000
    assert partial_json(f"[{number}, 1]") == [number, 1]


def test_a_text_of_many_brackets_is_read_without_recursion() -> None:
    assert partial_json("[" * 100_000) is not None


class Leg(BaseModel):
    to: str
    hours: float = 1.0


class Trip(BaseModel):
    name: Annotated[str, Field(alias="title")]
    legs: list[Leg]
    first: Leg | None
    by_day: dict[str, Leg]
    two: tuple[Leg, int]
    note: Leg | str


def test_a_model_has_instances_of_models_inside() -> None:
    leg = '{"to": "Bonn"}'
    found = partial_value(
        f'{{"title": "T", "legs": [{leg}, {{"to": "Ro',
        Trip,
    )
    assert found.model_fields_set == {"name", "legs"}
    assert found.legs == [Leg(to="Bonn"), Leg(to="Ro")]
    assert (found.first, found.by_day, found.name) == (None, None, "T")
    text = f'{{"title": "T", "legs": [], "first": {leg}, "by_day": {{"1": {leg}}}, "two": [{leg}, 5], "note": {leg}}}'
    whole = partial_value(text, Trip)
    assert (whole.first, whole.by_day, whole.note) == (Leg(to="Bonn"), {"1": Leg(to="Bonn")}, Leg(to="Bonn"))
    assert whole.two[0] == Leg(to="Bonn")


class Choosy(BaseModel):
    chosen: int = Field(validation_alias=AliasChoices("x", "y"))
    first: int = Field(alias="second")
    second: str = Field(alias="first")


def test_members_are_found_by_their_aliases() -> None:
    text = '{"x": 1, "second": 2, "first": "a"}'
    assert partial_value(text, Choosy) == Choosy.model_validate_json(text)
    assert partial_value('{"first": "a', Choosy).__dict__ == {"chosen": None, "first": None, "second": "a"}
    assert partial_value('{"y": 3, ', Choosy).chosen == 3


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int


def test_other_members_are_shown_where_a_model_allows_them() -> None:
    text = '{"a": 1, "_fields_set": [2], "self": 3, "b": {"c": "d"}}'
    assert partial_value(text, Open) == Open.model_validate_json(text)
    assert partial_value('{"b": "c', Open).model_extra == {"b": "c"}


class Counted(BaseModel):
    a: int
    b: list[int] = Field(default_factory=lambda: [7])
    _next: int = PrivateAttr(default=4)

    def model_post_init(self, context: Any) -> None:
        self._next = self.a + 1


def test_code_of_a_model_that_expects_all_members_does_not_run() -> None:
    found = partial_value("{", Counted)
    assert (found.a, found.b, found._next, found.model_fields_set) == (None, [7], 4, set())


class Mixed(BaseModel):
    either: Leg | dict[str, int]
    several: Leg | list[Leg]
    nothing: tuple[()] = ()
    bare: typing.Dict = {}  # type: ignore[type-arg]  # noqa: UP006


def test_unions_of_objects_are_plain_data() -> None:
    found = partial_value('{"either": {"a": 1}, "several": [{"to": "x"}], "nothing": [], "bare": {"a": [1', Mixed)
    assert (found.either, found.several) == ({"a": 1}, [Leg(to="x")])
    assert (found.nothing, found.bare) == ([], {"a": []})


class Chain(BaseModel):
    inside: Chain | None = None


def test_models_that_are_too_deep_for_python_are_plain_data() -> None:
    assert isinstance(partial_value('{"inside": ' * 30, Chain), Chain)
    assert isinstance(partial_value('{"inside": ' * 5000, Chain), dict)


def test_other_types_are_plain_data() -> None:
    class Names(RootModel[list[str]]):
        pass

    assert partial_value('["a", "b', Names) == ["a", "b"]
    assert output_type_of({"type": "array"}).partial_value("[1, 2") == [1]
    assert output_type_of(re.compile("a+")).partial_value("aa") == "aa"
    assert output_type_of(list[Leg]).partial_value('[{"to": "x') == [Leg(to="x")]


def test_a_turn_with_tools_is_refused_with_advice() -> None:
    def ping() -> None:
        """Do nothing."""

    with pytest.raises(
        ConfigurationError, match=r"read the turn while it is generated with tools\.stream\(vocabulary\)"
    ):
        output_type_of(lk.Tools([ping], "hermes")).partial_value("")
