"""Pydantic models as schemas: their instances can be written, and what is written they read."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import Enum, IntEnum
from ipaddress import IPv4Address
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict, Field, RootModel, TypeAdapter, ValidationError

import logitkit as lk
from logitkit.json_schema.document import load
from tests.json_schema.acceptance import BYTES, acceptor, nested
from tests.json_schema.writing import Writer


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Plain(BaseModel):
    a: int


class Keeping(BaseModel, extra="allow"):
    a: int


class Colour(Enum):
    RED = "red"
    GREEN = "green é\n"
    NONE = None


class Level(IntEnum):
    LOW = 1
    HIGH = 20


class Address(Strict):
    street: str = Field(min_length=1, max_length=20)
    zip_code: str = Field(pattern=r"^\d{5}$", alias="zip")


class Person(Strict):
    name: str
    home: Address
    work: Address | None = None
    others: list[Address] = Field(default=[], max_length=2)
    by_name: dict[str, Address] = {}


class Choices(Strict):
    colour: Colour
    level: Level
    word: Literal["a", "b", 3] | None
    one: Literal["only"] = "only"
    nickname: str | None
    number: int | str | None = None


class Tree(Strict):
    value: int
    children: list[Tree] = []
    next: Tree | None = None


class Even(Strict):
    odd: Odd | None


class Odd(Strict):
    even: Even


class Bounds(Strict):
    some: int = Field(gt=-3, le=12, multiple_of=3)
    part: float = Field(ge=0, lt=1.5)
    price: Decimal
    tags: set[Literal["x", "y"]] = Field(min_length=1)
    pair: tuple[int, str]
    words: list[Annotated[str, Field(max_length=3)]] = Field(min_length=1, max_length=3)


class Moments(Strict):
    at: datetime
    day: date
    hour: time
    key: UUID
    host: IPv4Address


class Cat(Strict):
    kind: Literal["cat"]
    lives: int = Field(ge=1, le=9)


class Dog(Strict):
    kind: Literal["dog"]
    name: str


class Kennel(Strict):
    kind: Literal["kennel"]
    pets: list[Annotated[Cat | Dog | Kennel, Field(discriminator="kind")]]


class Pet(Strict):
    pet: Cat | Dog | Kennel = Field(discriminator="kind")


class Open(BaseModel):
    given: bool
    data: dict[str, Any] = {}


class Numbers(RootModel[list[int]]):
    pass


_HOME = Address(street='Rue d\'été "1"', zip="75001")
_AT = datetime(2024, 2, 29, 12, 30, 0, 250000, UTC)

INSTANCES: list[BaseModel] = [
    Person(name="", home=_HOME),
    Person(name="Zoë\n", home=_HOME, work=_HOME, others=[_HOME, _HOME], by_name={"a b": _HOME, "": _HOME}),
    Choices(colour=Colour.GREEN, level=Level.HIGH, word=3, nickname=None),
    Choices(colour=Colour.NONE, level=Level.LOW, word=None, nickname="n", number="7"),
    Tree(value=0),
    Tree(value=-1, children=[Tree(value=2, next=Tree(value=3)), Tree(value=4)], next=Tree(value=5)),
    Even(odd=Odd(even=Even(odd=Odd(even=Even(odd=None))))),
    Bounds(some=12, part=1.25, price=Decimal("12.30"), tags={"y"}, pair=(1, "é"), words=["", "abc"]),
    Bounds(some=0, part=0, price=Decimal("-1.5"), tags={"y", "x"}, pair=(-1, ""), words=["日本語"]),
    Moments(at=_AT, day=_AT.date(), hour=_AT.timetz(), key=UUID(int=7), host=IPv4Address("10.0.0.255")),
    Pet(pet=Cat(kind="cat", lives=9)),
    Pet(pet=Kennel(kind="kennel", pets=[Dog(kind="dog", name="Rex"), Kennel(kind="kennel", pets=[])])),
    Open(given=True, data={"a": [1, {"b": None}], "c": 1.5e300}),
    Numbers([]),
    Numbers([1, -20, 3]),
]
MODELS = list(dict.fromkeys(type(instance) for instance in INSTANCES))

# Not of the model.
WRONG: list[tuple[type[BaseModel], str]] = [
    (Person, '{"name":"a"}'),
    (Person, '{"home":{"street":"s","zip":"00000"},"name":"a"}'),
    (Person, '{"name":"a","home":{"street":"","zip":"00000"}}'),
    (Person, '{"name":"a","home":{"street":"s","zip_code":"00000"}}'),
    (Person, '{"name":"a","home":{"street":"s","zip":"00000"},"age":1}'),
    (Choices, '{"colour":"blue","level":1,"word":"a","nickname":null}'),
    (Choices, '{"colour":"red","level":2,"word":"a","nickname":null}'),
    (Choices, '{"colour":"red","level":1,"word":"c","nickname":null}'),
    (Choices, '{"colour":"red","level":1,"word":"a"}'),
    (Tree, '{"value":1,"children":[{"children":[]}]}'),
    (Even, '{"odd":{"even":{"odd":{}}}}'),
    (Bounds, '{"some":11,"part":1,"price":1,"tags":["x"],"pair":[1,""],"words":[""]}'),
    (Bounds, '{"some":12,"part":1.5,"price":1,"tags":["x"],"pair":[1,""],"words":[""]}'),
    (Bounds, '{"some":12,"part":1,"price":1,"tags":["x","x"],"pair":[1,""],"words":[""]}'),
    (Bounds, '{"some":12,"part":1,"price":1,"tags":["x"],"pair":[1],"words":[""]}'),
    (Bounds, '{"some":12,"part":1,"price":1,"tags":["x"],"pair":[1,""],"words":["abcd"]}'),
    (Pet, '{"pet":{"kind":"cat","name":"Rex"}}'),
    (Pet, '{"pet":{"kind":"kennel","pets":[{"kind":"dog","lives":1}]}}'),
    (Open, '{"data":{}}'),
    (Numbers, "[1.5]"),
]


@pytest.mark.parametrize("instance", INSTANCES, ids=lambda instance: type(instance).__name__)
def test_instances_can_be_written(instance: BaseModel) -> None:
    assert acceptor(type(instance))(instance.model_dump_json(by_alias=True))


@pytest.mark.parametrize(("model", "text"), WRONG)
def test_a_text_that_is_not_an_instance_is_not_allowed(model: type[BaseModel], text: str) -> None:
    accepts = acceptor(model)
    assert not accepts(text)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_models_read_what_is_written(model: type[BaseModel]) -> None:
    rng, writer = random.Random(5), Writer(nested(model))
    for _ in range(60):
        text = writer.write(rng)
        try:
            model.model_validate_json(text)
        except ValidationError as error:
            raise AssertionError(text.decode()) from error


def test_a_model_and_its_schema_are_one_constraint() -> None:
    model, written = lk.JsonSchema(Person, BYTES), lk.JsonSchema(Person.model_json_schema(), BYTES)
    assert model == written
    assert model.automaton is written.automaton
    assert lk.to_config(model) == lk.to_config(written)


def test_type_adapters() -> None:
    assert load(TypeAdapter(list[int])) == {"type": "array", "items": {"type": "integer"}}


@pytest.mark.parametrize("given", [Plain, TypeAdapter(Plain), Plain | None])
def test_objects_of_a_type_have_only_its_members(given: Any) -> None:
    """As an output type, in tools and in languages: a value that is read drops all others."""
    for constraint in (lk.JsonSchema(given, BYTES), lk.languages.json_schema(given).constraint(BYTES)):
        assert constraint.matches('{"a":1}')
        assert not constraint.matches('{"a":1,"b":2}')


def test_a_type_may_keep_other_members_and_a_schema_is_left_as_it_is() -> None:
    for given in (Keeping, Plain.model_json_schema()):
        assert lk.JsonSchema(given, BYTES).matches('{"a":1,"b":2}')
