"""What `Dry` remembers, and what it does to logits, row by row on the host or by tensors alone."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
import torch
from torch import Tensor

from logitkit.penalties.breakers import Breakers, HostBreakers
from logitkit.penalties.history_logits import finite_tensors, subtract_row
from logitkit.penalties.repeats import repeat_ends, repeat_lengths, repeats_tensors
from logitkit.penalties.token_history import TokenHistory
from logitkit.protocol.state import Fill
from logitkit.runtime.host_logits import HostLogits

__all__ = ["DryState", "discourage_rows", "discourage_tensors"]


class DryState(NamedTuple):
    """What has been said, what breaks a repeat, and what a repeat costs.

    Args:
        history: The tokens that count.
        breakers: What breaks a repeat.
        penalties: [B, L] float32, the penalty on continuing a repeat, by its length in tokens; it never falls.
        longest: [B] int64, the length at which penalties stop to grow, less than L; longer repeats count as so long.
    """

    history: TokenHistory
    breakers: Breakers
    penalties: Annotated[Tensor, Fill(0)]
    longest: Tensor

    def problem(self) -> str | None:
        """Say what is impossible about values read from a file, or return None."""
        if not bool((self.penalties.isfinite() & (self.penalties >= 0)).all()):
            return "a penalty is not a number from 0"
        allowed = (self.longest >= 0) & (self.longest < self.penalties.shape[1])
        return None if bool(allowed.all()) else "a length has no penalty"


def discourage_rows(state: DryState, logits: Tensor) -> None:
    """Lower the logits of tokens that would continue a repeat, in place on the host.

    Args:
        state: The state of B rows.
        logits: [B, V] floating point.

    Raises:
        VocabularyError: Such a token is none of the columns.
    """
    host, penalties = HostLogits.of(logits), state.penalties.numpy()
    breakers = HostBreakers.rows(state.breakers)
    # The shortest repeats that cost something.
    shortest = (penalties > 0).argmax(1).tolist()
    for row, (tokens, longest, least) in enumerate(
        zip(state.history.ordered_rows(), state.longest.tolist(), shortest, strict=True)
    ):
        penalty = penalties[row]
        if len(tokens) < max(least, 1) + 1 or penalty[longest] == 0:
            continue
        ends = repeat_ends(tokens, least)
        if not len(ends):
            continue
        most = min(breakers[row].limit(tokens), longest)
        if most < least:
            continue
        amount = penalty[repeat_lengths(tokens, ends, least, most)]
        ids = tokens[ends + 1]
        costs = ~breakers[row].is_single(ids)
        if costs.any():
            ids, amount = ids[costs], amount[costs]
            # The longest repeat that a token would continue is written last.
            order = np.argsort(amount, kind="stable")
            subtract_row(host, row, ids[order], amount[order])


def discourage_tensors(state: DryState, logits: Tensor) -> Tensor:
    """Lower the logits of tokens that would continue a repeat, in place; for the arguments see `discourage_rows`."""
    latest = state.history.latest_tensors()
    if latest.shape[1] < 2:
        return logits
    length = repeats_tensors(latest, state.penalties.shape[1] - 1)
    length = torch.minimum(length, state.breakers.limit_tensors(latest)).minimum(state.longest[:, None])
    # The oldest token has none before it that could be repeated.
    oldest = torch.nn.functional.pad(latest[:, 1:], (0, 1), value=-1) < 0
    costs = ~oldest & ~state.breakers.is_single_tensors(latest) & (latest < logits.shape[1])
    amount = torch.where(costs, state.penalties.gather(1, length), 0.0)
    ids = torch.where(costs, latest, 0).to(torch.int64)
    wide = torch.promote_types(logits.dtype, torch.float32)
    said = logits.gather(1, ids).to(wide)
    # Of several repeats that a token would continue, the longest counts.
    return logits.scatter_reduce_(1, ids, finite_tensors(said, said - amount, logits.dtype), "amin")
