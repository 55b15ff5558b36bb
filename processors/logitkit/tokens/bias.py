"""Some tokens likelier or less likely, by a constant."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np
import torch
from torch import Tensor

from logitkit.errors import ConfigurationError
from logitkit.parameters import ByToken, Number, TokenIds
from logitkit.parameters.reals import as_real
from logitkit.parameters.token_ids import checked_id
from logitkit.protocol.calls import by_tensors, check_tokens, own_rows
from logitkit.protocol.context import Context
from logitkit.protocol.described import Described
from logitkit.protocol.kind import Kind
from logitkit.protocol.processor import Role
from logitkit.protocol.state import Fill
from logitkit.runtime.host_logits import HostLogits
from logitkit.tokens.id_lists import Places, id_tensor, listed_rows

__all__ = ["BiasState", "LogitBias"]

# Far beyond every use (servers take -100 to 100), and far from where 16 bits overflow.
BIAS = Number(-1e4, 1e4)


class BiasState(NamedTuple):
    """What is added to which logits.

    Args:
        ids: [B, N] int32, rising, padded with -1 at the end. A row without any is left as it is.
        bias: [B, N] float32, from -1e4 to 1e4.
    """

    ids: Annotated[Tensor, Fill(-1), TokenIds()]
    bias: Annotated[Tensor, Fill(0.0), BIAS]

    def problem(self) -> str | None:
        """Say what is impossible about values read from a file, or return None."""
        if self.ids.shape != self.bias.shape:
            return f"there are {list(self.ids.shape)} ids, but {list(self.bias.shape)} biases"
        return None


@dataclass(frozen=True)
class LogitBias(Described):
    """Add a constant to the logits of some tokens, in 32 bits; those that are finite stay finite.

    Args:
        bias: What to add, by token id: numbers from -1e4 to 1e4 (100 decides in practice). 0 changes nothing.

    Raises:
        ConfigurationError: `bias` is no mapping, an id is no integer from 0 to 2**31 - 1, or a number is out of range.

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
    kind = Kind("logit_bias", {"bias": ByToken(BIAS)}, main="bias", bare=True, neutral={"bias": {}})
    may_empty_rows = False

    def __post_init__(self) -> None:
        if not isinstance(self.bias, Mapping):
            raise ConfigurationError(f"bias is {self.bias!r}; give a mapping from token ids to numbers")
        checked = {checked_id("bias", i): _checked(i, number) for i, number in self.bias.items()}
        object.__setattr__(self, "bias", dict(sorted(checked.items())))

    def __hash__(self) -> int:
        return hash(tuple(self.bias.items()))

    def init_state(self, context: Context) -> BiasState:
        """Return the state of rows that have their prompt."""
        # What is not added need not be looked at, and keeps a zero's sign.
        some = {i: number for i, number in self.bias.items() if number != 0}
        bias = torch.tensor([list(some.values())] * context.batch_size, dtype=torch.float32, device=context.device)
        return BiasState(
            id_tensor([list(some)] * context.batch_size, context.device), bias.reshape(context.batch_size, len(some))
        )

    def advance(self, state: BiasState, tokens: Tensor) -> BiasState:
        """Return the state, which stays as it is."""
        check_tokens("LogitBias", state.ids.shape[0], tokens)
        return state

    def process_logits(self, state: BiasState, logits: Tensor, context: Context) -> tuple[BiasState, Tensor]:
        """Add to the logits of the ids, in place.

        Raises:
            VocabularyError: An id is none of the logits' columns (on the CPU).
        """
        logits = own_rows("LogitBias", state.ids.shape[0], logits)
        if state.ids.shape[1] == 0:
            return state, logits
        return state, (_by_tensors if by_tensors(logits) else _by_rows)(state, logits)


def _checked(token: object, given: object) -> float:
    number = as_real(given)
    if number is None or not BIAS.least <= number <= BIAS.most:
        advice = "; to ban a token, use BanTokens" if number == -math.inf else ""
        raise ConfigurationError(
            f"bias of token {token!r} is {given!r}; allowed are numbers from {BIAS.least:g} to {BIAS.most:g}{advice}"
        )
    return number


def _by_tensors(state: BiasState, logits: Tensor) -> Tensor:
    places = Places.of(state.ids, logits.shape[1])
    wide = torch.promote_types(logits.dtype, torch.float32)
    given = logits.gather(1, places.at).to(wide)
    added = torch.where(places.some, state.bias.gather(1, places.source).to(wide), 0.0)
    most = torch.finfo(logits.dtype).max
    changed = (given + added).clamp(given.clamp(max=-most), given.clamp(min=most)).to(logits.dtype)
    return logits.scatter_(1, places.at, torch.where(places.some, changed, given.to(logits.dtype)))


def _by_rows(state: BiasState, logits: Tensor) -> Tensor:
    host, numbers = HostLogits.of(logits), state.bias.numpy()
    with np.errstate(over="ignore"):
        for row, ids in listed_rows(state.ids):
            given = host.read(row, ids)
            host.write(row, ids, given, given + numbers[row, : len(ids)])
    return logits
