"""A logits processor that changes nothing and remembers what `generate` showed it."""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import LogitsProcessor


class Watch(LogitsProcessor):
    """Put it beside a hook, to see the calls that the hook got."""

    def __init__(self) -> None:
        self.ids: list[Tensor] = []
        self.scores: list[Tensor] = []

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        self.ids.append(input_ids.clone())
        self.scores.append(scores.clone())
        return scores

    def permuted(self) -> int:
        """How many calls continue, in some row, not what that row was in the call before."""
        pairs = [(a, b) for a, b in zip(self.ids, self.ids[1:], strict=False) if b.shape[1] == a.shape[1] + 1]
        return sum(not torch.equal(a, b[:, :-1]) for a, b in pairs)

    def rewound(self) -> int:
        """How many calls show less than the call before."""
        return sum(b.shape[1] < a.shape[1] for a, b in zip(self.ids, self.ids[1:], strict=False))
