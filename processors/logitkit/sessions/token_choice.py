"""The choice of the next token: the most likely, a sampled one, or that of the best beams."""

from __future__ import annotations

import torch
from torch import Tensor

from logitkit.sampling.counter_random import uniform_tensors

__all__ = ["best_continuations", "drawn_tokens", "without_twins"]


def drawn_tokens(logits: Tensor, seed: int, streams: Tensor, positions: Tensor) -> Tensor:
    """Sample a token for each row by its probability.

    The result depends only on seed, stream and position: a generation in two parts samples the same tokens as in one.

    Args:
        logits: [R, V], with at least one finite value per row, and without NaN and +inf; the ids of other rows mean nothing.
        seed: The seed, a non-negative integer.
        streams: [R] int64; rows with the same stream sample the same numbers.
        positions: [R] int64, the number of tokens before the sampled one.

    Returns:
        [R] int64, from 0 to V - 1.

    Example:
        >>> rows = torch.arange(4)
        >>> drawn_tokens(torch.tensor([[0.0, 0.0, -torch.inf]] * 4), 1, rows, rows).tolist()
        [1, 0, 1, 0]
    """
    sums = logits.to(torch.float64).softmax(1).cumsum(1)
    numbers = uniform_tensors(torch.full_like(streams, seed), streams, positions)[:, None]
    # To the right of equal sums, so that a token of probability 0 is never sampled; capped at the last sum, despite rounding.
    total = sums[:, -1:].contiguous()
    places = torch.searchsorted(sums, numbers * total, right=True)
    likely = torch.searchsorted(sums, total)
    # The sums of broken logits are NaN, so their place is after the last column.
    return torch.minimum(places, likely)[:, 0].clamp(max=logits.shape[1] - 1)


def best_continuations(weights: Tensor, scores: Tensor, most: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the best continuations of all beams of each prompt.

    Args:
        weights: [B, K], the sum of the scores of each beam; -inf for an absent one.
        scores: [B x K, V], the log-probabilities of the next tokens after the processors.
        most: The number of continuations.

    Returns:
        For each, the sum (best first), the row that it continues (of B x K) and its token: all [B, N], N at most `most`.

    Example:
        >>> sums, rows, tokens = best_continuations(
        ...     torch.tensor([[-1.0, -3.0]]), torch.tensor([[-0.5, -4.0], [-1.0, -9.0]]), 3
        ... )
        >>> sums.tolist(), rows.tolist(), tokens.tolist()
        ([[-1.5, -4.0, -5.0]], [[0, 1, 0]], [[0, 0, 1]])
    """
    batch, beams = weights.shape
    columns = scores.shape[1]
    sums = (weights.reshape(-1, 1) + scores.to(weights.dtype)).reshape(batch, -1)
    best, places = sums.topk(min(most, sums.shape[1]), dim=1)
    first = torch.arange(batch, device=weights.device)[:, None] * beams
    return best, first + places // columns, places % columns


def without_twins(weights: Tensor, rows: tuple[tuple[int, ...], ...]) -> Tensor:
    """Return weights with -inf for a row that equals an earlier row of its prompt: equal beams would give equal results.

    Args:
        weights: [B, K].
        rows: The tokens of the B x K rows.
    """
    beams = weights.shape[1]
    is_twin = [tokens in rows[row - row % beams : row] for row, tokens in enumerate(rows)]
    return weights.masked_fill(
        torch.tensor(is_twin, dtype=torch.bool, device=weights.device).reshape(weights.shape), -torch.inf
    )
