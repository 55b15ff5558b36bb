"""Texts that pydantic reads or refuses: members of sets by their hash, keys, aliases, URLs, durations and patterns."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from datetime import date, timedelta
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import (
    AliasPath,
    AnyUrl,
    BaseModel,
    ConfigDict,
    Field,
    FileUrl,
    RootModel,
    TypeAdapter,
    UrlConstraints,
    ValidationError,
    create_model,
)
from pydantic.dataclasses import dataclass
from typing_extensions import TypeAliasType

import logitkit as lk
from logitkit.errors import ConfigurationError
from logitkit.json_schema.set_members import set_members
from tests.json_schema.acceptance import BYTES

FROZEN = ConfigDict(frozen=True)


class Whole(RootModel[int]):
    model_config = FROZEN


class Mapped(RootModel[dict[str, int]]):
    model_config = FROZEN


class Chained(BaseModel):
    model_config = FROZEN
    a: int
    b: Chained | None = None


class ChainedLists(BaseModel):
    model_config = FROZEN
    a: list[int]
    b: ChainedLists | None = None


NumberOrList = TypeAliasType("NumberOrList", int | list[int])
Tree = TypeAliasType("Tree", "int | list[Tree]")
Nested = TypeAliasType("Nested", "int | tuple[Nested, ...]")
NestedWithLists = TypeAliasType("NestedWithLists", "int | list[int] | tuple[NestedWithLists, ...]")


class UsesAliasTwice(BaseModel):
    members: set[NumberOrList]
    one: NumberOrList


class ReadFromInside(BaseModel):
    model_config = ConfigDict(extra="forbid")
    a: int = Field(1, validation_alias=AliasPath("w", "a"))


@dataclass(config=ConfigDict(extra="forbid"))
class TakesOne:
    a: int
    c: int = Field(default=1, init=False)


class OfEverything(Enum):
    LIST = [1, 2]  # noqa: RUF012 - a member of an Enum
    TEXT = "v"
    OBJECT = {"a": [None, 1.5]}  # noqa: RUF012


class FrozenA(BaseModel):
    model_config = FROZEN
    kind: Literal["a"]


class WithoutHash(BaseModel):
    kind: Literal["b"]
    inside: tuple[WithoutHash, ...] = ()


class FrozenC(BaseModel):
    model_config = FROZEN
    kind: Literal["c"]


class ReadByTheNameOfAnother(BaseModel):
    x: int = Field(1, validation_alias=AliasPath("y", "a"))
    z: int = Field(3, validation_alias="x")


YEARS = timedelta(days=365 * 100_000)

CASES: list[tuple[Any, tuple[str, ...]]] = [
    (set[Whole], ("[1]", '["a"]')),
    (frozenset[Whole] | int, ("[1]", "3")),
    (OrderedDict[int, int], ('{"a":1}', '{"1":1}')),
    (OrderedDict[date, int], ('{"x":1}', '{"2020-01-01":1}')),
    (UsesAliasTwice, ('{"members":[[1]],"one":1}', '{"members":[1],"one":[1]}')),
    (set[Tree], ("[1,[2]]", "[1,2]")),
    (set[Nested], ("[1,[2]]", "[[[1]]]")),
    (set[NestedWithLists], ("[1,[2]]", "[[[1]]]", "[1]")),
    (set[int | defaultdict[str, int]], ("[{}]", "[1]")),
    (set[Chained | int], ('[{"a":1}]', '[{"a":1,"b":{"a":2}}]', "[1]")),
    (set[Chained], ('[{"a":1}]', "[1]")),
    (set[ChainedLists | int], ("[1]", '[{"a":[]}]')),
    *[
        (Annotated[AnyUrl, constraint], ('"foo:bar"', '"foo://a.b"', '"http://a.b/c"'))
        for constraint in (
            UrlConstraints(host_required=True),
            UrlConstraints(default_port=80),
            UrlConstraints(default_port=0),
            UrlConstraints(default_host=""),
            UrlConstraints(default_host="h"),
        )
    ],
    (
        Annotated[AnyUrl, UrlConstraints(allowed_schemes=["file", "http"], host_required=True)],
        ('"file:///x"', '"http://a/"'),
    ),
    (Annotated[FileUrl, UrlConstraints(default_host="h")], ('"file:///x"', '"foo:bar"')),
    (ReadByTheNameOfAnother, ('{"x":2}', "{}")),
    (set[Annotated[FrozenA | FrozenC, Field(discriminator="kind")]], ('[{"kind":"a"}]', '[{"kind":"b"}]')),
    (set[Annotated[FrozenA | WithoutHash, Field(discriminator="kind")] | int], ("[1]", '[{"kind":"b"}]')),
    (ReadFromInside, ('{"a":5}', "{}")),
    (Annotated[timedelta, Field(ge=YEARS)], ('"P100000Y"', '"P99999Y"', '"P200000Y"', '"P1Y"')),
    (Annotated[timedelta, Field(gt=YEARS)], ('"P100000Y"', '"P100000Y1D"')),
    (Annotated[timedelta, Field(le=-YEARS)], ('"-P100000Y"', '"-P99999Y"', '"-P200000Y"')),
    (Annotated[timedelta, Field(lt=YEARS)], ('"P100000Y"', '"P99999Y364D"', '"P1Y"')),
    (TakesOne, ('{"a":1,"c":2}', '{"a":1}')),
    (OfEverything, ("[1,2]", "[1]", '"v"', '{"a":[null,1.5]}', '{"a":[null]}')),
    (Annotated[str, Field(pattern="^a.b$")], ('"a\\rb"', '"a\u2028b"', '"a\\nb"', '"axb"')),
]


def reads(given: Any, text: str) -> bool:
    try:
        TypeAdapter(given).validate_json(text)
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize(("given", "text"), [(given, text) for given, texts in CASES for text in texts])
def test_a_text_is_accepted_if_pydantic_reads_it(given: Any, text: str) -> None:
    assert lk.JsonSchema(given, BYTES).matches(text) == reads(given, text)


@pytest.mark.parametrize("given", [set[Mapped], set[ChainedLists], set[defaultdict[str, int]]])
def test_a_set_without_possible_members_is_refused(given: Any) -> None:
    with pytest.raises(ConfigurationError, match="a set of values without a hash"):
        lk.JsonSchema(given, BYTES)


def test_a_url_of_files_cannot_be_asked_for_a_host() -> None:
    given = Annotated[AnyUrl, UrlConstraints(allowed_schemes=["file"], host_required=True)]
    with pytest.raises(ConfigurationError, match="of the scheme 'file' alone that must have a host"):
        lk.JsonSchema(given, BYTES)


def test_models_that_refer_to_each_other_are_looked_at_in_turn() -> None:
    """Following each path through them would take a factorial number of steps."""
    names = [f"M{number}" for number in range(14)]
    fields: dict[str, Any] = {name.lower(): (f"{name} | None", None) for name in names}
    models = {name: create_model(name, __config__=FROZEN, **fields) for name in names}
    for model in models.values():
        model.model_rebuild(_types_namespace=models)
    assert set_members(models["M0"].__pydantic_core_schema__["schema"], _definitions(models["M0"])) is not None


def _definitions(model: type[BaseModel]) -> dict[str, Any]:
    schema: Any = model.__pydantic_core_schema__
    return {inside["ref"]: inside for inside in schema["definitions"]}
