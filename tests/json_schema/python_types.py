"""Python types that pydantic knows, and instances of each that can be written as `dump_json` writes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from fractions import Fraction
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, Required, TypedDict
from uuid import UUID, uuid1, uuid4, uuid5

from pydantic import (
    UUID1,
    UUID4,
    UUID5,
    AliasChoices,
    AliasPath,
    AnyUrl,
    AwareDatetime,
    Base64Bytes,
    Base64Str,
    Base64UrlBytes,
    BaseModel,
    ByteSize,
    Field,
    FileUrl,
    FiniteFloat,
    HttpUrl,
    IPvAnyAddress,
    Json,
    NaiveDatetime,
    PostgresDsn,
    SecretBytes,
    SecretStr,
    StringConstraints,
    UrlConstraints,
)
from pydantic.networks import IPvAnyInterface, IPvAnyNetwork, WebsocketUrl
from typing_extensions import TypeAliasType


class Colour(Enum):
    RED = "red"
    ONE = 1
    NONE = None
    PAIR = (1, 2)  # which JSON has, but the validator does not read


class Level(IntEnum):
    LOW = 1
    HIGH = 20


@dataclass
class Node:
    value: int
    next: Node | None = None
    hidden: int = field(default=0, init=False)


class Part(TypedDict, total=False):
    number: Required[int]
    parts: list[Part]


class Whole(TypedDict):
    name: str
    part: NotRequired[Part]


@dataclass
class Box:
    parts: list[Part]
    inner: Box | None = None


class Point(NamedTuple):
    x: int
    y: str = ""


class Renamed(BaseModel, validate_by_name=True):
    one: int = Field(default=1, alias="uno")
    two: int = Field(default=2, validation_alias=AliasChoices("dos", "deux"))
    three: int = Field(default=3, validation_alias=AliasPath("tres", 0))


class Encoded(BaseModel, val_json_bytes="base64", ser_json_bytes="base64"):
    some: bytes
    few: Annotated[bytes, Field(min_length=2, max_length=4)]


class Hexadecimal(BaseModel, val_json_bytes="hex", ser_json_bytes="hex"):
    some: bytes
    few: Annotated[bytes, Field(min_length=2, max_length=4)]


class SecretHexadecimal(BaseModel, val_json_bytes="hex", extra="forbid"):
    some: Annotated[SecretBytes, Field(min_length=3, max_length=4)]


class ShortTexts(BaseModel, str_max_length=4, extra="forbid"):
    some: Base64Str
    few: Annotated[Base64Str, Field(min_length=2)]


class Service(BaseModel, extra="forbid"):
    url: HttpUrl
    ports: set[int]
    key: bytes
    folder: Path
    secret: SecretStr
    host: IPvAnyAddress
    since: NaiveDatetime
    timeout: timedelta
    mirrors: list[HttpUrl] = []


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    name: str


class Bird(BaseModel, validate_by_name=True):
    kind: Literal["bird", "hen"] = Field(default="bird", alias="Kind")


class Fish(BaseModel, validate_by_name=True):
    kind: Literal["fish"] = Field(default="fish", alias="Kind")


# The first alternative of a recursive alias.
Tree = TypeAliasType("Tree", "dict[str, Tree] | list[Tree] | int | None")

AT = datetime(2024, 2, 29, 12, 30, 0, 250000)  # noqa: DTZ001
LONG = "http://example.org/" + "a" * 700
ADDRESSES = [IPv4Address("10.0.0.255"), IPv6Address("::1"), IPv6Address("2001:db8::a:0:1")]
USERS = ["http://user:p%20w@h:1/a", "https://u@example.org"]
URLS = ["http://a", "https://Example.org:8080/a%20b/?q=1&r#top", "http://10.0.0.1/", "http://[::1]:1/", LONG]


def decimals(**bounds: Any) -> Any:
    return Annotated[Decimal, Field(**bounds)]


# Patterns that Rust and ECMA-262 read differently, and texts.
PATTERNS: list[tuple[str, list[str]]] = [
    (r"^\D+$", ["a é"]),
    (r"^\S+$", ["aé", "日"]),
    (r"^\W*$", ["!? ", "→"]),
    (r"^a\sb$", ["a b", "a\u3000b"]),
    (r"^[^\d\s]+$", ["aé"]),
    (r"^[^\w]$", ["!"]),
    (r"^[\D]{2}$", ["é-"]),
    (r"^[\W\S\s]$", ["!", "a", " "]),
    (r"^[^\W\d_]+$", ["abc"]),
    (r"\A(?P<year>\d{4})-\w\z", ["2024-b"]),
    (r"^.$", ["é"]),
    (r"^[\[\]\-\]]\]$", ["]]"]),
    (r"^[]a]+[^]a]$", ["]a["]),
    (r"\bfoo\b", ["a foo", "foo!"]),
    (r"^\w\Bb\B", ["abc"]),
]

CLASSES = [r"\d", r"\D", r"\s", r"\S", r"\w", r"\W"]
CHARACTERS = [chr(i) for start in (0, 0x1680, 0x2000, 0x3000, 0xFE00, 0x10A00) for i in range(start, start + 0x180)]

# Types, and instances that can be written as `dump_json` writes them.
TYPES: list[tuple[Any, list[Any]]] = [
    (type(None), [None]),
    (bool, [True]),
    (int, [0, -20]),
    (float, [1.5, 1e300, -0.25]),
    (FiniteFloat, [1.5, -123456789.125]),
    (Annotated[float, Field(ge=0, allow_inf_nan=False)], [0.5]),
    (str, ["", 'é "\n']),
    (int | None, [None, 3]),
    (int | str | list[int], [1, "1", [1]]),
    (Literal["a", 3, 2.5] | None, ["a", 3, None, 2.5]),
    (Literal[Level.LOW, Colour.RED, b"x", "y"], [Level.LOW, "y"]),
    (Colour, [Colour.RED, Colour.ONE, Colour.NONE]),
    (Annotated[Cat | Dog, Field(discriminator="kind")] | None, [Cat(lives=1), Dog(name=""), None]),
    (list[Annotated[Bird | Fish, Field(discriminator="kind")]], [[Bird(Kind="hen"), Fish()]]),
    (Level, [Level.HIGH]),
    (list[int], [[], [1, 2]]),
    (list, [[1, {"a": None}]]),
    (tuple[int, str], [(1, "é")]),
    (tuple[int, ...], [(), (1, 2)]),
    (set[int], [set(), {1, 2}]),
    (set, [{1, "a", None}]),
    (frozenset[str], [frozenset({"a"})]),
    (set[Colour], [{Colour.RED, Colour.ONE}]),
    (Annotated[set[str], Field(min_length=1, max_length=3)], [{"a"}]),
    (dict[str, int], [{"": 1, "b c": 2}]),
    (dict[int, str], [{1: "a", -20: ""}]),
    (dict[Annotated[int, Field(gt=0)], int], [{1: 2}]),
    (dict[float, int], [{1.5: 1}]),
    (dict[bool, int], [{False: 0, True: 1}]),
    (dict[Level, Level], [{Level.LOW: Level.HIGH}]),
    (dict[Colour, int], [{Colour.RED: 1}]),
    (dict[Literal[1, "b"], int], [{"b": 1}]),
    (dict[date, int], [{date(2024, 2, 29): 1}]),
    (dict[UUID, int], [{UUID(int=7): 1}]),
    (dict[Decimal, int], [{Decimal("1.50"): 1}]),
    (dict[Annotated[str, Field(pattern="^a+$")], int], [{"aa": 1}]),
    (Node, [Node(1, Node(-2))]),
    (Part, [{"number": 1, "parts": [{"number": 2}]}]),
    (Whole, [{"name": "a"}, {"name": "a", "part": {"number": 2}}]),
    (dict[str, Whole | None], [{"a": None, "b": {"name": ""}}]),
    (Annotated[list[Part], "note"], [[{"number": 1}]]),
    (Box, []),
    (Point, [Point(1, "a")]),
    (Tree, [{"a": [1, None, {}]}]),
    (HttpUrl, list(map(HttpUrl, URLS))),
    (Annotated[HttpUrl, UrlConstraints(max_length=60)], [HttpUrl("http://a/b")]),
    (AnyUrl, list(map(AnyUrl, [*URLS, *USERS, "urn:isbn:1", "s3://bucket/key", "file:///a", "ftp://h/x"]))),
    (Annotated[HttpUrl, Field(max_length=16)], [HttpUrl("http://abcde.h/")]),
    (WebsocketUrl, [WebsocketUrl("wss://h/a")]),
    (FileUrl, [FileUrl("file:///a/b.txt")]),
    (PostgresDsn, [PostgresDsn("postgresql+psycopg://u:p@h:1/db")]),
    (bytes, [b"", "é\0".encode()]),
    (Annotated[bytes, Field(min_length=2, max_length=4)], [b"abcd"]),
    (
        Encoded,
        [Encoded.model_construct(some=b"\xff\0", few=b"\xfe\xff"), Encoded.model_construct(some=b"", few=b"1234")],
    ),
    (Hexadecimal, [Hexadecimal.model_construct(some=b"\xff", few=b"\xfe\xff\0")]),
    (Base64Bytes, [b"", b"a", b"\xff\xfe", b"\0\1\2"]),
    (Base64UrlBytes, [b"\xff\xfe\xfd"]),
    (Base64Str, ["", "a", "ab", "abc"]),
    (Path, [Path("/a/b c")]),
    (SecretStr, [SecretStr("")]),
    (SecretBytes, [SecretBytes(b"")]),
    (SecretHexadecimal, []),
    (ShortTexts, []),
    (Annotated[SecretBytes, Field(min_length=2, max_length=4)], []),
    (Annotated[Base64Bytes, Field(min_length=4, max_length=5)], [b"abcd", b"\xff\0abc"]),
    (Annotated[Base64Str, Field(min_length=4, max_length=5)], ["abcd", "abcde"]),
    (ByteSize, [ByteSize(1024)]),
    (IPvAnyAddress, ADDRESSES),
    (IPv4Address, ADDRESSES[:1]),
    (IPv6Address, ADDRESSES[1:]),
    (IPvAnyInterface, [IPv4Interface("10.0.0.1/30"), IPv6Interface("::1/64")]),
    (IPvAnyNetwork, [IPv4Network("10.64.0.0/10"), IPv4Network("1.2.3.4/32"), IPv6Network("2001:db8::/32")]),
    (datetime, [AT, AT.replace(tzinfo=UTC), AT.replace(4), AT.replace(9996)]),
    (NaiveDatetime, [AT]),
    (AwareDatetime, [AT.replace(tzinfo=UTC)]),
    (date, [date.min, date.max, AT.date()]),
    (Annotated[date, Field(ge=date(2019, 12, 31), lt=date(2024, 3, 1))], [date(2019, 12, 31), date(2024, 2, 29)]),
    (Annotated[date, Field(gt=date(1999, 12, 31))], [date(2000, 1, 1), date(9999, 12, 31)]),
    (time, [time(1, 2, 3), time(23, 59, 59, 999999, UTC)]),
    (timedelta, [timedelta(0), timedelta(400, 5, 7), timedelta(-1), timedelta(seconds=-1.5), timedelta(7, 3600)]),
    (UUID, [UUID(int=7)]),
    (UUID1, [uuid1()]),
    (UUID4, [uuid4()]),
    (UUID5, [uuid5(UUID(int=1), "a")]),
    (Decimal, [Decimal("12.30"), Decimal("-0.1"), Decimal("1" * 40)]),
    (decimals(max_digits=5, decimal_places=2), [Decimal("123.45"), Decimal("-1.5")]),
    (decimals(max_digits=3), [Decimal("12.3"), Decimal("0.001"), Decimal(123)]),
    (decimals(max_digits=2, decimal_places=2), [Decimal("0.25")]),
    (decimals(max_digits=2, decimal_places=4), [Decimal("0.12")]),
    (decimals(max_digits=20, decimal_places=10), [Decimal("1234567890.0123456789")]),
    (decimals(decimal_places=18), [Decimal("0.5")]),
    (decimals(decimal_places=0), [Decimal(-7)]),
    (decimals(ge=0, decimal_places=2), [Decimal("0.00"), Decimal("7.25")]),
    (decimals(gt=0), [Decimal("0.5")]),
    (decimals(gt=Decimal("0.5"), le=10, multiple_of=Decimal("0.25")), []),
    (Fraction, [Fraction(-1, 2), Fraction(3)]),
    (complex, [1.5 - 2j, 3j]),
    (Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)], ["a b"]),
    *[(Annotated[str, Field(pattern=pattern, max_length=8)], texts) for pattern, texts in PATTERNS],
    (Callable[[], int] | None, [None]),
    (Json[int] | int, [1]),
    (Renamed, []),
    (Service, []),
    (Annotated[str, Field(json_schema_extra={"format": "path"})], ["a"]),
]
