"""ForcedEos: EOS is the last token that the budget of a row allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np
import torch
from torch import Tensor

from logitkit.parameters import Either, Integer, Null, TokenIds
from logitkit.parameters.numbers import LARGEST
from logitkit.protocol.calls import check_tokens, count_tokens
from logitkit.protocol.context import Context
from logitkit.protocol.described import per_row
from logitkit.protocol.kind import Kind, Role
from logitkit.protocol.state import Fill
from logitkit.runtime.host_logits import HostAndDevice, HostLogits
from logitkit.runtime.tensor_logits import Places
from logitkit.tokens.id_lists import id_tensor, listed_rows
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["ForcedEos", "ForcedEosState"]

# A budget without an end: it is not counted down.
NO_LIMIT = LARGEST

# The row has had EOS.
ENDED = -1


class ForcedEosState(NamedTuple):
    """How many tokens are left to each row before EOS is forced.

    Args:
        eos_ids: [B, N] int32, ascending, padded with -1 at the end.
        left: [B] int64, the number of tokens before EOS is forced; 0 if it is forced now, -1 after EOS, 2**31 - 1 if the row has
            no limit.
    """

    eos_ids: Annotated[Tensor, Fill(-1), TokenIds()]
    left: Annotated[Tensor, Integer(ENDED)]


@dataclass(frozen=True)
class ForcedEos(HostAndDevice[ForcedEosState]):
    """Force EOS as the last token before the token limit, and after EOS allow only EOS.

    The limit is `max_new_tokens`. If that is None, it is `Context.max_length` (or `Context.max_lengths`) without the prompt. If
    neither is known, EOS is not forced; a hook of an engine that does not pass the limit warns about that when it is created.

    EOS keeps its logit. If all EOS ids are at -inf, because an earlier mask does not allow the text to end, the one with
    the lowest id gets the logit 0. So in a `chain` the row always ends in time, and `Chain.conflicts` reports the rows in which
    another constraint did not allow that.

    Args:
        eos_ids: Id or ids that end a row, at least one.
        max_new_tokens: The maximum number of output tokens, including EOS, from 1; or None for what the engine allows.

    Raises:
        ConfigurationError: `max_new_tokens` or an id is not an integer in range, or there are no ids.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> ending = lk.ForcedEos(eos_ids=[3], max_new_tokens=2)
        >>> context = lk.Context.of([[0, 1]], vocabulary_size=4)
        >>> state = ending.init_state(context)
        >>> ending.process_logits(state, torch.ones(1, 4), context)[1]
        tensor([[1., 1., 1., 1.]])
        >>> ending.process_logits(ending.advance(state, torch.tensor([2])), torch.ones(1, 4), context)[1]
        tensor([[-inf, -inf, -inf, 1.]])

    Source: transformers' ForcedEOSTokenLogitsProcessor, which allows the same tokens but sets the logits of EOS to 0.
    """

    eos_ids: Sequence[int] | int
    max_new_tokens: int | None = None

    role = Role.CONSTRAINT
    # After all other constraints, so that no mask comes after the forced EOS.
    kind = Kind(
        "forced_eos",
        {"max_new_tokens": Either((Integer(1), Null())), "eos_ids": TokenIds(alone=True)},
        main="max_new_tokens",
        order=150,
    )
    may_empty_rows = False

    @classmethod
    def configured(
        cls, vocabulary: Vocabulary, max_new_tokens: int | None = None, eos_ids: Sequence[int] | None = None
    ) -> ForcedEos:
        """Create one from a configuration, which may leave out the EOS ids: then they are those of the vocabulary."""
        return cls(vocabulary.eos_ids if eos_ids is None else eos_ids, max_new_tokens)

    @property
    def reads_max_length(self) -> bool:
        """Whether the maximum number of tokens of a row matters."""
        return self.max_new_tokens is None

    @classmethod
    def neutral_state(cls, context: Context) -> ForcedEosState:
        """Return the state of rows that it leaves unchanged."""
        return ForcedEosState(id_tensor([()] * context.batch_size, context.device), per_row(context, NO_LIMIT))

    def init_state(self, context: Context) -> ForcedEosState:
        """Return the initial state of the rows."""
        if self.max_new_tokens is not None:
            left = per_row(context, self.max_new_tokens - 1)
        elif context.limits is None:
            left = per_row(context, NO_LIMIT)
        else:
            left = (context.limits - context.prompt_lengths - 1).clamp(0, NO_LIMIT)
        ids = id_tensor([self.eos_ids] * context.batch_size, context.device)  # type: ignore[list-item]
        return ForcedEosState(ids, left)

    def advance(self, state: ForcedEosState, tokens: Tensor) -> ForcedEosState:
        """Return the state after `tokens`, [B] or [B, T] int64 with -1 for none."""
        check_tokens("ForcedEos", state.left.shape[0], tokens)
        real = tokens[..., None] >= 0
        ids = state.eos_ids[:, None] if tokens.dim() == 2 else state.eos_ids
        ends = (real & (tokens[..., None] == ids)).any(-1)
        return self.advance_until_end(state, tokens, ends)

    def advance_until_end(self, state: ForcedEosState, tokens: Tensor, ends: Tensor) -> ForcedEosState:
        """Return the state after `tokens` in a chain, in which some of them, [B] or [B, T] bool, end their rows."""
        left = torch.where(state.left < NO_LIMIT, (state.left - count_tokens(tokens)).clamp(min=0), state.left)
        ended = (ends.any(1) if ends.dim() == 2 else ends) & (state.eos_ids >= 0).any(1)
        return state._replace(left=torch.where(ended | (state.left < 0), ENDED, left))

    def finish(self, state: ForcedEosState, rows: Tensor) -> ForcedEosState:
        """Return a state in which some rows, [B] bool, have had EOS."""
        return state._replace(left=torch.where(rows, ENDED, state.left))

    def is_finished(self, state: ForcedEosState) -> Tensor:
        """Return [B] bool, whether each row has had EOS."""
        return state.left < 0

    def _by_rows(self, state: ForcedEosState, logits: Tensor) -> Tensor:
        host = HostLogits.of(logits)
        for row, ids in listed_rows(_forced(state)):
            given = host.read(row, ids)
            host.keep(row, ids)
            missing = np.isnan(given)
            if missing.any():
                host.ban(row, ids[missing])
            if (missing | (given == -np.inf)).all():
                logits[row, int(ids[0])] = 0
        return logits

    def _by_tensors(self, state: ForcedEosState, logits: Tensor) -> Tensor:
        if state.eos_ids.shape[1] == 0:
            return logits
        forced = _forced(state)
        places = Places.of(forced, logits.shape[1])
        kept = logits.gather(1, places.at)
        kept = torch.where(kept.isnan(), -torch.inf, kept)
        # A place without its own id repeats the first one, so its value must too.
        kept = torch.where(kept.isneginf().all(1, keepdim=True) & (places.source == 0), 0.0, kept)
        only = torch.full_like(logits, -torch.inf).scatter_(1, places.at, kept)
        return torch.where(forced[:, :1] >= 0, torch.where(places.some, only, -torch.inf), logits)


def _forced(state: ForcedEosState) -> Tensor:
    """Return the EOS ids of the rows that must end or have ended, [B, N], -1 elsewhere."""
    return torch.where(state.left[:, None] <= 0, state.eos_ids, -1)
