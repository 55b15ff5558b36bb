"""Penalties on tokens by how often they occurred, or whether they did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np
import torch
from torch import Tensor

from logitkit.parameters import Number
from logitkit.penalties.history_logits import counts_of, filled_places, subtract_row, subtract_tensors
from logitkit.penalties.token_history import COUNTED, TokenHistory
from logitkit.protocol.calls import by_tensors, check_tokens, own_rows
from logitkit.protocol.context import Context
from logitkit.protocol.described import Described
from logitkit.protocol.kind import Kind
from logitkit.protocol.processor import Role
from logitkit.runtime.host_logits import HostLogits

__all__ = ["CountedPenalty", "CountedState", "FrequencyPenalty", "PresencePenalty"]

# Engines' servers allow -2 to 2; this is far beyond every use, and far from where 32 bits end, whatever the count.
PENALTY = Number(-100, 100, "0 changes nothing")
PARAMETERS = {"penalty": PENALTY, **COUNTED}


class CountedState(NamedTuple):
    """What has been said, and how much it costs to say it again.

    Args:
        history: The tokens that count.
        penalty: [B] float32, from -100 to 100; 0 changes nothing.
    """

    history: TokenHistory
    penalty: Annotated[Tensor, PENALTY]


@dataclass(frozen=True)
class CountedPenalty(Described):
    """A penalty on tokens by how often they occurred; subclasses say how it grows."""

    penalty: float
    window: int | None = None
    include_prompt: bool = False

    role = Role.PENALTY

    @property
    def reads_prompt(self) -> bool:
        """Whether tokens of the prompt count."""
        return self.include_prompt

    def __post_init__(self) -> None:
        super().__post_init__()
        # Subtracting a negative zero would change the sign of another.
        object.__setattr__(self, "penalty", self.penalty + 0.0)

    def init_state(self, context: Context) -> CountedState:
        """Return the state of rows that have their prompt."""
        return CountedState(
            TokenHistory.of(context, self.window, self.include_prompt),
            torch.full((context.batch_size,), self.penalty, dtype=torch.float32, device=context.device),
        )

    def advance(self, state: CountedState, tokens: Tensor) -> CountedState:
        """Return the state after `tokens`, [B] or [B, T] int64 with -1 for none."""
        check_tokens(type(self).__name__, state.penalty.shape[0], tokens)
        return state._replace(history=state.history.append(tokens))

    def process_logits(self, state: CountedState, logits: Tensor, context: Context) -> tuple[CountedState, Tensor]:
        """Lower the logits of the tokens said already, in place; those that are finite stay finite.

        Raises:
            VocabularyError: A token that counts is none of the logits' columns (on the CPU).
        """
        logits = own_rows(type(self).__name__, state.penalty.shape[0], logits)
        if not by_tensors(logits):
            self.penalise_rows(state, logits)
        elif state.history.tokens.shape[1]:
            logits = self.penalise_tensors(state, logits)
        return state, logits

    def penalise_rows(self, state: CountedState, logits: Tensor) -> None:
        """Lower the logits row by row, on the host."""
        raise NotImplementedError

    def penalise_tensors(self, state: CountedState, logits: Tensor) -> Tensor:
        """Lower the logits of all rows, in place; the history has room for a token at least."""
        raise NotImplementedError


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

    kind = Kind("frequency_penalty", PARAMETERS, main="penalty", order=20, neutral={"penalty": 0.0, "window": 1})
    may_empty_rows = False

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


@dataclass(frozen=True)
class PresencePenalty(CountedPenalty):
    """Subtract a penalty from the logit of each token that occurred, once, however often it did.

    Engines differ in what they count: OpenAI and vLLM the output alone, which is the default here; llama.cpp the last tokens,
    the prompt's among them, which is `PresencePenalty(penalty, window=penalty_last_n, include_prompt=True)`. transformers
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
        >>> penalty = lk.PresencePenalty(0.5)
        >>> context = lk.Context.of([[0]], vocabulary_size=4)
        >>> state = penalty.advance(penalty.init_state(context), torch.tensor([[1, 2, 2]]))
        >>> penalty.process_logits(state, torch.tensor([[4.0, 4.0, 4.0, 4.0]]), context)[1]
        tensor([[4.0000, 3.5000, 3.5000, 4.0000]])

    Source: OpenAI, API reference, `presence_penalty`; results are those of vLLM and of llama.cpp's penalties sampler.
    """

    kind = Kind("presence_penalty", PARAMETERS, main="penalty", order=30, neutral={"penalty": 0.0, "window": 1})
    may_empty_rows = False

    def penalise_rows(self, state: CountedState, logits: Tensor) -> None:
        """Lower the logits row by row, on the host."""
        host = HostLogits.of(logits)
        for row, (tokens, penalty) in enumerate(zip(state.history.rows(), state.penalty.numpy(), strict=True)):
            if len(tokens) and penalty:
                subtract_row(host, row, tokens, penalty)

    def penalise_tensors(self, state: CountedState, logits: Tensor) -> Tensor:
        """Lower the logits of all rows, in place; the history has room for a token at least."""
        ids, some = filled_places(state.history.tokens, logits.shape[1])
        return subtract_tensors(ids, torch.where(some, state.penalty[:, None], 0.0).expand(ids.shape), logits)
