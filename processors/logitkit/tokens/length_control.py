"""LengthControl: EOS becomes more or less likely with the length, by a power of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple, Self

import torch
from torch import Tensor

from logitkit.parameters import Integer, TokenIds
from logitkit.protocol.calls import check_tokens, count_tokens
from logitkit.protocol.context import Context
from logitkit.protocol.described import per_row
from logitkit.protocol.kind import Kind, Role
from logitkit.protocol.state import Fill
from logitkit.runtime.host_logits import HostAndDevice, HostLogits
from logitkit.runtime.latest_tokens import with_tokens
from logitkit.tokens.bias import BIAS
from logitkit.tokens.id_lists import id_tensor, listed_rows
from logitkit.tokens.raised import raise_row, raise_tensors
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["LengthControl", "LengthControlState"]

POWER = Integer(0, 16)

# A greater amount has no room in 32 bits.
MOST = 3e38


class LengthControlState(NamedTuple):
    """The length of each row, and how it counts.

    Args:
        eos_ids: [B, N] int32, ascending, padded with -1 at the end.
        sentence_ends: [B, M] int32, ascending, padded with -1 at the end; a row without any is raised after each token.
        length: [B] int64, the number of output tokens.
        latest: [B, 1] int32, the last token of the output, or -1.
        ended: [B] bool, whether one of the ids has occurred in the output.
        boost: [B] float64, from -1e4 to 1e4; 0 changes nothing.
        power: [B] int64, from 0 to 16.
    """

    eos_ids: Annotated[Tensor, Fill(-1), TokenIds()]
    sentence_ends: Annotated[Tensor, Fill(-1), TokenIds()]
    length: Annotated[Tensor, Integer(0, 2**63 - 1)]
    latest: Tensor
    ended: Tensor
    boost: Annotated[Tensor, BIAS]
    power: Annotated[Tensor, POWER]

    def problem(self) -> str | None:
        """Describe an impossible value in a state read from a file, or return None."""
        return None if self.latest.shape[1] == 1 else "it has more than one last token"


@dataclass(frozen=True)
class LengthControl(HostAndDevice[LengthControlState]):
    """Add boost · (n / 10)^power to the logit of EOS after n output tokens, until it has occurred.

    For `</think>` in place of EOS, pass its id: then the reasoning becomes shorter or longer. Finite logits stay finite.

    Args:
        boost: From -1e4 to 1e4; above 0 makes texts shorter, below 0 longer. The zoo suggests -1 to 1.
        eos_ids: The id or ids to raise, at least one.
        power: From 0 to 16.
        sentence_ends: If there are any ids, EOS is raised only directly after one of them, such as those of `.` and a line break.

    Raises:
        ConfigurationError: A number or an id is not in range, or there are no `eos_ids`.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> shorter = lk.LengthControl(0.5, eos_ids=[3])
        >>> context = lk.Context.of([[0]], vocabulary_size=4)
        >>> state = shorter.advance(shorter.init_state(context), torch.ones(1, 20, dtype=torch.int64))
        >>> shorter.process_logits(state, torch.zeros(1, 4), context)[1]
        tensor([[0., 0., 0., 2.]])

    Source: GenLengthLogitsProcessor of NVIDIA's logits-processor-zoo, which returns the same results.
    """

    boost: float
    eos_ids: Sequence[int] | int
    power: int = 2
    sentence_ends: Sequence[int] = ()

    role = Role.BIAS
    kind = Kind(
        "length_control",
        {
            "boost": BIAS,
            "eos_ids": TokenIds(alone=True),
            "power": POWER,
            "sentence_ends": TokenIds(least=0),
        },
        main="boost",
        order=30,
        neutral={"boost": 0.0, "eos_ids": (0,)},
    )
    may_empty_rows = False

    @classmethod
    def configured(
        cls,
        boost: float,
        vocabulary: Vocabulary,
        eos_ids: Sequence[int] | None = None,
        power: int = 2,
        sentence_ends: Sequence[int] = (),
    ) -> Self:
        """Create one from a configuration, which may leave out the EOS ids: then they are those of the vocabulary."""
        return cls(boost, vocabulary.eos_ids if eos_ids is None else eos_ids, power, sentence_ends)

    def init_state(self, context: Context) -> LengthControlState:
        """Return the initial state of the rows."""
        rows, device = context.batch_size, context.device
        return LengthControlState(
            id_tensor([self.eos_ids] * rows, device),  # type: ignore[list-item]
            id_tensor([self.sentence_ends] * rows, device),
            per_row(context, 0),
            torch.full((rows, 1), -1, dtype=torch.int32, device=device),
            torch.zeros(rows, dtype=torch.bool, device=device),
            per_row(context, self.boost),
            per_row(context, self.power),
        )

    def advance(self, state: LengthControlState, tokens: Tensor) -> LengthControlState:
        """Return the state after `tokens`, [B] or [B, T] int64 with -1 for none."""
        check_tokens("LengthControl", state.length.shape[0], tokens)
        given = tokens if tokens.dim() == 2 else tokens[:, None]
        ends = ((given[..., None] == state.eos_ids[:, None]) & (given[..., None] >= 0)).flatten(1).any(1)
        return state._replace(
            length=state.length + count_tokens(tokens),
            latest=with_tokens(state.latest, tokens, torch.ones_like(state.length)),
            ended=state.ended | ends,
        )

    def _by_rows(self, state: LengthControlState, logits: Tensor) -> Tensor:
        host, amounts = HostLogits.of(logits), _amounts(state).tolist()
        for row, ids in listed_rows(state.eos_ids):
            raise_row(host, row, ids, amounts[row])
        return logits

    def _by_tensors(self, state: LengthControlState, logits: Tensor) -> Tensor:
        return raise_tensors(logits, state.eos_ids, _amounts(state))


def _amounts(state: LengthControlState) -> Tensor:
    """Return the number to add to the logits of EOS, [B] float64."""
    found = ((state.latest == state.sentence_ends) & (state.latest >= 0)).any(1)
    raised = (found | (state.sentence_ends < 0).all(1)) & ~state.ended
    power = state.power.double()
    amount = (state.boost * state.length.double() ** power / 10.0**power).clamp(-MOST, MOST)
    return torch.where(raised, amount, 0.0)
