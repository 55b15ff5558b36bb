"""Equal values have one text, and different values do not: compared with Python's own numbers and objects."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logitkit.runtime.remembering.known_objects import KnownObjects
from logitkit.runtime.remembering.spelling import spelled_number, spelled_object

NUMBERS = st.from_regex(r"-?(0|[1-9][0-9]{0,3})(\.[0-9]{1,3})?([eE][+-]?[0-9]{1,2})?", fullmatch=True)
NAMES = st.sampled_from(["a", "b", "c"])


@given(NUMBERS, NUMBERS)
def test_equal_numbers_have_one_text(one: str, other: str) -> None:
    texts = [spelled_number(text.encode()) for text in (one, other)]
    assert (texts[0] == texts[1]) == (Decimal(one) == Decimal(other))


@given(NUMBERS)
def test_the_text_of_a_number_has_its_value(text: str) -> None:
    spelled = spelled_number(text.encode())
    assert Decimal(spelled.decode()) == Decimal(text)
    assert spelled_number(spelled) == spelled


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1e99999999999999999999", "10e99999999999999999998"),
        (f"1e{'9' * 5000}", f"10e{'9' * 4999}8"),
        ("1" * 5000, f"{'1' * 5000}.0"),
        (f"0.{'0' * 5000}1", "1e-5001"),
    ],
)
def test_numbers_too_long_for_python_are_compared(one: str, other: str) -> None:
    assert spelled_number(one.encode()) == spelled_number(other.encode())
    assert spelled_number(one.encode()) != spelled_number(b"1" + other.encode())


@given(st.lists(st.lists(st.tuples(NAMES, st.integers(0, 2)), max_size=4), min_size=2, max_size=5))
def test_equal_objects_have_one_text(objects: list[list[tuple[str, int]]]) -> None:
    known = KnownObjects()
    texts = []
    for members in objects:
        written = [(f'"{name}"'.encode(), str(value).encode()) for name, value in members]
        text = b"{" + b",".join(b"%s:%s" % member for member in written) + b"}"
        spelled, key = spelled_object(text, written, known) if written else (text, None)
        if key is not None:
            known = known.plus(key, tuple([name for name, _ in written]), spelled)
        assert json.loads(spelled) == dict(members)
        texts.append(spelled)
    for one, first in zip(texts, objects, strict=True):
        for other, second in zip(texts, objects, strict=True):
            assert (one == other) == (dict(first) == dict(second))
