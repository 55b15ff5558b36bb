"""Random Python types for pydantic: unions, literals, enums, collections and models, with constraints on any of them."""

from __future__ import annotations

import dataclasses
import json
import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Annotated, Any, Literal, NamedTuple, Optional, Union
from uuid import UUID

from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from pydantic import AwareDatetime, Base64Bytes, ConfigDict, Field, NaiveDatetime, SecretStr, create_model
from typing_extensions import TypedDict


class Colour(Enum):
    RED = "red"
    GREEN = "green"
    ONE = 1


class Level(IntEnum):
    LOW = 1
    MIDDLE = 5
    HIGH = 20


class Word(StrEnum):
    A = "a"
    LONG = "abcd"


@dataclass(frozen=True)
class Drawn:
    """A type.

    Args:
        given: The type.
        is_exact: Whether each value that it dumps can be written. Others may have a narrower form, such as `Decimal`.
    """

    given: Any
    is_exact: bool


NUMBERS: list[Any] = [-2, 0, 1, 2, 3, 5, 10, 0.5, 0.1, 2.5, Decimal("0.1"), Decimal(2)]
AT = datetime(2024, 2, 29, 12, 30, 0, 250000)  # noqa: DTZ001
ZONED = AT.replace(tzinfo=UTC)
PATTERNS: list[Any] = ["a", "^[a-c]+$", r"^\d", r"^\w\W?$", "(?i)^yes|no$", "(?i:a)b", r"(?m)^b$"]
PATTERNS += [re.compile("a # b", re.VERBOSE), re.compile("^A", re.IGNORECASE)]


def _bounds(values: list[Any]) -> SearchStrategy[dict[str, Any]]:
    names = st.sampled_from(["ge", "gt", "le", "lt"])
    return st.dictionaries(names, st.sampled_from(values), min_size=1, max_size=2)


_LENGTHS = st.dictionaries(st.sampled_from(["min_length", "max_length"]), st.integers(0, 3), min_size=1, max_size=2)
_MULTIPLES = st.sampled_from([{"multiple_of": multiple} for multiple in (2, 3, 0.5, 0.1, Decimal("0.25"))])
_DIGITS = st.sampled_from([{"max_digits": 2}, {"decimal_places": 1}, {"max_digits": 3, "decimal_places": 1}])
_OTHERS = st.sampled_from([{"strict": True}, {"allow_inf_nan": False}])
_TEXTUAL = _LENGTHS | st.sampled_from([{"pattern": pattern} for pattern in PATTERNS])

EXACT: list[Any] = [int, bool, str, type(None), Colour, Level, Word]
EXACT += [Literal[1, 5, 9], Literal["a", "abc", 2], Literal[True, "é"], Literal[Level.LOW, Word.LONG]]

# Types of which a constraint may have one meaning, and such constraints.
FAMILIES: list[tuple[list[Any], SearchStrategy[dict[str, Any]]]] = [
    ([int, int, float, Level, Literal[1, 5, 9], Decimal, bool], _bounds(NUMBERS) | _MULTIPLES),
    ([int, float, Level], _bounds(NUMBERS) | _MULTIPLES | _OTHERS),
    ([Decimal], _bounds(NUMBERS) | _MULTIPLES | _DIGITS),
    ([str, str, Word, Literal["a", "abc"], Literal["yes"]], _TEXTUAL),
    ([bytes, SecretStr, Base64Bytes], _LENGTHS),
    ([list[int], tuple[int, ...], Sequence[str], deque[bool], set[Word], tuple[int, str]], _LENGTHS),
    ([dict[str, int], Mapping[str, str], dict[int, bool]], _LENGTHS),
    ([date], _bounds([date(2024, 2, 29), date(2020, 1, 1)])),
    ([datetime, NaiveDatetime], _bounds([AT, AT.replace(microsecond=0), AT.replace(2020)])),
    ([datetime, AwareDatetime], _bounds([ZONED, ZONED.astimezone(timezone(timedelta(hours=2)))])),
    ([time], _bounds([time(12), time(23, 59, 59, 500), time(1, tzinfo=UTC)])),
    ([timedelta], _bounds([timedelta(0), timedelta(1, 1), timedelta(hours=-1), timedelta(400, 5, 7)])),
]
_ANY_CONSTRAINT = st.one_of([constraints for _, constraints in FAMILIES])
NARROWER: list[Any] = [float, bytes, Decimal, date, datetime, time, timedelta, UUID, Any, SecretStr]


def _annotated(given: Any, constraints: list[dict[str, Any]]) -> Any:
    return Annotated[(given, *(Field(**constraint) for constraint in constraints))]


@st.composite
def _constrained(draw: DrawFn) -> Drawn:
    """One of a family, or a union of several, with one constraint or two."""
    types, constraints = draw(st.sampled_from(FAMILIES))
    parts = draw(st.lists(st.sampled_from(types), min_size=1, max_size=3))
    if draw(st.integers(0, 5)) == 0:
        parts[0] = _annotated(parts[0], [draw(constraints)])
    given = _annotated(Union[tuple(parts)], draw(st.lists(constraints, min_size=1, max_size=2)))  # noqa: UP007
    return Drawn(
        given, all(part in EXACT or getattr(part, "__origin__", None) in (list, dict, tuple) for part in parts)
    )


def _with_any_constraint(inner: SearchStrategy[Drawn]) -> SearchStrategy[Drawn]:
    return st.builds(lambda drawn, one: Drawn(_annotated(drawn.given, [one]), drawn.is_exact), inner, _ANY_CONSTRAINT)


@st.composite
def _union(draw: DrawFn, inner: SearchStrategy[Drawn]) -> Drawn:
    parts = draw(st.lists(inner, min_size=2, max_size=3))
    return Drawn(Union[tuple([part.given for part in parts])], all(part.is_exact for part in parts))  # noqa: UP007


@st.composite
def _collection(draw: DrawFn, inner: SearchStrategy[Drawn]) -> Drawn:
    first, second = draw(inner), draw(inner)
    one, two = first.given, second.given
    kind: Any = draw(st.sampled_from([list, Sequence, deque, Optional, dict, Mapping, tuple, set, frozenset]))
    if kind is tuple:
        given = tuple[one, two] if draw(st.booleans()) else tuple[one, ...]  # type: ignore[valid-type]
    else:
        given = kind[(draw(st.sampled_from([str, str, int])), one)] if kind in (dict, Mapping) else kind[one]
    return Drawn(given, first.is_exact and second.is_exact and kind not in (set, frozenset))


@st.composite
def _model(draw: DrawFn, inner: SearchStrategy[Drawn]) -> Drawn:
    first, second = draw(inner), draw(inner)
    one, two, kind = (
        first.given,
        second.given,
        draw(st.sampled_from(["model", "dataclass", "typed dict", "named tuple"])),
    )
    fields, written = {"a": one, "b": two}, f"{kind} with a: {one}, b: {two}"
    found: Any = None
    if kind == "model":
        config = ConfigDict(strict=True) if draw(st.integers(0, 4)) == 0 else None
        try:
            found = create_model(
                written + (" (strict)" if config else ""), __config__=config, a=(one, ...), b=(two, ...)
            )
        except Exception:  # noqa: BLE001 - pydantic refuses a constraint on a type in many ways
            assume(False)
    elif kind == "dataclass":
        found = dataclasses.make_dataclass("Data", fields.items())
    elif kind == "typed dict":
        make: Any = TypedDict
        found = make("Typed", fields)
    else:
        name_tuple: Any = NamedTuple
        found = name_tuple("Named", list(fields.items()))
    found.__doc__ = written
    return Drawn(found, first.is_exact and second.is_exact)


_leaves = st.sampled_from([*(Drawn(given, True) for given in EXACT), *(Drawn(given, False) for given in NARROWER)])
TYPES = st.recursive(
    st.one_of(_leaves, _constrained(), _constrained(), _constrained()),
    lambda inner: st.one_of(
        _union(inner), _collection(inner), _collection(inner), _model(inner), _with_any_constraint(inner)
    ),
    max_leaves=5,
)

_NUMBERS = """
-3 0 1 2 3 4 5 6 9 10 12 20 -0.5 0.1 0.3 0.5 1.5 2.5 0.25 4.0 9007199254740993 999999999999999.75 -1234567890.5
0.99999999999999999999 2.00000000000000000001 0.10000000000000000001
"""
_STRINGS = [
    *(
        "",
        "a",
        "ab",
        "abc",
        "abcd",
        " a ",
        "A",
        "aB",
        "yes",
        "YES",
        "xno",
        "nox",
        "red",
        "green",
        "1",
        "12",
        "0.1",
        "1.25",
        "123",
    ),
    *("é", "éé", "ſ", "٣", "a\nb", "2024-02-29", "2019-12-31", "2024-02-29T12:30:00", "2024-02-29T12:30:00.25Z"),
    *("2024-02-29T12:30:00.250001+02:00", "12:00:00", "01:00:00Z", "23:59:59.0005", "PT0S", "-PT1H", "P1D", "P1DT1S"),
    *("-PT59M59.5S", "00000000-0000-0000-0000-000000000007"),
]
_SCALARS = [
    *("null", "true", "false", "1" + "0" * 320, f"0.{'0' * 330}1", *_NUMBERS.split()),
    *(json.dumps(text, ensure_ascii=False) for text in _STRINGS),
]


def _objects(inner: SearchStrategy[str], *names: str) -> SearchStrategy[str]:
    members = st.lists(inner, max_size=len(names)).map(lambda values: zip(names, values, strict=False))
    return members.map(lambda pairs: "{" + ",".join(f'"{name}":{value}' for name, value in pairs) + "}")


TEXTS: SearchStrategy[str] = st.recursive(
    st.sampled_from(_SCALARS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{','.join(items)}]"),
        inner.map(lambda item: f"[{item},{item}]"),
        _objects(inner, "a", "b"),
        _objects(inner, "1", "-2"),
    ),
    max_leaves=4,
)
"""JSON texts."""
