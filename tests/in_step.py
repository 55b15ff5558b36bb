"""Two constraints that write the same random text."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

import logitkit as lk
from logitkit.runtime.constraint import Constraint


def masks_in_step(one: Constraint, other: Constraint, seed: int, budget: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the legal tokens of both before each token of a text, which must end within a number of tokens.

    Args:
        one: Each token is drawn from its legal ones.
        other: The constraint to compare with, of the same vocabulary.
        seed: Decides the text.
        budget: The most tokens before EOS.
    """
    rng, vocabulary = random.Random(seed), one.vocabulary
    context = lk.Context.of([[]], vocabulary_size=vocabulary.size)
    states = [constraint.init_state(context) for constraint in (one, other)]
    for _ in range(budget + 1):
        legal, compared = (c.allowed_tokens(state)[0] for c, state in zip((one, other), states, strict=True))
        yield legal, compared
        token = rng.choice(legal.nonzero()[:, 0].tolist())
        if token in vocabulary.eos_ids:
            return
        states = [c.advance(state, torch.tensor([token])) for c, state in zip((one, other), states, strict=True)]
    pytest.fail("it has not ended")
