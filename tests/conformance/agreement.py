"""When two engines say the same: their own float32 logits differ by rounding, and what a processor makes of them by no more."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tests.conformance.engines import EOS

__all__ = ["assert_greedy", "assert_same", "assert_whole"]

# How far apart the engines' own float32 logits of one text are, and how large they are at most.
NEAR, LARGEST = 2e-3, 32.0


def assert_same(one: Tensor, other: Tensor) -> None:
    """Assert that processed logits, [T, V], have the same masks, and otherwise differ by rounding."""
    assert torch.equal(one == -torch.inf, other == -torch.inf)
    torch.testing.assert_close(one, other, rtol=NEAR, atol=_near(one))


def assert_greedy(tokens: Sequence[int], logits: Tensor) -> None:
    """Assert that each token was the best by its processed logits, [T, V], or one that float32 cannot tell from it."""
    chosen = logits.gather(1, torch.tensor(tokens)[:, None])[:, 0]
    torch.testing.assert_close(chosen, logits.max(1).values, rtol=0, atol=_near(logits))


def assert_whole(tokens: Sequence[int], steps: int) -> None:
    """Assert that a text ended by EOS, and nowhere before, or by its number of tokens."""
    assert len(tokens) == steps or tokens[-1] in EOS
    assert not set(tokens[:-1]) & set(EOS)


def _near(logits: Tensor) -> float:
    """Return how far apart logits may be: a temperature multiplies what rounding makes."""
    return NEAR * max(1.0, float(logits[logits.isfinite()].abs().max()) / LARGEST)
