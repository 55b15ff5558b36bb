"""Tokens that occurred already become less likely."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from logitkit.context import Context
from logitkit.penalties.penalise import penalise_rows, penalise_tensors
from logitkit.penalties.window import checked_window
from logitkit.processor import Role, check_tokens, own_rows
from logitkit.reals import checked_real
from logitkit.tensor_path import by_tensors
from logitkit.token_history import TokenHistory

__all__ = ["RepetitionPenalty", "RepetitionState"]

# Far beyond every use, and far from where a number or its reciprocal leaves the 32 bits that logits are changed in.
LEAST, MOST = 1e-4, 1e4


class RepetitionState(NamedTuple):
    """What has been said, and how much it costs to say it again.

    Args:
        history: The tokens that count.
        penalty: [B] float64, from 1e-4 to 1e4; 1 changes nothing.
    """

    history: TokenHistory
    penalty: Tensor

    def problem(self) -> str | None:
        """Say what is impossible about values read from a file, or return None."""
        allowed = (self.penalty >= LEAST) & (self.penalty <= MOST)
        return None if bool(allowed.all()) else f"a penalty is not a number from {LEAST:g} to {MOST:g}"


@dataclass(frozen=True)
class RepetitionPenalty:
    """Divide the positive and multiply the negative logits of tokens that occurred already.

    Args:
        penalty: From 1e-4 to 1e4; above 1 discourages repetition, below 1 encourages it, 1 changes nothing.
        window: Count only so many of the last tokens, from 1 to 2**24; None counts all.
        include_prompt: Whether tokens of the prompt count. Pads never do.

    Raises:
        ConfigurationError: The penalty or the window is not a number of its range.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> penalty = lk.RepetitionPenalty(2.0)
        >>> context = lk.Context.of([[1, 2]], vocabulary_size=4)
        >>> penalty.process_logits(penalty.init_state(context), torch.tensor([[4.0, 4.0, -4.0, -4.0]]), context)[1]
        tensor([[ 4.,  2., -8., -4.]])

    Source: Keskar et al., CTRL (2019); results are those of transformers' RepetitionPenaltyLogitsProcessor.
    """

    penalty: float
    window: int | None = None
    include_prompt: bool = True

    role = Role.PENALTY

    @property
    def reads_prompt(self) -> bool:
        """Whether tokens of the prompt count."""
        return self.include_prompt

    def __post_init__(self) -> None:
        penalty = checked_real("penalty", self.penalty, LEAST, MOST, "1 changes nothing")
        object.__setattr__(self, "penalty", penalty)
        object.__setattr__(self, "window", checked_window(self.window))

    def init_state(self, context: Context) -> RepetitionState:
        """Return the state of rows that have their prompt."""
        return RepetitionState(
            TokenHistory.of(context, self.window, self.include_prompt),
            torch.full((context.batch_size,), self.penalty, dtype=torch.float64, device=context.device),
        )

    def advance(self, state: RepetitionState, tokens: Tensor) -> RepetitionState:
        """Return the state after `tokens`, [B] or [B, T] int64 with -1 for none."""
        check_tokens("RepetitionPenalty", state.penalty.shape[0], tokens)
        return state._replace(history=state.history.append(tokens))

    def process_logits(
        self, state: RepetitionState, logits: Tensor, context: Context
    ) -> tuple[RepetitionState, Tensor]:
        """Change the logits of the tokens said already, in place; those that are finite stay finite.

        Raises:
            VocabularyError: A token that counts is none of the logits' columns (on the CPU).
        """
        logits = own_rows("RepetitionPenalty", state.penalty.shape[0], logits)
        if by_tensors(logits):
            return state, penalise_tensors(state.history, state.penalty, logits)
        return state, penalise_rows(state.history, state.penalty, logits)
