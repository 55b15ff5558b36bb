"""Python types as schemas: what is written validates, and instances that pydantic dumps can be written. Pydantic is the judge."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from ipaddress import IPv6Address
from math import inf
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from pydantic import (
    UUID4,
    AliasPath,
    AwareDatetime,
    Base64Bytes,
    Base64Str,
    BaseModel,
    ConfigDict,
    EmailStr,
    Field,
    FiniteFloat,
    HttpUrl,
    IPvAnyAddress,
    Json,
    NaiveDatetime,
    SecretBytes,
    StringConstraints,
    TypeAdapter,
    ValidationError,
)
from pydantic.networks import IPvAnyNetwork

import logitkit as lk
from logitkit.errors import ConfigurationError
from logitkit.json_schema.document import load
from logitkit.json_schema.python_types import supported
from tests.json_schema.acceptance import BYTES, acceptor, nested
from tests.json_schema.python_types import CHARACTERS, CLASSES, LONG, TYPES, Point, SecretHexadecimal
from tests.json_schema.writing import Writer

NAMES = [str(given).replace("typing.", "")[:60] for given, _ in TYPES]


def validator(given: Any) -> TypeAdapter[Any]:
    return TypeAdapter(supported(given))


def written(given: Any, count: int, seed: int) -> Iterator[bytes]:
    rng, writer = random.Random(seed), Writer(nested(given))
    for _ in range(count):
        yield writer.write(rng, most=rng.choice([5, 30, 80, 200]))


@pytest.mark.parametrize("given", [given for given, _ in TYPES], ids=NAMES)
def test_what_is_written_validates(given: Any) -> None:
    adapter = validator(given)
    for text in written(given, 60, seed=3):
        try:
            adapter.validate_json(text)
        except ValidationError as error:
            raise AssertionError(text.decode()) from error


@pytest.mark.parametrize(("given", "instances"), TYPES, ids=NAMES)
def test_instances_can_be_written(given: Any, instances: list[Any]) -> None:
    accepts, adapter = acceptor(given), validator(given)
    for instance in instances:
        text = adapter.dump_json(instance, by_alias=True).decode()
        # A secret is dumped as stars, and that is a string, too.
        assert accepts(text), text


def test_emails_validate() -> None:
    adapter = TypeAdapter(EmailStr)
    for text in written(EmailStr, 200, seed=4):
        adapter.validate_json(text)
    assert acceptor(EmailStr)('"first.last+tag@mail.example-host.org"')


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (int, "1.5"),
        (int | None, '"a"'),
        (Literal["a", "b"], '"c"'),
        (tuple[int, str], "[1]"),
        (NaiveDatetime, '"2024-01-01T00:00:00Z"'),
        (AwareDatetime, '"2024-01-01T00:00:00"'),
        (date, '"0000-01-01"'),
        (Annotated[date, Field(le=date(2024, 2, 29))], '"2024-03-01"'),
        (datetime, '"2016-12-31T23:59:60Z"'),
        (HttpUrl, '"ftp://a/"'),
        (HttpUrl, '"http://a:99999/"'),
        (HttpUrl, '"http://256.1.1.1/"'),
        (HttpUrl, f'"{LONG}{"a" * 1400}"'),
        (IPvAnyAddress, '"1"'),
        (IPvAnyNetwork, '"10.0.0.1/8"'),
        (UUID4, '"00000000-0000-0000-0000-000000000000"'),
        (Decimal, "1e999"),
        (Decimal, '"NaN"'),
        (dict[int, int], '{"a":1}'),
        (Annotated[bytes, Field(max_length=3)], '"éé"'),
        (Annotated[SecretBytes, Field(max_length=3)], '"éé"'),
        (Annotated[Base64Bytes, Field(min_length=4)], '"YWI="'),
        (Annotated[Base64Str, Field(min_length=4)], '"YWI="'),
        (SecretHexadecimal, '{"some":"0a0b"}'),
        (Annotated[HttpUrl, Field(max_length=16)], '"http://abcdefg.h"'),
        (Annotated[HttpUrl, Field(max_length=16)], "\"http://a.b/?c=''\""),
        (Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)], '" "'),
        (Annotated[str, Field(pattern=r"\bfoo\b")], '"éfoo"'),
        (Annotated[str, Field(pattern=r"o\B$")], '"foo"'),
        (Annotated[str, Field(pattern="^[^]a]$")], '"ba]"'),
        (Point, "[1,2,3]"),
    ],
    ids=str,
)
def test_what_does_not_validate_cannot_be_written(given: Any, text: str) -> None:
    with pytest.raises(ValidationError):
        validator(given).validate_json(text)
    assert not acceptor(given)(text)


def test_duplicates_are_valid_in_a_set_unless_its_values_are_few_or_counted() -> None:
    assert acceptor(set[int])("[1,1]")
    # Of few values, each occurs once.
    assert not acceptor(set[Literal["a", "b"]])('["a","a"]')
    # A set of at least two items is not one of two equal ones.
    two = acceptor(Annotated[set[int], Field(min_length=2)])
    assert two("[1,2]")
    assert not two("[1,1]")
    # Different texts may mean equal values.
    lower = Annotated[str, StringConstraints(to_lower=True)]
    for items in (float, datetime, lower):
        with pytest.raises(ConfigurationError, match="a set with min_length above 1 whose values may be equal"):
            acceptor(Annotated[set[items], Field(min_length=2)])  # type: ignore[valid-type]


@pytest.mark.parametrize("key", [float, Decimal, UUID, datetime, timedelta, IPv6Address, Path, HttpUrl, int | float])
def test_keys_that_may_be_equal_are_not_counted(key: Any) -> None:
    assert validator(dict[key, int]).validate_json('{"1":1}' if key in (float, Decimal) else "{}") is not None
    acceptor(Annotated[dict[key, int], Field(min_length=1)])
    with pytest.raises(ConfigurationError, match="a dict with min_length above 1 whose keys may be equal"):
        acceptor(Annotated[dict[key, int], Field(min_length=2)])


@pytest.mark.parametrize("key", [str, int, bool, date, Literal["1", "2"], EmailStr, int | str])
def test_keys_that_differ_in_their_texts_are_counted(key: Any) -> None:
    counted = Annotated[dict[key, int], Field(min_length=2)]
    names = {bool: ("false", "true"), date: ("2026-01-01", "2026-01-02"), EmailStr: ("a@b.org", "c@b.org")}
    one, two = names.get(key, ("1", "2"))
    assert acceptor(counted)(f'{{"{one}":1,"{two}":2}}')
    assert not acceptor(counted)(f'{{"{one}":1,"{one}":2}}')


def test_a_model_that_describes_itself_keeps_its_schema() -> None:
    class Day(BaseModel):
        day: date

        @classmethod
        def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> dict[str, Any]:
            return {"type": "string", "format": "date"}

    class Own(BaseModel):
        @classmethod
        def model_json_schema(cls) -> dict[str, Any]:  # type: ignore[override]
            return {"type": "null"}

    assert load(Day) == {"type": "string", "format": "date"}
    assert load(Own) == {"type": "null"}


@pytest.mark.parametrize("engine", ["rust-regex", "python-re"])
@pytest.mark.parametrize(
    "pattern", [rf"^{c}$" for c in [*CLASSES, *(f"[{c}]" for c in CLASSES), *(f"[^{c}]" for c in CLASSES)]]
)
def test_classes_of_characters_are_those_of_the_validator_or_fewer(pattern: str, engine: Any) -> None:
    adapter = TypeAdapter(Annotated[str, Field(pattern=pattern)], config=ConfigDict(regex_engine=engine))
    accepts = acceptor(adapter)
    accepted = [c for c in CHARACTERS if accepts(json.dumps(c, ensure_ascii=False))]
    assert accepted
    for character in accepted:
        adapter.validate_python(character)


def function(number: int) -> int:
    return number


class Arbitrary:
    pass


class WithFunction(BaseModel):
    call: Callable[[int], int]


class WithJson(BaseModel):
    inner: Json[int]


class WithPath(BaseModel):
    deep: int = Field(validation_alias=AliasPath("a", 0))


class EncodedTwice(BaseModel, val_json_bytes="base64"):
    some: Base64Bytes


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (Arbitrary, "Arbitrary"),
        (list[Arbitrary], "Arbitrary"),
        (list[function], "function"),  # type: ignore[valid-type]
        (WithFunction, "CallableSchema"),
        (WithJson, "Json, a string that holds JSON text"),
        (WithPath, "'deep'"),
        (EncodedTwice, "Base64Bytes in a model with val_json_bytes='base64'"),
        (type[int], "subclass of <class 'int'>"),
        (Enum("Pair", {"A": (1,)}), "Pair"),
        (Literal[b"a"], "b'a'"),
        (dict[tuple[int, int], int], "keys are tuple"),
        (list["Nowhere"], "Nowhere"),  # type: ignore[name-defined]  # noqa: F821
        (BaseModel, "BaseModel"),
        (Annotated[str, Field(pattern="^[[:alpha:]]$")], "has '[' in a class of characters"),
        (Annotated[str, Field(pattern=r"^[\w--\d]$")], "has '--' in a class of characters"),
        (Annotated[str, Field(pattern="^[a-c&&b-d]$")], "has '&&' in a class of characters"),
        (Annotated[str, Field(pattern="^[a-c~~b-d]$")], "has '~~' in a class of characters"),
        (Annotated[str, Field(pattern=r"^\<a$")], r"has '\\<'"),
        (Annotated[str, Field(pattern=r"a\b{end}")], r"has '\\b{end}'"),
    ],
    ids=str,
)
def test_a_type_without_a_schema_is_refused_by_name(given: Any, named: str) -> None:
    with pytest.raises(ConfigurationError, match="has no JSON Schema") as caught:
        lk.JsonSchema(given, BYTES)
    assert named in str(caught.value)


@pytest.mark.parametrize(
    "given", [None, 1, 1.5, b"{}", [int], (int,), {int}, function, ..., sys], ids=lambda given: type(given).__name__
)
def test_a_value_is_not_a_type(given: Any) -> None:
    name = type(given).__name__
    with pytest.raises(
        ConfigurationError, match=f"schema is of type {name}; give a dict, a bool, JSON text, a pydantic model"
    ):
        lk.JsonSchema(given, BYTES)


def test_without_pydantic_a_type_is_refused_and_a_dict_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic", None)
    with pytest.raises(ConfigurationError, match=r"list\[int\].*pip install pydantic"):
        load(list[int])
    assert load({"type": "integer"}) == {"type": "integer"}


def test_a_configuration_built_in_python_may_hold_a_type() -> None:
    made = lk.from_config({"json_schema": list[int]}, BYTES)
    same = lk.from_config({"json_schema": {"items": {"type": "integer"}, "type": "array"}}, BYTES)
    assert made == same
    assert lk.to_config(made) == lk.to_config(same)
    with pytest.raises(ConfigurationError, match="is None; allowed is a JSON Schema"):
        lk.from_config({"json_schema": None}, BYTES)


def test_infinite_numbers_are_not_written_where_they_are_not_allowed() -> None:
    assert not acceptor(FiniteFloat)("1" + "0" * 309)
    assert TypeAdapter(float).validate_json("1e999") == inf
