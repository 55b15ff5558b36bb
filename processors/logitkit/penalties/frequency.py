"""Tokens become less likely each time that they occur."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from logitkit.penalties.counted import CountedPenalty, CountedState
from logitkit.penalties.filled_places import filled_places
from logitkit.penalties.host_logits import HostLogits
from logitkit.penalties.subtract import subtract_row, subtract_tensors
from logitkit.penalties.token_counts import counts_of

__all__ = ["FrequencyPenalty"]


@dataclass(frozen=True)
class FrequencyPenalty(CountedPenalty):
    """Subtract from the logit of each token a penalty for every time that it occurred.

    Engines differ in what they count: OpenAI and vLLM the output alone, which is the default here; llama.cpp the last tokens,
    the prompt's among them, which is `FrequencyPenalty(penalty, window=penalty_last_n, include_prompt=True)`. transformers
    has no such penalty.

    Memory is 4 bytes for each token that counts.

    Args:
        penalty: From -100 to 100 (OpenAI and vLLM allow -2 to 2); below 0 encourages repetition, 0 changes nothing.
        window: Count only so many of the last tokens, from 1 to 2**24; None counts all.
        include_prompt: Whether tokens of the prompt count. Pads never do.

    Raises:
        ConfigurationError: The penalty or the window is not a number of its range.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> penalty = lk.FrequencyPenalty(0.5)
        >>> context = lk.Context.of([[0]], vocabulary_size=4)
        >>> state = penalty.advance(penalty.init_state(context), torch.tensor([[1, 2, 2]]))
        >>> penalty.process_logits(state, torch.tensor([[4.0, 4.0, 4.0, 4.0]]), context)[1]
        tensor([[4.0000, 3.5000, 3.0000, 4.0000]])

    Source: OpenAI, API reference, `frequency_penalty`; results are those of vLLM and of llama.cpp's penalties sampler.
    """

    def penalise_rows(self, state: CountedState, logits: Tensor) -> None:
        """Lower the logits row by row, on the host."""
        host = HostLogits.of(logits)
        for row, (tokens, penalty) in enumerate(zip(state.history.rows(), state.penalty.numpy(), strict=True)):
            if len(tokens) and penalty:
                ids, counts = np.unique(tokens, return_counts=True)
                subtract_row(host, row, ids, penalty * counts.astype(np.float32))

    def penalise_tensors(self, state: CountedState, logits: Tensor) -> Tensor:
        """Lower the logits of all rows, in place; the history has room for a token at least."""
        tokens = state.history.tokens
        ids, _ = filled_places(tokens, logits.shape[1])
        return subtract_tensors(ids, state.penalty[:, None] * counts_of(ids, tokens), logits)
