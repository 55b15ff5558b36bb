"""LengthDecay: EOS becomes more likely with each token, exponentially."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, NamedTuple

import numpy as np
import torch
from torch import Tensor

from logitkit.parameters import Integer, Number, TokenIds
from logitkit.protocol.calls import check_tokens, count_tokens
from logitkit.protocol.context import Context
from logitkit.protocol.described import per_row
from logitkit.protocol.kind import Kind, Role
from logitkit.protocol.state import Fill
from logitkit.runtime.host_logits import HostAndDevice, HostLogits
from logitkit.runtime.tensor_logits import finite_tensors
from logitkit.tokens.id_lists import id_tensor, listed_rows
from logitkit.vocabulary.vocabulary import Vocabulary

if TYPE_CHECKING:
    from typing import Self

__all__ = ["LengthDecay", "LengthDecayState"]

FACTOR = Number(1e-4, 1e4, "1 changes nothing")

# A power beyond this one has no room in 32 bits, and the logit is the greatest number anyway.
MOST = 3e38


class LengthDecayState(NamedTuple):
    """How far each row is from the length at which the decay begins.

    Args:
        eos_ids: [B, N] int32, ascending, padded with -1 at the end.
        past: [B] int64, the number of output tokens since then; negative before.
        factor: [B] float64, from 1e-4 to 1e4; 1 changes nothing.
    """

    eos_ids: Annotated[Tensor, Fill(-1), TokenIds()]
    past: Annotated[Tensor, Integer(-(2**31), 2**63 - 1)]
    factor: Annotated[Tensor, FACTOR]


@dataclass(frozen=True)
class LengthDecay(HostAndDevice[LengthDecayState]):
    """After a number of tokens, raise the logit of EOS more with each token: by |logit| · (factor^k - 1) at token k.

    Finite logits stay finite, and an EOS at -inf stays there.

    Args:
        start: The number of output tokens after which it begins, from 0 to 2**31 - 1.
        factor: From 1e-4 to 1e4; 1 changes nothing, 1.01 to 1.6 is usual. Below 1, EOS becomes less likely.
        eos_ids: The id or ids that end a row, at least one.

    Raises:
        ConfigurationError: An argument is not a number in range, or there are no ids.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> ending = lk.LengthDecay(1, 1.5, eos_ids=[3])
        >>> context = lk.Context.of([[0]], vocabulary_size=4)
        >>> state = ending.advance(ending.init_state(context), torch.tensor([[1, 2, 1]]))  # two more than one
        >>> ending.process_logits(state, torch.tensor([[4.0, 4.0, 4.0, -2.0]]), context)[1]
        tensor([[4.0000, 4.0000, 4.0000, 0.5000]])

    Source: transformers' ExponentialDecayLengthPenalty, which returns the same results as long as they are finite.
    """

    start: int
    factor: float
    eos_ids: Sequence[int] | int

    role = Role.PENALTY
    # After the penalties on repetition, whose results it raises.
    kind = Kind(
        "length_decay",
        {"start": Integer(0), "factor": FACTOR, "eos_ids": TokenIds(alone=True)},
        order=90,
        neutral={"start": 0, "factor": 1.0, "eos_ids": (0,)},
    )
    may_empty_rows = False

    @classmethod
    def configured(
        cls, start: int, factor: float, vocabulary: Vocabulary, eos_ids: Sequence[int] | None = None
    ) -> Self:
        """Create one from a configuration, which may leave out the EOS ids: then they are those of the vocabulary."""
        return cls(start, factor, vocabulary.eos_ids if eos_ids is None else eos_ids)

    def init_state(self, context: Context) -> LengthDecayState:
        """Return the initial state of the rows."""
        ids = id_tensor([self.eos_ids] * context.batch_size, context.device)  # type: ignore[list-item]
        return LengthDecayState(ids, per_row(context, -self.start), per_row(context, self.factor))

    def advance(self, state: LengthDecayState, tokens: Tensor) -> LengthDecayState:
        """Return the state after `tokens`, [B] or [B, T] int64 with -1 for none."""
        check_tokens("LengthDecay", state.past.shape[0], tokens)
        return state._replace(past=state.past + count_tokens(tokens))

    def _by_rows(self, state: LengthDecayState, logits: Tensor) -> Tensor:
        host, pasts, factors = HostLogits.of(logits), state.past.tolist(), state.factor.tolist()
        for row, ids in listed_rows(state.eos_ids):
            past, factor = pasts[row], factors[row]
            if past > 0 and factor != 1:
                given = host.read(row, ids)
                amount = np.where(np.isfinite(given), np.abs(given), 0)
                with np.errstate(over="ignore"):
                    raised = given + amount * given.dtype.type(min(np.float64(factor) ** past, MOST) - 1)
                host.write(row, ids, given, raised)
        return logits

    def _by_tensors(self, state: LengthDecayState, logits: Tensor) -> Tensor:
        return self.reshaped(state, logits)

    def reshaped(self, state: LengthDecayState, logits: Tensor) -> Tensor:
        """Return the processed logits, which have a gradient if the given ones have."""
        columns = torch.arange(logits.shape[1], device=logits.device)
        is_eos = torch.zeros(logits.shape, dtype=torch.bool, device=logits.device)
        # One by one: each row has few.
        for place in range(state.eos_ids.shape[1]):
            is_eos = is_eos | (columns == state.eos_ids[:, place, None])
        wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
        amount = torch.where(wide.isfinite(), wide, 0.0).abs()
        raised = finite_tensors(wide, wide + amount * _raises(state).to(wide.dtype)[:, None], logits.dtype)
        return torch.where(is_eos & _active(state)[:, None], raised, logits)


def _active(state: LengthDecayState) -> Tensor:
    return (state.past > 0) & (state.factor != 1)


def _raises(state: LengthDecayState) -> Tensor:
    """Return the part of its amount by which the logit of EOS rises in each row, [B] float64."""
    return (state.factor ** state.past.clamp(min=0)).clamp(max=MOST) - 1
