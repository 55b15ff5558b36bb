"""The mask of one visited state on the CPU: the cheapest way to apply it to one row of logits."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.compiler.bytes.byte_dfa import DEAD, FINISHED
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.runtime.logit_arrays import as_array, check_left, check_row, drop_nan, fill, is_broken
from logitkit.runtime.token_bits import change_bits, no_bits, packed

# Up to this share of the vocabulary, a list of ids is faster than a pass over a float row (measured at 131k and 32k columns).
SHORT_LIST = 1 / 24

# The number of allowed ids checked first for whether a row is empty, and the columns from which they are chosen.
PROBED = 16
SAMPLED = 4096

# Up to this size, reading a whole row before the mask takes no longer than reading the few tokens that it allows. In a longer
# row, only the logits that it leaves are read: a token that the mask bans stays banned, whatever its logit is.
WHOLE_BYTES = 2**15

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
        is_end: Whether it is that of a row that has ended or is dead, whose logits do not matter.
        first: The first id of the probe, -1 if it is empty.
    """

    size: int
    forced: NDArray[np.int64]
    probe: NDArray[np.int64]
    allowed: NDArray[np.int64] | None = None
    banned: NDArray[np.int64] | None = None
    ceiling: NDArray[np.float32] | None = None
    nbytes: int = 0
    is_end: bool = False
    first: int = field(init=False)
    _bits: NDArray[np.uint16] | None = field(default=None, repr=False)
    _packed: Tensor | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.first = int(self.probe[0]) if len(self.probe) else -1

    @classmethod
    def of(cls, automaton: TokenAutomaton, state: int) -> RowMask:
        """Compute the mask of a state."""
        size = len(automaton.class_of)
        ends = np.array(automaton.eos_ids)
        if state == DEAD:
            return cls(size, ends, ends[:0], allowed=ends[:0], is_end=True)
        if state == FINISHED:
            ids = finished_ids(automaton.eos_ids, automaton.pad_id)
            return cls(size, ends, ids, allowed=ids, is_end=True)
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
        return cls(size, ends, some, ceiling=row, nbytes=row.nbytes + 2 * size + size // 8)

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

    def apply(self, row: NDArray[Any], never: Any, zero: Any, number: int | None = None) -> bool:
        """Mask one row of logits, [V] or wider, in place; see `as_array` for the arguments.

        If no token is left, because the state is dead or everything that it allows was already -inf, the row ends.

        Args:
            row: The row.
            never: -inf, as it is in the row.
            zero: 0, as it is in the row.
            number: Its number, if it is a row of a model, whose broken logits are an error. Otherwise, NaN counts as -inf.

        Returns:
            Whether the row was cut off: it ends, but its text is not complete.

        Raises:
            BrokenLogits: The row has a number, and is broken.
        """
        number = None if self.is_end else number
        kept = None if self.allowed is None else row[self.allowed]
        if number is not None:
            self._check(row, kept, never, number)
        elif kept is not None:
            drop_nan(kept, never)
        if len(row) > self.size:
            row[self.size :] = never
            row = row[: self.size]
        self._overwrite(row, kept, never)
        if kept is None:
            if number is None:
                drop_nan(row, never)
            elif self.banned is None:
                check_left(row, never, number)
        return self._end_if_empty(row, never, zero)

    def _overwrite(self, row: NDArray[Any], kept: NDArray[Any] | None, never: Any) -> None:
        if kept is not None:
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

    def masked(self, scores: Tensor) -> tuple[Tensor, bool]:
        """Return new logits of one row of a model, masked as by `apply`, and whether it was cut off.

        Copying and then masking in place would read and write the row once more, which takes half of the time of a step.

        Args:
            scores: [1, W] on the CPU, W at least the size of the mask; they stay unchanged.

        Raises:
            BrokenLogits: They are broken.
        """
        if scores.dtype != torch.float32 or scores.requires_grad or scores.shape[1] != self.size:
            found = scores.clone()
            array, never, zero = as_array(found)
            return found, self.apply(array[0], never, zero, number=0)
        given = scores.numpy()
        line = given[0]
        kept = None if self.allowed is None else line[self.allowed]
        if not self.is_end:
            self._check(line, kept, -np.inf, 0)
        elif kept is not None:
            drop_nan(kept, -np.inf)
        if kept is not None:
            made = np.empty_like(given)
            row = made[0]
            fill(row, -np.inf)
            row[self.allowed] = kept
        elif self.banned is not None:
            made = given.copy()
            row = made[0]
            row[self.banned] = -np.inf
        else:
            assert self.ceiling is not None
            made = np.fmin(given, self.ceiling)
            row = made[0]
            check_left(row, -np.inf, 0)
        return torch.from_numpy(made), self._end_if_empty(row, -np.inf, 0.0)

    def _check(self, row: NDArray[Any], kept: NDArray[Any] | None, never: Any, number: int) -> None:
        """Raise an error if a row of a model is broken, unless `check_left` is going to notice that."""
        if len(row) * row.strides[0] > WHOLE_BYTES and self.banned is None:
            if kept is not None:
                if not is_broken(kept, never):
                    return
            elif self.first >= 0 and row.item(self.first) != never:
                return
        check_row(row, never, number)

    def _end_if_empty(self, row: NDArray[Any], never: Any, zero: Any) -> bool:
        # Check one id, then a few, then all: a number costs a twentieth of the smallest array.
        if self.first >= 0 and (
            row.item(self.first) != never or any(row.item(token) != never for token in self.probe.tolist())
        ):
            return False
        if not (row == never).all():
            return False
        row[self.forced] = zero
        return not (self.is_end or self.legal()[self.forced].any())

    def legal(self) -> NDArray[np.bool_]:
        """Return [V] bool, which ids are allowed."""
        if self.ceiling is not None:
            return np.isnan(self.ceiling)
        kind, ids = self.content()
        legal = np.full(self.size, kind == "banned")
        legal[ids] = kind == "allowed"
        return legal

    def packed(self) -> Tensor:
        """Return the ids that are left after `apply`, [ceil(V / 32)] int32: those that are allowed, or the end of the row."""
        if self.ceiling is None:
            # A few bits of the words, which takes less time than to keep them would take memory.
            kind, ids = self.content()
            found = packed(torch.ones(1, self.size, dtype=torch.bool))[0] if kind == "banned" else no_bits(self.size)
            change_bits(found, ids if kind == "banned" or len(ids) else self.forced)
            return found
        if self._packed is None:
            self._packed = packed(torch.from_numpy(self.legal())[None])[0]
        return self._packed

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
