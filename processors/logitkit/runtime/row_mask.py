"""The mask of one visited state on the CPU: the cheapest way to apply it to one row of logits."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import torch
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray
from torch import Tensor

from logitkit.compiler.bytes.byte_dfa import DEAD, FINISHED
from logitkit.compiler.tokens.token_automaton import TokenAutomaton

# Up to this share of the vocabulary, a list of ids is faster than a pass over a float row (measured at 131k and 32k columns).
SHORT_LIST = 1 / 24

# The number of allowed ids checked first for whether a row is empty, and the columns from which they are chosen.
PROBED = 16
SAMPLED = 4096

# numpy has no bfloat16 and is slow on float16, but masks can operate on the bits of both.
BITS = {torch.float16: (0xFC00, 0x0000), torch.bfloat16: (0xFF80, 0x0000)}


# A row is filled from a block that stays in the processor's fastest cache.
BLOCK_BYTES = 2**15


@lru_cache(maxsize=8)
def _block(dtype: np.dtype[Any], value: Any) -> NDArray[Any]:
    return np.full(BLOCK_BYTES // dtype.itemsize, value, dtype)


def fill(row: NDArray[Any], value: Any) -> None:
    """Set all numbers of a row, of any stride, to a value, in half to two thirds of the time of numpy's `fill`."""
    block = _block(row.dtype, value)
    whole = len(row) - len(row) % len(block)
    row[:whole].reshape(-1, len(block))[:] = block
    row[whole:] = value


def as_array(logits: Tensor) -> tuple[NDArray[Any], Any, Any]:
    """View logits on the CPU as an array, without a copy.

    Returns:
        The array (for 16-bit dtypes, its bits as uint16), and the representations of -inf and 0 in it.
    """
    if logits.dtype == torch.float32 and not logits.requires_grad:
        return logits.numpy(), -np.inf, 0.0
    if logits.dtype in BITS:
        never, zero = BITS[logits.dtype]
        return logits.detach().view(torch.uint16).numpy(), never, zero
    return logits.detach().numpy(), -np.inf, 0.0


def drop_nan(row: NDArray[Any], never: Any) -> bool:
    """Replace NaN, which is very rare, with -inf, and return whether there was any; see `as_array` for the arguments.

    Detecting NaN takes a tenth of the time of replacing it: the maximum of some numbers is NaN if any of them is.
    """
    if not len(row):
        return False
    if row.dtype == np.uint16:
        # Without the sign, only the bits of NaN are greater than those of infinity.
        size = row & 0x7FFF
        found = bool(size.max() > never & 0x7FFF)
        if found:
            row[size > never & 0x7FFF] = never
        return found
    read, stride = row, row.strides[0]
    if stride != row.itemsize:
        step, rest = divmod(stride, row.itemsize)
        if 1 < step <= CLOSE and not rest:
            # Includes the columns in between, which is faster than skipping them.
            read = as_strided(row, (step * (len(row) - 1) + 1,), (row.itemsize,))
    top = np.maximum.reduce(read)
    found = bool(top != top)
    if found:
        np.fmax(row, never, out=row)
    return found


# Up to this stride, as in llama.cpp's candidates, a row is read including the numbers in between.
CLOSE = 4

# The number of columns of a long mask that are hashed to find an equal mask.
SEEN = 256


# Compared by identity, because equal masks are shared.
@dataclass(slots=True, weakref_slot=True, eq=False)
class RowMask:
    """The effect of one automaton state on a row of logits. Exactly one of `allowed`, `banned` and `ceiling` is set.

    Args:
        size: The number of token ids; columns beyond it are masked.
        allowed: The ids to keep, if there are few.
        banned: The ids to mask, if there are few.
        ceiling: [V] float32 for all other cases, NaN for allowed ids and -inf for the others: `fmin` with it keeps every
            allowed logit and replaces all others with -inf, whatever their values.
        forced: The ids that get logit 0 to end a row in which no token is left.
        probe: A few allowed ids: only if all of them are at -inf can the whole row be.
        nbytes: The size of the mask in memory.
        first: The first id of the probe, -1 if it is empty.
    """

    size: int
    forced: NDArray[np.int64]
    probe: NDArray[np.int64]
    allowed: NDArray[np.int64] | None = None
    banned: NDArray[np.int64] | None = None
    ceiling: NDArray[np.float32] | None = None
    nbytes: int = 0
    first: int = field(init=False)
    _bits: NDArray[np.uint16] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.first = int(self.probe[0]) if len(self.probe) else -1

    @classmethod
    def of(cls, automaton: TokenAutomaton, state: int) -> RowMask:
        """Compute the mask of a state."""
        size = len(automaton.class_of)
        ends = np.array(automaton.eos_ids)
        if state == DEAD:
            return cls(size, ends, ends[:0], allowed=ends[:0])
        if state == FINISHED:
            ids = finished_ids(automaton.eos_ids, automaton.pad_id)
            return cls(size, ends, ids, allowed=ids)
        return cls.allowing(automaton, automaton.legal_classes(state))

    @classmethod
    def allowing(cls, automaton: TokenAutomaton, legal: NDArray[np.bool_]) -> RowMask:
        """Return the mask of a live state that allows the given classes, [C] bool."""
        # Most states of a counter allow the same tokens.
        content = legal.tobytes()
        found: RowMask | None = automaton.masks.get(content)
        if found is None:
            found = automaton.masks[content] = cls._allowing(automaton, legal).shared()
        return found

    @classmethod
    def _allowing(cls, automaton: TokenAutomaton, legal: NDArray[np.bool_]) -> RowMask:
        size = len(automaton.class_of)
        ends = np.array(automaton.eos_ids)
        few = automaton.short_list(legal, size * SHORT_LIST)
        if few is not None:
            are_legal, ids = few
            if are_legal:
                return cls(size, ends, ids[:PROBED], allowed=ids, nbytes=ids.nbytes)
            kept = np.ones(min(size, len(ids) + PROBED), bool)
            kept[ids[ids < len(kept)]] = False
            return cls(size, ends, np.flatnonzero(kept)[:PROBED], banned=ids, nbytes=ids.nbytes)
        row = automaton.per_token(np.where(legal, np.float32(np.nan), np.float32(-np.inf)))
        some = np.flatnonzero(np.isnan(row[:SAMPLED]))[:PROBED]
        return cls(size, ends, some, ceiling=row, nbytes=row.nbytes + 2 * size)

    def shared(self) -> RowMask:
        """Return an equal mask that is already in use, or this one. States of many automata allow the same, as inside a word."""
        name, ids = self.content()
        # A sample of the columns distinguishes most masks; equal samples are compared in full.
        sample = hash(ids[:: max(1, len(ids) // SEEN)].tobytes())
        other = _in_use.setdefault((self.size, self.forced.tobytes(), name, len(ids), sample), self)
        # As integers, because NaN is not equal to itself.
        if other is self or np.array_equal(ids.view(f"i{ids.itemsize}"), other.content()[1].view(f"i{ids.itemsize}")):
            return other
        return self

    def content(self) -> tuple[str, NDArray[Any]]:
        """Return which of the three kinds of mask this is, and its array."""
        if self.allowed is not None:
            return "allowed", self.allowed
        if self.banned is not None:
            return "banned", self.banned
        assert self.ceiling is not None
        return "ceiling", self.ceiling

    def apply(self, row: NDArray[Any], never: Any, zero: Any) -> None:
        """Mask one row of logits, [V] or wider, in place; see `as_array` for the arguments.

        NaN counts as -inf. If no token is left, because the state is dead or everything that it allows was already -inf, the
        row ends.
        """
        if len(row) > self.size:
            row[self.size :] = never
            row = row[: self.size]
        if self.allowed is not None:
            kept = row[self.allowed]
            drop_nan(kept, never)
            fill(row, never)
            row[self.allowed] = kept
        elif self.banned is not None:
            row[self.banned] = never
        elif row.dtype == np.uint16:
            keep = self.keep_bits()
            row &= keep
            row |= ~keep & np.uint16(never)
        elif self.ceiling is not None:
            # Not an addition: -inf plus a logit of +inf would be NaN.
            np.fmin(row, self.ceiling, out=row)
        if self.allowed is None:
            drop_nan(row, never)
        self._end_if_empty(row, never, zero)

    def masked(self, scores: Tensor) -> Tensor:
        """Return new logits of one row, masked as by `apply`; the given ones stay unchanged.

        Copying and then masking in place would read and write the row once more, which takes half of the time of a step.

        Args:
            scores: [1, W] on the CPU, W at least the size of the mask.
        """
        if scores.dtype != torch.float32 or scores.requires_grad or scores.shape[1] != self.size:
            found = scores.clone()
            array, never, zero = as_array(found)
            self.apply(array[0], never, zero)
            return found
        if self.banned is not None:
            # Copies and replaces NaN in one pass.
            found = torch.nan_to_num(scores, nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
            row = found.numpy()[0]
            row[self.banned] = -np.inf
        else:
            given = scores.numpy()[0]
            if self.allowed is not None:
                kept = given[self.allowed]
                drop_nan(kept, -np.inf)
                row = np.empty(self.size, given.dtype)
                fill(row, -np.inf)
                row[self.allowed] = kept
            else:
                assert self.ceiling is not None
                row = np.fmin(given, self.ceiling)
                drop_nan(row, -np.inf)
            found = torch.from_numpy(row)[None]
        self._end_if_empty(row, -np.inf, 0.0)
        return found

    def _end_if_empty(self, row: NDArray[Any], never: Any, zero: Any) -> None:
        # Check one id, then a few, then all: a number costs a twentieth of the smallest array.
        maybe_empty = self.first < 0 or (row.item(self.first) == never and (row[self.probe] == never).all())
        if maybe_empty and (row == never).all():
            row[self.forced] = zero

    def legal(self) -> NDArray[np.bool_]:
        """Return [V] bool, which ids are allowed."""
        if self.ceiling is not None:
            return np.isnan(self.ceiling)
        kind, ids = self.content()
        legal = np.full(self.size, kind == "banned")
        legal[ids] = kind == "allowed"
        return legal

    def keep_bits(self) -> NDArray[np.uint16]:
        """Return [V] uint16 for 16-bit logits: all bits set where a token is allowed."""
        if self._bits is None:
            assert self.ceiling is not None
            self._bits = np.where(np.isnan(self.ceiling), np.uint16(0xFFFF), np.uint16(0))
        return self._bits


def finished_ids(eos_ids: Collection[int], pad_id: int | None) -> NDArray[np.int64]:
    """Return the ids that a finished row may emit, [N], ascending."""
    return np.array(sorted({*eos_ids} if pad_id is None else {*eos_ids, pad_id}), np.int64)


_in_use: WeakValueDictionary[tuple[int, bytes, str, int, int], RowMask] = WeakValueDictionary()
