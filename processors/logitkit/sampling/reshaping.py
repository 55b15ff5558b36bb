"""The base of processors that give each logit another value, by tensor operations on a row."""

from __future__ import annotations

from typing import Any, TypeVar

from torch import Tensor

from logitkit.runtime.host_logits import HostAndDevice

__all__ = ["Reshaping"]

S = TypeVar("S", bound=tuple[Any, ...])


class Reshaping(HostAndDevice[S]):
    """A processor whose operations on tensors are also the fastest on the host, so it has no second implementation.

    Subclasses define `_active` and `_by_tensors`, which torch differentiates for training.
    """

    def reshaped(self, state: S, logits: Tensor) -> Tensor:
        """Return the processed logits, which have a gradient if the given ones have."""
        return self._by_tensors(state, logits)

    def _active(self, state: S) -> Tensor:
        """Return which rows change at all, [B] bool."""
        raise NotImplementedError

    def _by_rows(self, state: S, logits: Tensor) -> Tensor:
        if logits.numel() and bool(self._active(state).any()):
            logits.copy_(self._by_tensors(state, logits))
        return logits
