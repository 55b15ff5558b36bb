"""Tokens that occurred already become less likely."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np
import torch
from torch import Tensor

from logitkit.parameters import Number
from logitkit.penalties.history_logits import filled_places, finite_tensors
from logitkit.penalties.token_history import COUNTED, TokenHistory
from logitkit.protocol.calls import by_tensors, check_tokens, own_rows
from logitkit.protocol.context import Context
from logitkit.protocol.described import Described
from logitkit.protocol.kind import Kind
from logitkit.protocol.processor import Role
from logitkit.runtime.host_logits import HostLogits

__all__ = ["RepetitionPenalty", "RepetitionState", "penalise_tensors"]

# Far beyond every use, and far from where a number or its reciprocal leaves the 32 bits that logits are changed in.
PENALTY = Number(1e-4, 1e4, "1 changes nothing")


class RepetitionState(NamedTuple):
    """What has been said, and how much it costs to say it again.

    Args:
        history: The tokens that count.
        penalty: [B] float64, from 1e-4 to 1e4; 1 changes nothing.
    """

    history: TokenHistory
    penalty: Annotated[Tensor, PENALTY]


@dataclass(frozen=True)
class RepetitionPenalty(Described):
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
    kind = Kind(
        "repetition_penalty",
        {"penalty": PENALTY, **COUNTED},
        main="penalty",
        order=10,
        neutral={"penalty": 1.0, "window": 1, "include_prompt": False},
    )
    may_empty_rows = False

    @property
    def reads_prompt(self) -> bool:
        """Whether tokens of the prompt count."""
        return self.include_prompt

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


def penalise_tensors(history: TokenHistory, penalty: Tensor, logits: Tensor) -> Tensor:
    """Change the logits of all tokens of the histories, in place.

    Args:
        history: The tokens of B rows.
        penalty: [B] float64.
        logits: [B, V] floating point.
    """
    if history.tokens.shape[1] == 0:
        return logits
    ids, some = filled_places(history.tokens, logits.shape[1])
    wide = torch.promote_types(logits.dtype, torch.float32)
    number = torch.where(some, penalty[:, None], 1.0).to(wide)
    said = logits.gather(1, ids).to(wide)
    changed = torch.where(said < 0, said * number, said / number)
    return logits.scatter_(1, ids, finite_tensors(said, changed, logits.dtype))


def penalise_rows(history: TokenHistory, penalty: Tensor, logits: Tensor) -> Tensor:
    """Change the logits of all tokens of the histories, in place; for the arguments see `penalise_tensors`.

    Only the places in use are looked at.

    Raises:
        VocabularyError: A token is none of the columns.
    """
    host = HostLogits.of(logits)
    with np.errstate(over="ignore"):
        for row, (ids, number) in enumerate(zip(history.rows(), penalty.tolist(), strict=True)):
            if len(ids) and number != 1:
                said = host.read(row, ids)
                host.write(row, ids, said, np.where(said < 0, said * number, said / number))
    return logits
