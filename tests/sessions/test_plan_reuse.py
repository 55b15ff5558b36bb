"""Which cached tokens serve a new prompt."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from logitkit import Reuse, plan_reuse
from logitkit.errors import ArgumentTypeError, ConfigurationError
from logitkit.sessions.reuse import common_prefix

TOKENS = st.lists(st.integers(0, 2), max_size=12)


@pytest.mark.parametrize(
    ("old", "new", "rolling", "expected"),
    [
        ("123", "12345", False, Reuse(0, 3, [4, 5])),
        ("1234", "129", False, Reuse(0, 2, [9])),
        ("123", "123", False, Reuse(0, 2, [3])),
        ("1234", "12", False, Reuse(0, 1, [2])),
        ("123", "7", False, Reuse(0, 0, [7])),
        ("12345678", "3456789", False, Reuse(0, 0, [3, 4, 5, 6, 7, 8, 9])),
        ("12345678", "3456789", True, Reuse(2, 6, [9])),
        ("1213", "134", False, Reuse(0, 1, [3, 4])),
        ("1213", "134", True, Reuse(2, 2, [4])),
        ("", "12", False, Reuse(0, 0, [1, 2])),
        ("", "12", True, Reuse(0, 0, [1, 2])),
        ("12312", "129", True, Reuse(0, 2, [9])),  # both runs have two tokens: the prefix is preferred
    ],
)
def test_examples(old: str, new: str, rolling: bool, expected: Reuse) -> None:
    plan = plan_reuse([int(c) for c in old], [int(c) for c in new], rolling=rolling)
    assert plan == expected
    assert isinstance(plan.todo, list)


@pytest.mark.parametrize("rolling", [False, True])
def test_a_prompt_without_tokens_is_refused(rolling: bool) -> None:
    with pytest.raises(ValueError, match="new has no tokens"):
        plan_reuse([1, 2], [], rolling=rolling)


@pytest.mark.parametrize("rolling", [False, True])
@pytest.mark.parametrize(
    "wrong", ["12", b"12", 12, None, [1.0, 2], [1, "2"], [1, None], [True, 1], np.array([1.0]), [[1, 2]]], ids=repr
)
def test_only_token_ids_are_taken(wrong: Any, rolling: bool) -> None:
    for name, old, new in (("old", wrong, [1, 2]), ("new", [1, 2], wrong)):
        with pytest.raises(ArgumentTypeError, match=f"^{name} ") as caught:
            plan_reuse(old, new, rolling=rolling)
        assert isinstance(caught.value, TypeError)
        assert isinstance(caught.value, ConfigurationError)


def test_a_long_text_is_not_repeated_in_the_error() -> None:
    with pytest.raises(TypeError) as caught:
        plan_reuse([1], "a" * 10_000)  # type: ignore[arg-type]
    assert len(str(caught.value)) < 150


@pytest.mark.parametrize("rolling", [False, True])
def test_ids_of_numpy_and_torch_are_ids(rolling: bool) -> None:
    kinds: tuple[Any, ...] = (np.array, torch.tensor)
    for kind in kinds:
        assert plan_reuse(kind([1, 2, 3]), kind([1, 2, 9]), rolling) == Reuse(0, 2, [9])


@given(TOKENS, TOKENS.filter(len))
def test_the_prefix_is_the_longest_there_is(old: list[int], new: list[int]) -> None:
    longest = max(n for n in range(len(new)) if old[:n] == new[:n] and n <= len(old))
    assert plan_reuse(old, new) == Reuse(0, longest, new[longest:])


@given(TOKENS, TOKENS.filter(len))
def test_the_rolling_run_is_the_first_of_the_longest_there_are(old: list[int], new: list[int]) -> None:
    runs = [
        (n, -s) for s in range(len(old) + 1) for n in range(len(new)) if old[s : s + n] == new[:n] and s + n <= len(old)
    ]
    length, start = max(runs)
    assert plan_reuse(old, new, rolling=True) == Reuse(-start if length else 0, length, new[length:])


@given(TOKENS, TOKENS.filter(len), st.booleans())
def test_what_is_reused_and_what_is_left_are_the_prompt(old: list[int], new: list[int], rolling: bool) -> None:
    start, length, todo = plan_reuse(tuple(old), tuple(new), rolling)
    assert old[start : start + length] + todo == new
    assert todo


class Counted(int):
    """A token that counts how often it is compared, and fails at once where that is too often."""

    compared = 0
    allowed = 0
    __hash__ = int.__hash__

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        assert Counted.compared < Counted.allowed
        return int(self) == other

    def __ne__(self, other: object) -> bool:
        return not self == other


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ([1] * 20_000, [1] * 20_000),
        ([1] * 10_000 + [2] + [1] * 9_999, [1] * 12_000),
        ([1, 2] * 10_000, [1, 2] * 6_000 + [3]),
        ([*([1] * 999), 2] * 20, [1] * 20_000),
    ],
    ids=["all equal", "equal but one", "by twos", "broken by blocks"],
)
@pytest.mark.parametrize("rolling", [False, True])
def test_thousands_of_tokens_take_a_few_comparisons_each(old: list[int], new: list[int], rolling: bool) -> None:
    Counted.compared, Counted.allowed = 0, 4 * (len(old) + len(new))
    plan = plan_reuse([Counted(t) for t in old], [Counted(t) for t in new], rolling=rolling)
    assert plan.length >= 999
    assert Counted.compared > 0


def test_common_prefix() -> None:
    assert [common_prefix(*p) for p in [("", "a"), ("ab", "ab"), ("ab", "abc"), ("abd", "abc")]] == [0, 2, 2, 2]  # type: ignore[arg-type]
