"""Types that a model may be asked to write, each with a JSON text of it and the value of that text."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Literal, NamedTuple

import pydantic
from typing_extensions import TypedDict


class Invoice(pydantic.BaseModel):
    number: int = pydantic.Field(ge=1, le=9999)
    due: date
    paid: bool


@dataclass
class Point:
    x: int
    y: int


class Size(TypedDict):
    width: int
    unit: Literal["cm", "in"]


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Written(NamedTuple):
    given: Any
    text: str
    value: Any


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}

TYPES = {
    "pydantic model": Written(
        Invoice,
        '{"number":7,"due":"2024-02-29","paid":true}',
        Invoice(number=7, due=date(2024, 2, 29), paid=True),
    ),
    "dataclass": Written(Point, '{"x":1,"y":-2}', Point(1, -2)),
    "TypedDict": Written(Size, '{"width":3,"unit":"cm"}', {"width": 3, "unit": "cm"}),
    "Literal": Written(Literal["a", "b"], '"b"', "b"),
    "Enum": Written(Colour, '"red"', Colour.RED),
    "int": Written(int, "-12", -12),
    "float": Written(float, "0.5", 0.5),
    "bool": Written(bool, "false", False),
    "str": Written(str, '"a"', "a"),
    "date": Written(date, '"2024-02-29"', date(2024, 2, 29)),
    "datetime": Written(datetime, '"2024-02-29T10:00:00Z"', datetime(2024, 2, 29, 10, tzinfo=UTC)),
    "list[int]": Written(list[int], "[1,2]", [1, 2]),
    "Invoice | None": Written(Invoice | None, "null", None),
    "TypeAdapter": Written(pydantic.TypeAdapter(list[bool]), "[true]", [True]),
    "schema": Written(SCHEMA, '{"n":1}', {"n": 1}),
}

PATTERNS = {
    "plain": re.compile("[a-c]{2}d?"),
    "ignoring case": re.compile("ab?c", re.IGNORECASE),
    "several flags": re.compile("a . b  # a comment", re.VERBOSE | re.DOTALL | re.IGNORECASE),
    "ascii": re.compile(r"\w", re.ASCII),
    "multiline": re.compile("a\n^b$", re.MULTILINE),
    "its own flags": re.compile("(?i)ab"),
    "flags of both kinds": re.compile("(?i)a b", re.VERBOSE),
}
