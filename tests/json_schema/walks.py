"""Random walks over the tokens that masks leave, as of a model without an opinion, or of one with a bad one."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

import logitkit as lk

# Given the logits that are left, which are random or -inf, and the ids so far: the logits to choose from.
Opinion = Callable[[Tensor, list[int]], Tensor]


def no_opinion(logits: Tensor, ids: list[int]) -> Tensor:
    return logits


def walk(schema: lk.JsonSchema, seed: int, most: int, opinion: Opinion = no_opinion) -> tuple[bytes, list[int], bool]:
    """Write a text, token by token.

    Args:
        schema: The processor that masks the tokens.
        seed: The seed of the random logits.
        most: Tokens after which the walk is given up; EOS does not count.
        opinion: A further change to the logits.

    Returns:
        The text, its ids, and whether EOS followed them.
    """
    vocabulary = schema.vocabulary
    chance = torch.Generator().manual_seed(seed)
    context = lk.Context.of([[]], vocabulary_size=vocabulary.size)
    state, ids = schema.init_state(context), list[int]()
    while True:
        logits = torch.rand(1, vocabulary.size, generator=chance)
        masked = schema.process_logits(state, logits, context)[1]
        assert not schema.is_dead(state)
        assert masked.isfinite().any(), "every token is illegal"
        chosen = opinion(masked[0], ids)
        token = int(chosen.argmax())
        assert masked[0, token].isfinite(), "an opinion must not choose what is illegal"
        if token in vocabulary.eos_ids or len(ids) == most:
            return b"".join(vocabulary.tokens[i] or b"" for i in ids), ids, token in vocabulary.eos_ids
        ids.append(token)
        state = schema.advance(state, torch.tensor([token]))
