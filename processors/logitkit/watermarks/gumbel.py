"""GumbelWatermark: random numbers that follow from a key draw each token, so that the sampler has no choice left."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.parameters import SecretInteger
from logitkit.protocol.calls import check_tokens
from logitkit.protocol.context import Context
from logitkit.protocol.described import per_row
from logitkit.protocol.kind import Kind, Role
from logitkit.runtime.host_logits import HostAndDevice, host_rows
from logitkit.sampling.scores import scores_of
from logitkit.watermarks.context_history import REMEMBERED, WIDTH, ContextHistory
from logitkit.watermarks.keyed_numbers import NUMBERS, hash_contexts, numbers_of, row_numbers
from logitkit.watermarks.saved_keys import check_saved_key, without

__all__ = ["GumbelState", "GumbelWatermark", "uniform_of"]

KEY = SecretInteger(0, 2**63 - 1)


class GumbelState(NamedTuple):
    """The key of each row, and its contexts. The key does not appear in `repr`, nor in saved states.

    Args:
        key: [B] int64.
        enabled: [B] bool; False changes nothing.
        history: The contexts of the row.
    """

    key: Tensor
    enabled: Tensor
    history: ContextHistory

    def __repr__(self) -> str:
        return without(self, "key")

    def to_portable(self, processor: Any) -> tuple[GumbelState, None]:
        """Return the state without its key."""
        check_saved_key((self.key == processor.key) | ~self.enabled)
        return self._replace(key=torch.zeros_like(self.key)), None

    def from_portable(self, notes: Any, processor: Any, device: torch.device) -> GumbelState:
        """Return the state with the key of the processor."""
        return self._replace(key=torch.where(self.enabled, processor.key, 0))


@dataclass(frozen=True)
class GumbelWatermark(HostAndDevice[GumbelState]):
    """Draw the token, with random numbers that follow from the key, the context and each token; set all others to -inf.

    The token is the one with the greatest sum of its logit and its Gumbel noise, -log(-log u), where u is uniform in (0, 1). That
    is a draw from the probabilities of the logits: over all keys, texts have the distribution of sampling. Any sampler after it,
    greedy or not, takes the only token that is left, so temperature and truncation must come before.

    The context is the last output tokens. The first `context_width` tokens of a row, and those after a context that the row has
    had, are left to the sampler, so that several samples of a prompt differ and texts do not loop. With beams, each beam
    has one continuation only, so use it for sampling.

    Args:
        key: The secret key, from 0 to 2**63 - 1. It does not appear in `repr`, errors or saved states, but it does in the
            configuration that `to_config` writes.
        context_width: The number of tokens that, with the key, choose the noise, from 1 to 64.
        context_history_size: How many contexts a row remembers, from 0 to 65,536: 8 bytes each.

    Raises:
        ConfigurationError: An argument is not in range.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> watermark = lk.GumbelWatermark(key=42, context_width=1)
        >>> context = lk.Context.of([[]], vocabulary_size=4)
        >>> state = watermark.advance(watermark.init_state(context), torch.tensor([3]))
        >>> watermark.process_logits(state, torch.tensor([[1.0, 1.0, 2.0, -torch.inf]]), context)[1]
        tensor([[-inf, -inf, 2., -inf]])
        >>> watermark
        GumbelWatermark(context_width=1, context_history_size=1024)

    Source: Aaronson, Watermarking of Large Language Models (2023), in its form with Gumbel noise.
    """

    key: int = field(repr=False)
    context_width: int = 4
    context_history_size: int = 1024

    role = Role.WATERMARK
    kind = Kind(
        "gumbel_watermark",
        {"key": KEY, "context_width": WIDTH, "context_history_size": REMEMBERED},
        order=30,
    )
    may_empty_rows = False
    # A constraint after it might forbid the only token that is left.
    truncates = True

    @classmethod
    def neutral_state(cls, context: Context) -> GumbelState:
        """Return the state of rows that it leaves unchanged."""
        return GumbelState(per_row(context, 0), per_row(context, 0) > 0, ContextHistory.of(context, 1, 0, 0))

    def init_state(self, context: Context) -> GumbelState:
        """Return the initial state of the rows."""
        width = self.context_width
        history = ContextHistory.of(context, width, width, self.context_history_size)
        return GumbelState(per_row(context, self.key), per_row(context, 1) > 0, history)

    def advance(self, state: GumbelState, tokens: Tensor) -> GumbelState:
        """Return the state after `tokens`, [B] or [B, T] int64 with -1 for none."""
        check_tokens("GumbelWatermark", state.key.shape[0], tokens)
        return state._replace(history=state.history.append(tokens, _without_key))

    def _by_rows(self, state: GumbelState, logits: Tensor) -> Tensor:
        active = state.history.is_new(_without_key) & state.enabled
        if not bool(active.any()):
            return logits
        hashes = _hashes(state)[:, 0].tolist()
        for number, row in host_rows(logits, active.tolist()):
            ids = np.flatnonzero(row.scores > -np.inf)
            noisy = row.scores[ids].astype(np.float64) + _noise(row_numbers(hashes[number], ids))
            row.keep(ids[[int(noisy.argmax())]])
        return logits

    def _by_tensors(self, state: GumbelState, logits: Tensor) -> Tensor:
        active = state.history.is_new(_without_key) & state.enabled
        ids = torch.arange(logits.shape[1], device=logits.device)
        uniform = (numbers_of(_hashes(state), ids).double() + 0.5) / NUMBERS
        noisy = scores_of(logits).double() - (-uniform.log()).log()
        kept = (ids == noisy.argmax(1, keepdim=True)) & ~logits.isnan()
        return torch.where(kept | ~active[:, None], logits, -torch.inf)


def uniform_of(numbers: NDArray[np.integer]) -> NDArray[np.float64]:
    """Return the uniform numbers in (0, 1) that stand for numbers of 53 bits."""
    return (numbers.astype(np.float64) + 0.5) / NUMBERS


def _noise(numbers: NDArray[np.integer]) -> NDArray[np.float64]:
    noise: NDArray[np.float64] = -np.log(-np.log(uniform_of(numbers)))
    return noise


def _hashes(state: GumbelState) -> Tensor:
    return hash_contexts(state.key, state.history.latest[:, None], state.history.width)


def _without_key(contexts: Tensor, width: Tensor) -> Tensor:
    # The history is saved, and this hash can be undone, so it must not have the key.
    return hash_contexts(torch.zeros_like(width), contexts, width)
