"""The mask of one visited state on a CPU: the cheapest way to apply it to one row of logits."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from logitkit.automata.byte_dfa import DEAD, FINISHED
from logitkit.automata.token_automaton import TokenAutomaton

NEVER = float("-inf")

# Lists up to this share of the vocabulary beat a pass over a float row (measured at 131k and 32k columns).
SHORT_LIST = 1 / 24


@dataclass(slots=True)
class RowMask:
    """What one state of one automaton does to a row; exactly one of the ways below is filled in.

    Args:
        size: Number of token ids: columns behind it are masked.
        allowed: Ids to keep, when they are few.
        banned: Ids to mask, when they are few.
        ceiling: [V] +inf where allowed, else -inf: the row's minimum with it is the masked row. For other cases.
        forced: Ids that end a dead row at logit 0.
        nbytes: What it takes in memory.
    """

    size: int
    allowed: Tensor | None = None
    banned: Tensor | None = None
    ceiling: Tensor | None = None
    forced: Tensor | None = None
    nbytes: int = 0
    _ceilings: dict[torch.dtype, Tensor] = field(default_factory=dict)

    @classmethod
    def of(cls, automaton: TokenAutomaton, state: int) -> RowMask:
        """Work out the mask of a state."""
        size = len(automaton.class_of)
        if state == DEAD:
            return cls(size, forced=torch.tensor(automaton.eos_ids))
        if state == FINISHED:
            pads = () if automaton.pad_id is None else (automaton.pad_id,)
            return cls(size, allowed=torch.tensor(sorted({*automaton.eos_ids, *pads})))
        legal = automaton.legal_classes(state)
        count = automaton.count_tokens(legal)
        if count <= size * SHORT_LIST:
            ids = torch.from_numpy(automaton.tokens_of(legal))
            return cls(size, allowed=ids, nbytes=ids.nbytes)
        if size - count <= size * SHORT_LIST:
            ids = torch.from_numpy(automaton.tokens_of(~legal))
            return cls(size, banned=ids, nbytes=ids.nbytes)
        row = np.where(legal, np.float32(np.inf), np.float32(-np.inf))[automaton.class_of]
        return cls(size, ceiling=torch.from_numpy(row), nbytes=row.nbytes)

    def apply(self, row: Tensor) -> None:
        """Mask one row of logits, [V] or wider, in place."""
        if row.shape[0] > self.size:
            row[self.size :].fill_(NEVER)
            row = row[: self.size]
        if self.allowed is not None:
            kept = row.index_select(0, self.allowed)
            row.fill_(NEVER).index_copy_(0, self.allowed, kept)
        elif self.banned is not None:
            row.index_fill_(0, self.banned, NEVER)
        elif self.ceiling is not None:
            # Not an addition: the sum of -inf and a logit that is +inf already would be NaN.
            torch.minimum(row, self.ceiling_as(row.dtype), out=row)
        elif self.forced is not None:
            row.fill_(NEVER).index_fill_(0, self.forced, 0.0)

    def ceiling_as(self, dtype: torch.dtype) -> Tensor:
        """Return the ceiling in the dtype of the logits."""
        assert self.ceiling is not None
        if dtype == self.ceiling.dtype:
            return self.ceiling
        found = self._ceilings.get(dtype)
        if found is None:
            found = self._ceilings[dtype] = self.ceiling.to(dtype)
            self.nbytes += found.nbytes
        return found
