"""The mask of one visited state on a CPU: the cheapest way to apply it to one row of logits."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.automata.byte_dfa import DEAD, FINISHED
from logitkit.automata.token_automaton import TokenAutomaton

# Lists up to this share of the vocabulary beat a pass over a float row (measured at 131k and 32k columns).
SHORT_LIST = 1 / 24

# numpy has no bfloat16 and is slow on float16, but what a mask does to them it can do to their bits.
BITS = {torch.float16: (0xFC00, 0x0000), torch.bfloat16: (0xFF80, 0x0000)}


@lru_cache(maxsize=8)
def constant_row(size: int, dtype: np.dtype[Any], value: Any) -> NDArray[Any]:
    """Return a row of one value. To copy it is quicker than `fill`: a third at 131k columns, three times in a batch of 32."""
    return np.full(size, value, dtype)


def as_array(logits: Tensor) -> tuple[NDArray[Any], Any, Any]:
    """View logits on the CPU as an array, without a copy.

    Returns:
        The array (bits as uint16, for dtypes of 16 bits), and what -inf and 0 are in it.
    """
    if logits.dtype in BITS:
        never, zero = BITS[logits.dtype]
        return logits.detach().view(torch.uint16).numpy(), never, zero
    return logits.detach().numpy(), -np.inf, 0.0


@dataclass(slots=True)
class RowMask:
    """What one state of one automaton does to a row; exactly one of the ways below is filled in.

    Args:
        size: Number of token ids: columns behind it are masked.
        allowed: Ids to keep, when they are few.
        banned: Ids to mask, when they are few.
        ceiling: [V] float32, +inf where allowed, else -inf: the row's minimum with it is the masked row. For other cases.
        forced: Ids that end a dead row at logit 0.
        nbytes: What it takes in memory, with what `keep_bits` will add.
    """

    size: int
    allowed: NDArray[np.int64] | None = None
    banned: NDArray[np.int64] | None = None
    ceiling: NDArray[np.float32] | None = None
    forced: NDArray[np.int64] | None = None
    nbytes: int = 0
    _bits: NDArray[np.uint16] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, automaton: TokenAutomaton, state: int) -> RowMask:
        """Work out the mask of a state."""
        size = len(automaton.class_of)
        if state == DEAD:
            return cls(size, forced=np.array(automaton.eos_ids))
        if state == FINISHED:
            pads = () if automaton.pad_id is None else (automaton.pad_id,)
            return cls(size, allowed=np.array(sorted({*automaton.eos_ids, *pads})))
        legal = automaton.legal_classes(state)
        count = automaton.count_tokens(legal)
        if count <= size * SHORT_LIST:
            ids = automaton.tokens_of(legal)
            return cls(size, allowed=ids, nbytes=ids.nbytes)
        if size - count <= size * SHORT_LIST:
            ids = automaton.tokens_of(~legal)
            return cls(size, banned=ids, nbytes=ids.nbytes)
        row = automaton.per_token(np.where(legal, np.float32(np.inf), np.float32(-np.inf)))
        return cls(size, ceiling=row, nbytes=row.nbytes + 2 * size)

    def apply(self, row: NDArray[Any], never: Any, zero: Any) -> None:
        """Mask one row of logits, [V] or wider, in place; for the arguments see `as_array`."""
        if len(row) > self.size:
            row[self.size :] = never
            row = row[: self.size]
        if self.allowed is not None:
            kept = row[self.allowed]
            row[:] = constant_row(len(row), row.dtype, never)
            row[self.allowed] = kept
        elif self.banned is not None:
            row[self.banned] = never
        elif self.forced is not None:
            row[:] = constant_row(len(row), row.dtype, never)
            row[self.forced] = zero
        elif row.dtype == np.uint16:
            keep = self.keep_bits()
            row &= keep
            row |= ~keep & np.uint16(never)
        elif self.ceiling is not None:
            # Not an addition: the sum of -inf and a logit that is +inf already would be NaN.
            np.minimum(row, self.ceiling, out=row)

    def keep_bits(self) -> NDArray[np.uint16]:
        """Return [V] uint16: all bits set where a token is allowed, for logits of 16 bits."""
        if self._bits is None:
            assert self.ceiling is not None
            self._bits = np.where(self.ceiling > 0, np.uint16(0xFFFF), np.uint16(0))
        return self._bits
