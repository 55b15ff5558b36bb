"""The mask of one visited state on a CPU: the cheapest way to apply it to one row of logits."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.automata.byte_dfa import DEAD, FINISHED
from logitkit.automata.token_automaton import TokenAutomaton

# Lists up to this share of the vocabulary beat a pass over a float row (measured at 131k and 32k columns).
SHORT_LIST = 1 / 24

# Allowed ids that are looked at first to see whether a row is empty, and the columns among which they are sought.
PROBED = 16
SAMPLED = 4096

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


# Columns of a long mask that are looked at to find an equal one.
SEEN = 1024


# Compared by identity: what is equal is shared.
@dataclass(slots=True, weakref_slot=True, eq=False)
class RowMask:
    """What one state of one automaton does to a row; exactly one of the ways below is filled in.

    Args:
        size: Number of token ids: columns behind it are masked.
        allowed: Ids to keep, when they are few.
        banned: Ids to mask, when they are few.
        ceiling: [V] float32, NaN where allowed, else -inf: `fmin` with it keeps what is allowed, whatever it is, and puts
            -inf in place of all else, whatever that was. For other cases.
        forced: Ids that end a row at logit 0, when nothing else is left to say.
        probe: A few allowed ids: if all of them are at -inf, the whole row may be.
        nbytes: What it takes in memory.
    """

    size: int
    forced: NDArray[np.int64]
    probe: NDArray[np.int64]
    allowed: NDArray[np.int64] | None = None
    banned: NDArray[np.int64] | None = None
    ceiling: NDArray[np.float32] | None = None
    nbytes: int = 0
    _bits: NDArray[np.uint16] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, automaton: TokenAutomaton, state: int) -> RowMask:
        """Work out the mask of a state."""
        size = len(automaton.class_of)
        ends = np.array(automaton.eos_ids)
        if state == DEAD:
            return cls(size, ends, ends[:0], allowed=ends[:0])
        if state == FINISHED:
            pads = () if automaton.pad_id is None else (automaton.pad_id,)
            ids = np.array(sorted({*automaton.eos_ids, *pads}))
            return cls(size, ends, ids, allowed=ids)
        return cls.allowing(automaton, automaton.legal_classes(state))

    @classmethod
    def allowing(cls, automaton: TokenAutomaton, legal: NDArray[np.bool_]) -> RowMask:
        """Return the mask of a live state that allows some classes, [C] bool."""
        # Most states of a counter allow the same.
        content = legal.tobytes()
        found: RowMask | None = automaton.masks.get(content)
        if found is None:
            found = automaton.masks[content] = cls._allowing(automaton, legal).shared()
        return found

    @classmethod
    def _allowing(cls, automaton: TokenAutomaton, legal: NDArray[np.bool_]) -> RowMask:
        size = len(automaton.class_of)
        ends = np.array(automaton.eos_ids)
        count = automaton.count_tokens(legal)
        if count <= size * SHORT_LIST:
            ids = automaton.tokens_of(legal)
            return cls(size, ends, ids[:PROBED], allowed=ids, nbytes=ids.nbytes)
        if size - count <= size * SHORT_LIST:
            ids = automaton.tokens_of(~legal)
            kept = np.ones(min(size, len(ids) + PROBED), bool)
            kept[ids[ids < len(kept)]] = False
            return cls(size, ends, np.flatnonzero(kept)[:PROBED], banned=ids, nbytes=ids.nbytes)
        row = automaton.per_token(np.where(legal, np.float32(np.nan), np.float32(-np.inf)))
        some = np.flatnonzero(np.isnan(row[:SAMPLED]))[:PROBED]
        return cls(size, ends, some, ceiling=row, nbytes=row.nbytes + 2 * size)

    def shared(self) -> RowMask:
        """Return the equal mask that is in use already, or this one: states of many automata allow the same, as inside a word."""
        for way in (self.allowed, self.banned, self.ceiling):
            if way is not None:
                # Few of the columns of a row tell most rows apart; what they do not is compared as a whole.
                key = (
                    self.size,
                    self.forced.tobytes(),
                    way.dtype.char,
                    len(way),
                    hash(way[:: max(1, len(way) // SEEN)].tobytes()),
                )
                other = _in_use.get(key)
                if other is None:
                    _in_use[key] = self
                elif other.does_what(self):
                    return other
        return self

    def does_what(self, other: RowMask) -> bool:
        """Whether another mask of a vocabulary of the same size and ends is the same."""
        ways = ((self.allowed, other.allowed), (self.banned, other.banned), (self.ceiling, other.ceiling))
        # As bytes: NaN is not equal to itself.
        return all(
            (a is None) == (b is None) and (a is None or b is None or np.array_equal(a.view(np.int8), b.view(np.int8)))
            for a, b in ways
        )

    def apply(self, row: NDArray[Any], never: Any, zero: Any) -> None:
        """Mask one row of logits, [V] or wider, in place; for the arguments see `as_array`.

        A row in which nothing is left, be it that the state is dead or that all it allows was at -inf before, ends.
        """
        if len(row) > self.size:
            row[self.size :] = never
            row = row[: self.size]
        if self.allowed is not None:
            kept = row[self.allowed]
            row[:] = constant_row(len(row), row.dtype, never)
            row[self.allowed] = kept
        elif self.banned is not None:
            row[self.banned] = never
        elif row.dtype == np.uint16:
            keep = self.keep_bits()
            row &= keep
            row |= ~keep & np.uint16(never)
        elif self.ceiling is not None:
            # Not an addition: the sum of -inf and a logit that is +inf already would be NaN.
            np.fmin(row, self.ceiling, out=row)
        # One id first, then a few, then all: a scalar costs a tenth of the smallest array.
        maybe_empty = not len(self.probe) or (row[self.probe[0]] == never and (row[self.probe] == never).all())
        if maybe_empty and (row == never).all():
            row[self.forced] = zero

    def legal(self) -> NDArray[np.bool_]:
        """Return [V] bool: which ids are allowed."""
        if self.ceiling is not None:
            return np.isnan(self.ceiling)
        listed = np.zeros(self.size, np.bool_)
        if self.allowed is not None:
            listed[self.allowed] = True
        elif self.banned is not None:
            listed[self.banned] = True
            np.logical_not(listed, out=listed)
        return listed

    def keep_bits(self) -> NDArray[np.uint16]:
        """Return [V] uint16: all bits set where a token is allowed, for logits of 16 bits."""
        if self._bits is None:
            assert self.ceiling is not None
            self._bits = np.where(np.isnan(self.ceiling), np.uint16(0xFFFF), np.uint16(0))
        return self._bits


_in_use: WeakValueDictionary[tuple[int, bytes, str, int, int], RowMask] = WeakValueDictionary()
