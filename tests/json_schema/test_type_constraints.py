"""Constraints of pydantic on types that do not have them themselves: enforced, or refused by name. Pydantic is the judge."""

from __future__ import annotations

import dataclasses
import math
import re
import sys
from collections import Counter, deque
from collections.abc import Hashable, Sequence
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict
from uuid import UUID

import pytest
from annotated_types import MultipleOf
from hypothesis import HealthCheck, given, settings
from pydantic import (
    AfterValidator,
    AwareDatetime,
    Base64Bytes,
    BaseModel,
    BeforeValidator,
    Field,
    NaiveDatetime,
    RootModel,
    Secret,
    SecretStr,
    WithJsonSchema,
)
from typing_extensions import TypeAliasType

import logitkit as lk
from logitkit.errors import ConfigurationError
from tests.campaigns.types import Case, Judge, cases, check
from tests.examples import examples
from tests.json_schema.acceptance import BYTES, acceptor
from tests.json_schema.random_types import Colour, Level, Word

AT = datetime(2024, 2, 29, 12, 30, 0, 250000)  # noqa: DTZ001
ZONE = timezone(timedelta(hours=2))
LARGE = TypeAliasType("LARGE", Annotated[int | float, Field(ge=100)])


def even(value: Any) -> Any:
    return value


class Score(BaseModel):
    score: int | float = Field(ge=0, le=1)


class Part(TypedDict):
    size: NotRequired[Annotated[int | float, Field(gt=0)]]


@dataclasses.dataclass
class Data:
    level: Annotated[Level, Field(ge=3)]
    sizes: dict[str, Annotated[Literal[1, 5, 9], Field(lt=6)]] = dataclasses.field(default_factory=dict)


class Lower(RootModel[Annotated[list[int] | tuple[int, ...], Field(max_length=2)]]):
    pass


class InPython(BaseModel, regex_engine="python-re"):
    text: Annotated[str, Field(pattern=r"^(?!\d)\w$")]


# Types, texts that are valid, and texts that are not.
ENFORCED: list[tuple[Any, str, str]] = [
    (Score, '{"score":0} {"score":0.5} {"score":1}', '{"score":7} {"score":-0.1} {"score":1.5}'),
    (Annotated[Literal[1, 5, 9], Field(ge=3)], "5 9", "1"),
    (Annotated[Level, Field(ge=3, lt=20)], "5", "1 20"),
    (Annotated[Colour | Word, Field()], '"red" "a" 1', '"b" 2'),
    (Annotated[int | float, Field(multiple_of=3)], "0 -3 9", "1 2.5"),
    (Annotated[int | bool, Field(ge=1)], "1 true", "0 false"),
    (Annotated[int | float, Field(lt=Decimal("0.1"))], "0 0.09", "0.1 1"),
    (Annotated[Annotated[int, Field(ge=1)] | Annotated[float, Field(ge=2)], Field(le=4)], "1 4 2.5", "0 5 1.5 4.5"),
    (Annotated[Annotated[int | float, Field(ge=1)], Field(ge=0, le=4)], "1 4", "0 5"),
    (Annotated[Decimal | int, Field(gt=Decimal("0.5"))], "1 0.75", "0.5 0"),
    (Annotated[Decimal, Field(ge=0.1), Field(max_digits=3)], "1 12", "0.01 1234"),
    (Annotated[list[int] | tuple[int, ...], Field(max_length=2)], "[] [1,2]", "[1,2,3]"),
    (Annotated[Sequence[int] | deque[int] | set[str], Field(min_length=1)], '[1] ["a"]', "[]"),
    (Annotated[dict[str, int] | list[int], Field(max_length=1)], '{"a":1} [1]', '{"a":1,"b":2} [1,2]'),
    (Annotated[Literal["abc", "abcdef"], Field(max_length=3)], '"abc"', '"abcdef"'),
    (Annotated[Word | str, Field(min_length=2)], '"abcd" "zz"', '"a"'),
    (Annotated[Word, Field(pattern="^a$")], '"a"', '"abcd"'),
    (Annotated[Annotated[str, Field(pattern="a")] | Literal["b"], Field(pattern="b")], '"ab" "b"', '"a" "bc"'),
    (Annotated[SecretStr, Field(min_length=2), Field(min_length=1)], '"ab"', '"a"'),
    (Annotated[Base64Bytes, Field(min_length=1, max_length=0)] | None, "null", '"" "YQ=="'),
    (Annotated[date | None, Field(ge=date(2024, 2, 29))], '"2024-02-29" null', '"2024-02-28"'),
    (Annotated[date | Literal[1], Field()], '"2024-02-29" 1', "2"),
    (list[Annotated[int | float, Field(ge=0)]] | None, "[1,0.5] null", "[-1]"),
    (dict[str, Annotated[int | float, Field(ge=0)]], '{"a":1}', '{"a":-1}'),
    (Part, '{"size":1} {}', '{"size":0}'),
    (Data, '{"level":5} {"level":20,"sizes":{"a":1}}', '{"level":1} {"level":5,"sizes":{"a":9}}'),
    (Lower, "[1,2]", "[1,2,3]"),
    (LARGE, "100", "99"),
    (Annotated[LARGE | int, Field(le=200)], "100 5", "201"),
    (Annotated[int, AfterValidator(even), Field(ge=2)], "2", "1"),
    (Annotated[int | float, Field(ge=2), WithJsonSchema({"type": "integer", "minimum": 5})], "5", "1"),
    # Constraints that a type has itself.
    (Annotated[float, Field(lt=1)], "0.5 0.9999999999999999", "1 0.99999999999999999999"),
    # Python finds the float 0.1 greater than this bound, and the validator finds it equal.
    (Annotated[float, Field(gt=Decimal("0.1"))], "0.2 0.10000000000000002", "0.1 0"),
    (Annotated[float, Field(le=Decimal("0.1"))], "0.1 0", "0.2 0.10000000000000002"),
    # 1e400 is read as infinity.
    (Annotated[float, Field(lt=math.inf)], "0 0.5", "1e400"),
    (Annotated[float, Field(gt=Decimal(sys.float_info.max) - 1)] | None, "null", "1"),
    (Annotated[float, Field(ge=Decimal("NaN"))] | None, "null", "1"),
    (Annotated[float, Field(ge=Decimal("NaN"), multiple_of=0.1)] | None, "null", "1"),
    (Annotated[int | float, Field(le=10**400)], "1 0.5", "1e400"),
    (Annotated[int | float, Field(le=53236436736738017)], "53236436736738016", "53236436736738019"),
    (Annotated[float, Field(gt=0)], "0.5", f"0 0.{'0' * 330}1"),
    (Annotated[float, Field(multiple_of=0.1)], "0.3 -1000000.1", "0.25 123456789.1"),
    (Annotated[Decimal, Field(lt=1)], "0.5", "1 0.99999999999999999999"),
    (Annotated[tuple[int, str], Field(min_length=1)], '[1,"a"]', "[1]"),
    (Annotated[tuple[int, ...], Field(min_length=1)], "[1]", "[]"),
    (set[int | list[int]], "[1]", "[[1]]"),
    (set[int | Any], '[1,"a"]', '[[1]] [{"a":1}]'),
    (frozenset[tuple[int, list[int]] | None], "[null]", "[[1,[2]]]"),
    # Times.
    (
        Annotated[datetime, Field(gt=AT)],
        '"2024-02-29T12:30:00.2501" "2024-03-01T00:00:00+05:00"',
        '"2024-02-29T12:30:00.25"',
    ),
    (Annotated[datetime, Field(le=AT.replace(tzinfo=ZONE))], '"2024-02-29T12:30:00.25+02:00"', '"2024-02-29T12:30:01"'),
    (Annotated[AwareDatetime, Field(ge=AT.replace(tzinfo=UTC))], '"2024-02-29T12:30:01Z"', '"2024-02-29T12:30:00Z"'),
    (Annotated[NaiveDatetime | None, Field(lt=AT)], '"2024-02-29T12:30:00" null', '"2024-02-29T12:31:00"'),
    (Annotated[NaiveDatetime | Literal[0], Field()], '"2024-02-29T12:30:00" 0', "1"),
    (Annotated[time, Field(ge=time(9), lt=time(17))], '"09:00:00" "16:59:59.999999"', '"08:59:59" "17:00:00"'),
    (Annotated[timedelta, Field(ge=timedelta(0))], '"PT0S" "P1Y3DT1S"', '"-PT1S"'),
    (
        Annotated[timedelta, Field(gt=timedelta(hours=-1), le=timedelta(1))],
        '"-PT59M" "P1D" "PT23H"',
        '"-PT1H" "P1DT1S"',
    ),
    (Annotated[timedelta, Field(ge=3)], '"PT3S"', '"PT2.9S"'),
    # Patterns.
    (Annotated[str, Field(pattern="(?i)^yes|no$")], '"YES!" "nO" "ye\u017f"', '"xyes" "nox"'),
    (Annotated[str, Field(pattern="^(?i:k)b[^S]$")], '"Kbs" "\u212abx"', '"KB" "kbS"'),
    (Annotated[str, Field(pattern="(?i)^[^k-m]$")], '"a"', '"K" "\u212a" "l"'),
    (Annotated[str, Field(pattern="(?m)^b$")], '"b" "a\\nb" "b\\na"', '"ab"'),
    (Annotated[str, Field(pattern="(?s)^a.b$(?x) # end")], '"a\\nb"', '"ab"'),
    (Annotated[str, Field(pattern="(?x)^[a b]$")], '"a"', '" "'),
    (Annotated[str, Field(pattern=r"^[--a]\pL\x{e9}$")], '"-b\u00e9" "ab\u00e9"', '"0b\u00e9"'),
    (Annotated[str, Field(pattern=re.compile("^a b$", re.VERBOSE | re.IGNORECASE))], '"AB" "ab\\n"', '"a"'),
    (Annotated[str, Field(pattern=re.compile(r"^[^\d]$"))], '"a" "\u00e9"', '"\u0663" "1"'),
    (InPython, '{"text":"a"} {"text":"\u00e9"}', '{"text":"\u0663"} {"text":"ab"}'),
]


def name_of(given: Any) -> str:
    """Return the beginning of a type as text, without addresses, which differ from process to process."""
    return re.sub(" at 0x[0-9a-f]+", "", str(given))[:70]


@pytest.mark.parametrize(("given", "valid", "invalid"), ENFORCED, ids=[name_of(given) for given, _, _ in ENFORCED])
def test_a_constraint_is_enforced(given: Any, valid: str, invalid: str) -> None:
    accepts, judge = acceptor(given), Judge(given)
    for text in valid.split(" "):
        assert judge.reads(text), text
        assert accepts(text), text
    for text in invalid.split(" "):
        assert not judge.reads(text), text
        assert not accepts(text), text


REFUSED: list[tuple[Any, str]] = [
    (Hashable, "a value that must also be of <class 'collections.abc.Hashable'>"),
    (list[Hashable], "Hashable"),
    (Annotated[int | str, Field(ge=0)], "ge=0 on a type with str, to which it cannot be applied"),
    (Annotated[Any, Field(ge=0)], "ge=0 on a type with any"),
    (Annotated[Literal[1, "a"], Field(ge=0)], "ge=0 on a type with 'a'"),
    (Annotated[Colour, Field(ge=0)], "ge=0 on a type with <Colour.RED: 'red'>"),
    (Annotated[Colour, Field(pattern="r")], "pattern='r' on a type with <Colour.RED: 'red'>"),
    (Annotated[Literal[1, 5], Field(ge=9)], "ge=9 on a type of which it allows no value"),
    (Annotated[str | bytes, Field(max_length=3)], "a union of str and bytes, which are of one type in JSON, string"),
    (Annotated[str | bytes, Field(pattern="a")], "pattern='a' on a type with bytes"),
    (Annotated[Decimal | int, Field(max_digits=3)], "max_digits=3 on a type with int"),
    (Annotated[Decimal | float, Field(le=Decimal("0.1"))], "a union of decimal and numbers"),
    (Annotated[int, BeforeValidator(even, json_schema_input_type=str), Field(ge=3)], "ge=3 on a type for which"),
    (Annotated[int | float, Field(multiple_of=0.1)], "multiple_of=0.1 on a type with int"),
    (Annotated[int | float, Field(allow_inf_nan=False)], "allow_inf_nan=False on a type with int"),
    (Annotated[datetime | None, Field(ge=AT)] | Annotated[datetime | date, Field(ge=AT)], "on a type with datetime"),
    (Annotated[datetime | date, Field(ge=date(2024, 1, 1))], "on a type with datetime"),
    (
        Annotated[set[int] | list[int], Field(min_length=2)],
        "a union of set and list, which are of one type in JSON, array",
    ),
    (Annotated[UUID, Field(min_length=2)], "min_length=2 on a type with uuid"),
    (Annotated[Path, Field(min_length=2)], "for a value that has no length"),
    (Annotated[Secret[str], Field(min_length=2)], "for a value that has no length"),
    (Annotated[SecretStr, Field(pattern="a")], "pattern='a' on a type for which it has no meaning"),
    (Annotated[Score, Field(ge=2)], "ge=2 on a type for which it has no meaning"),
    (Annotated[timedelta, MultipleOf(timedelta(1))], "multiple_of"),
    (Annotated[str, Field(json_schema_extra={"ge": 3})], "the constraint ge=3"),
    (set[dict[str, int]], "a set of values without a hash"),
    (set[list[int] | tuple[int, ...]], "a set of values without a hash"),
    (Annotated[int, Field(strict=True)] | Annotated[float, Field(ge=5)], "a strict int in a union"),
    (Annotated[str, Field(pattern=r"(?i)^\PL$")], r"\PL in any case"),
    (Annotated[str, Field(pattern=r"(?i)^[^\p{Lu}]$")], r"[^\p{Lu}] in any case"),
    (Annotated[str, Field(pattern=r"(?R)a")], "a flag that changes how bytes or line ends are read"),
    (Annotated[str, Field(pattern="[[:alpha:]]")] | None, "has '[' in a class of characters"),
    (Annotated[str, Field(pattern=re.compile("(?>a|ab)c"))], "an atomic group"),
    # Pydantic itself has no validator for these.
    (Annotated[str, Field(pattern="(?=a)b")], "look-around, including look-ahead and look-behind, is not supported"),
    (Annotated[int | str, Field(strict=True)], "Unable to apply constraint 'strict'"),
]


@pytest.mark.parametrize(("given", "reason"), REFUSED, ids=[name_of(given) for given, _ in REFUSED])
def test_a_constraint_that_cannot_be_enforced_is_refused(given: Any, reason: str) -> None:
    with pytest.raises(ConfigurationError, match="has no JSON Schema") as caught:
        lk.JsonSchema(given, BYTES)
    assert reason in str(caught.value)


def test_a_type_without_a_schema_is_left_out_of_a_union() -> None:
    accepts = acceptor(Annotated[int | float | Hashable, Field()])
    assert accepts("1")
    assert not accepts('"a"')


def test_no_mark_is_left_in_a_schema() -> None:
    for constrained, _, _ in ENFORCED:
        written = str(lk.to_config(lk.JsonSchema(constrained, BYTES)))
        assert "x-logitkit" not in written
        assert not re.search(r"'(?:ge|gt|le|lt|multiple_of)':", written)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(cases())
def test_random_types(case: Case) -> None:
    check(case, Counter())


def test_an_int_beside_limited_numbers_is_one_that_a_float_holds() -> None:
    """pydantic reads no greater integer that is written with a point."""
    few_digits = Annotated[Decimal, Field(max_digits=3, decimal_places=1)]
    accepts = acceptor(int | few_digits)
    assert accepts("12.5")
    assert accepts("123456789012345")
    assert not accepts("84213169325776961739.0")
    assert not accepts("84213169325776961739")
    assert acceptor(int)("84213169325776961739")
    above = acceptor(Annotated[Decimal, Field(ge=-2)] | Annotated[int, Field(gt=-2)])
    assert above("-2")
    assert not above("-3")
