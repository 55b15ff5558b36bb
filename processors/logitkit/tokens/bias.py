"""LogitBias: make some tokens more or less likely."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, NamedTuple

import numpy as np
import torch
from torch import Tensor

from logitkit.errors import ConfigurationError
from logitkit.parameters import ByToken, Number, TokenIds
from logitkit.parameters.scalars import as_real
from logitkit.parameters.token_ids import checked_id
from logitkit.protocol.context import Context
from logitkit.protocol.kind import Kind, Role
from logitkit.protocol.state import Fill
from logitkit.runtime.host_logits import HostAndDevice, HostLogits, filled
from logitkit.runtime.tensor_logits import Places, finite_tensors
from logitkit.tokens.id_lists import id_tensor

if TYPE_CHECKING:
    from logitkit.kernels.joined_lists import TokenList

__all__ = ["BiasState", "LogitBias"]

# Far beyond every use (servers allow -100 to 100), and too little to overflow 16 bits.
BIAS = Number(-1e4, 1e4)


class BiasState(NamedTuple):
    """The biases of each row.

    Args:
        ids: [B, N] int32, ascending, padded with -1 at the end.
        bias: [B, N] float32, from -1e4 to 1e4.
    """

    ids: Annotated[Tensor, Fill(-1), TokenIds()]
    bias: Annotated[Tensor, Fill(0.0), BIAS]

    def problem(self) -> str | None:
        """Describe an impossible value in a state read from a file, or return None."""
        if self.ids.shape != self.bias.shape:
            return f"there are {list(self.ids.shape)} ids, but {list(self.bias.shape)} biases"
        return None


@dataclass(frozen=True)
class LogitBias(HostAndDevice[BiasState]):
    """Add a constant to the logits of some tokens, in 32 bits; finite logits stay finite.

    Args:
        bias: The number to add, by token id: from -1e4 to 1e4. 100 or -100 is decisive in practice, 0 changes nothing.

    Raises:
        ConfigurationError: `bias` is not a mapping, an id is not an integer from 0 to 2**31 - 1, or a number is not in range.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> bias = lk.LogitBias({0: 5.0, 2: -1.0})
        >>> context = lk.Context.of([[]], vocabulary_size=4)
        >>> bias.process_logits(bias.init_state(context), torch.tensor([[1.0, 2.0, 3.0, 4.0]]), context)[1]
        tensor([[6., 2., 2., 4.]])

    Source: `logit_bias` of the OpenAI API, as vLLM computes it.
    """

    bias: Mapping[int, float]

    role = Role.BIAS
    kind = Kind("logit_bias", {"bias": ByToken(BIAS)}, main="bias", order=5, bare=True, neutral={"bias": {}})
    may_empty_rows = False

    def __post_init__(self) -> None:
        if not isinstance(self.bias, Mapping):
            raise ConfigurationError(f"bias is {self.bias!r}; give a mapping from token ids to numbers")
        checked = {checked_id("bias", i): _checked(i, number) for i, number in self.bias.items()}
        object.__setattr__(self, "bias", dict(sorted(checked.items())))

    def __hash__(self) -> int:
        return hash(tuple(self.bias.items()))

    def init_state(self, context: Context) -> BiasState:
        """Return the initial state of the rows."""
        # Zeros are left out: adding one would change the sign of a negative zero.
        some, rows = {i: number for i, number in self.bias.items() if number != 0}, context.batch_size
        bias = torch.tensor([list(some.values())] * rows, dtype=torch.float32, device=context.device)
        return BiasState(id_tensor([list(some)] * rows, context.device), bias.reshape(rows, len(some)))

    def _by_rows(self, state: BiasState, logits: Tensor) -> Tensor:
        host, lists = HostLogits.of(logits), state.ids.numpy()
        row, places = filled(lists >= 0)
        ids = lists[places]
        given = host.read(row, ids)
        with np.errstate(over="ignore"):
            host.write(row, ids, given, given + state.bias.numpy()[places])
        return logits

    def _by_kernel(self, state: BiasState, logits: Tensor) -> bool:
        from logitkit.kernels.listed_step import Change, listed_step

        return listed_step(Change.ADD, state.ids, logits, amounts=state.bias)

    def _stage(self, state: BiasState) -> TokenList:
        from logitkit.kernels.joined_lists import TokenList
        from logitkit.kernels.listed_step import Change

        return TokenList(Change.ADD, state.ids, state.bias)

    def _by_tensors(self, state: BiasState, logits: Tensor) -> Tensor:
        if state.ids.shape[1] == 0:
            return logits
        places = Places.of(state.ids, logits.shape[1])
        wide = torch.promote_types(logits.dtype, torch.float32)
        given = logits.gather(1, places.at).to(wide)
        added = torch.where(places.some, state.bias.gather(1, places.source).to(wide), 0.0)
        changed = finite_tensors(given, given + added, logits.dtype)
        return logits.scatter_(1, places.at, torch.where(places.some, changed, given.to(logits.dtype)))


def _checked(token: object, given: object) -> float:
    number = as_real(given)
    if number is None or not BIAS.least <= number <= BIAS.most:
        advice = "; to ban a token, use BanTokens" if number == -math.inf else ""
        raise ConfigurationError(
            f"bias of token {token!r} is {given!r}; allowed are numbers from {BIAS.least:g} to {BIAS.most:g}{advice}"
        )
    return number
