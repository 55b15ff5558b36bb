"""The comparison of engines finds what it is there to find."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.conformance.agreement import NEAR, assert_greedy, assert_same, assert_whole
from tests.conformance.engines import EOS

LOGITS = torch.tensor([[1.0, 2.0, -torch.inf, 0.5], [8.0, -3.0, 7.9995, -torch.inf]])


def at(row: int, column: int, value: float) -> torch.Tensor:
    """The logits, but for one."""
    other = LOGITS.clone()
    other[row, column] = value
    return other


def test_rounding_is_not_a_difference() -> None:
    assert_same(LOGITS, LOGITS + NEAR / 4)
    assert_same(LOGITS * 1e4, (LOGITS + NEAR / 4) * 1e4)
    for tokens in ([1, 0], [1, 2]):
        assert_greedy(tokens, LOGITS)


@pytest.mark.parametrize(
    "other",
    [at(0, 0, -torch.inf), at(0, 2, 1.0), at(1, 3, -50.0), at(0, 1, 2.02), at(1, 1, -3.02), at(1, 2, 8.1)],
    ids=["masked", "not masked", "at the end not masked", "less", "more", "better"],
)
def test_masks_and_penalties_are(other: torch.Tensor) -> None:
    with pytest.raises(AssertionError):
        assert_same(LOGITS, other)


@pytest.mark.parametrize("tokens", [[0, 0], [1, 1], [2, 0], [1, 3]])
def test_so_is_a_token_that_was_not_the_best(tokens: list[int]) -> None:
    with pytest.raises(AssertionError):
        assert_greedy(tokens, LOGITS)


def test_a_text_ends_once() -> None:
    assert_whole([5, 6, *EOS[:1]], 9)
    assert_whole([5, 6, 7], 3)
    wrong: Callable[[list[int]], list[int]]
    for wrong in (lambda t: t, lambda t: [*t, EOS[0], 5], lambda t: [*t, EOS[0], EOS[0]]):
        with pytest.raises(AssertionError):
            assert_whole(wrong([5, 6]), 9)
