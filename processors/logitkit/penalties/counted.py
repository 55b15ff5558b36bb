"""What the penalties on how often tokens occurred have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from logitkit.context import Context
from logitkit.penalties.window import checked_window
from logitkit.processor import Role, check_tokens, own_rows
from logitkit.reals import checked_real
from logitkit.tensor_path import by_tensors
from logitkit.token_history import TokenHistory

__all__ = ["CountedPenalty", "CountedState"]

# Engines' servers allow -2 to 2; this is far beyond every use, and far from where 32 bits end, whatever the count.
MOST = 100.0


class CountedState(NamedTuple):
    """What has been said, and how much it costs to say it again.

    Args:
        history: The tokens that count.
        penalty: [B] float32, from -100 to 100; 0 changes nothing.
    """

    history: TokenHistory
    penalty: Tensor

    def problem(self) -> str | None:
        """Say what is impossible about values read from a file, or return None."""
        allowed = self.penalty.abs() <= MOST
        return None if bool(allowed.all()) else f"a penalty is not a number from {-MOST:g} to {MOST:g}"


@dataclass(frozen=True)
class CountedPenalty:
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
        # Subtracting a negative zero would change the sign of another.
        penalty = checked_real("penalty", self.penalty, -MOST, MOST, "0 changes nothing") + 0.0
        object.__setattr__(self, "penalty", penalty)
        object.__setattr__(self, "window", checked_window(self.window))

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
