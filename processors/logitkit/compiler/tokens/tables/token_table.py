"""Where each token leads from each state: a small table, whatever the size of the vocabulary.

Tokens that do the same in every state share a *class*. The row of a state lists some classes, each with its target. A class that
the row does not list is looked up in the row of the state that this one *falls back* to, and if no row lists it, it does its
default.

By hand, for a ban of the string `ab`, with the tokens `a`, `b` and `c` in classes of their own: state 2 is the start, and state 3
comes after `a`. The default of `a` is 3, and that of `b` and `c` is 2. But for EOS, row 2 is empty. State 3 falls back to state
2, and its row lists `b` with `DEAD`.

Invariants: rows list classes in ascending order. No token leads out of state 0 (`DEAD`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import count
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import torch
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE
from logitkit.compiler.bytes.transition_columns import Ints
from logitkit.compiler.tokens.tables.short_fallbacks import chain_lengths
from logitkit.vocabulary.ranges import expand

__all__ = ["STAY", "TokenTable"]

# As the default of a class: the state stays the same.
STAY = -1

# From this call of `short_list` on, an index of tokens by class is used.
WORTH_AN_INDEX = 32

# Up to this many classes, their tokens are found one class after another.
FEW_CLASSES = 4

# If at most this share of tokens is alive in some state, only these tokens are looked through.
FEW_ALIVE = 1 / 8


@dataclass(frozen=True, eq=False)
class TokenTable:
    """Where each token leads from each state.

    No token leads out of state 0 (`DEAD`). EOS leads to state 1 (`FINISHED`), and no token leads out of it. Neither has a row.
    All other states are live: from each, some tokens lead to an accepting state.

    Args:
        class_of: [V] the class of each token.
        default: [C] int32, the target of each class from states whose rows do not list it: a state, `DEAD` or `STAY`.
        row_start: [S + 1] int64, where the row of each state begins.
        row_class: The classes that rows list, ascending within a row.
        row_target: Their targets. Numbers from `S` on are stack actions (`Targets`).
        fallback: [S] the state that each state falls back to, itself at the end of a chain. None: no state falls back.
    """

    class_of: NDArray[np.integer]
    default: NDArray[np.int32]
    row_start: NDArray[np.int64]
    row_class: NDArray[np.integer]
    row_target: NDArray[np.signedinteger]
    fallback: NDArray[np.int64] | None = field(default=None, kw_only=True)

    def __getstate__(self) -> dict[str, Any]:
        # Only the fields: cached properties are computed again, and a memoryview cannot be copied.
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @property
    def states(self) -> int:
        """Number of states, dead and finished included."""
        return len(self.row_start) - 1

    @property
    def classes(self) -> int:
        """Number of token classes."""
        return len(self.default)

    @cached_property
    def _scalars(self) -> tuple[memoryview, memoryview, memoryview, memoryview, memoryview, memoryview | None]:
        # Reading one element of a memoryview gives a Python int several times faster than numpy gives a scalar.
        tables = (self.class_of, self.default, self.row_start, self.row_class, self.row_target, self.fallback)
        return tuple(None if t is None else memoryview(np.ascontiguousarray(t)) for t in tables)  # type: ignore[return-value,arg-type]

    def next(self, state: int, token: int) -> int:
        """Return the state after one token; -1 stands for no token, and an id out of range leads to `DEAD`."""
        if state < FIRST_STATE or token == -1:
            return state
        class_of = self._scalars[0]
        if not 0 <= token < len(class_of):
            return DEAD
        return self.target(state, class_of[token])

    def target(self, state: int, symbol: int) -> int:
        """Return where a class leads from a live state."""
        # Tables are loaded only when needed: in a batch of many automata, most of their memory is in no cache of the CPU.
        scalars = self._scalars
        row_start, row_class, fallback = scalars[2], scalars[3], scalars[5]
        at = state
        while True:
            end = row_start[at + 1]
            place = bisect_left(row_class, symbol, row_start[at], end)
            if place < end and row_class[place] == symbol:
                found: int = scalars[4][place]
                break
            below = at if fallback is None else fallback[at]
            if below == at:
                found = scalars[1][symbol]
                break
            at = below
        return state if found == STAY else found

    def chain(self, state: int) -> list[int]:
        """Return a state and all states that it falls back to, one after another."""
        states = [state]
        if self.fallback is not None:
            while (below := int(self.fallback[states[-1]])) != states[-1]:
                states.append(below)
        return states

    @cached_property
    def longest_chain(self) -> int:
        """The most states in a chain of fallbacks."""
        return 1 if self.fallback is None else 1 + int(chain_lengths(self.fallback).max())

    def legal_classes(self, state: int) -> NDArray[np.bool_]:
        """Return which classes a live state allows: [C] bool."""
        legal: NDArray[np.bool_] = self.default != DEAD
        for at in reversed(self.chain(state)):
            row = slice(int(self.row_start[at]), int(self.row_start[at + 1]))
            legal[self.row_class[row]] = self.row_target[row] != DEAD
        return legal

    def targets_from(self, state: int) -> NDArray[np.int64]:
        """Return where each class leads from a live state: [C]."""
        found = np.where(self.default == STAY, state, self.default).astype(np.int64)
        for at in reversed(self.chain(state)):
            row = slice(int(self.row_start[at]), int(self.row_start[at + 1]))
            found[self.row_class[row]] = self.row_target[row]
        return found

    @cached_property
    def _alive(self) -> tuple[NDArray[np.int64], Ints] | None:
        """The tokens of classes other than 0, and their classes, if these tokens are few. Class 0 is dead in most automata."""
        other = self.class_of != 0
        if np.count_nonzero(other) > FEW_ALIVE * len(other):
            return None
        ids = np.flatnonzero(other)
        return ids, self.class_of.take(ids)

    @cached_property
    def by_class(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """All token ids ordered by class, and where each class begins."""
        order = np.argsort(self.class_of, kind="stable").astype(np.int32)
        return order, np.searchsorted(self.class_of.take(order), np.arange(self.classes + 1))

    @cached_property
    def masks(self) -> WeakValueDictionary[bytes, Any]:
        """The masks in use, by the classes that they allow, so that `RowMask` shares equal ones."""
        return WeakValueDictionary()

    @cached_property
    def _listings(self) -> Iterator[int]:
        return count(1)

    def short_list(self, chosen: NDArray[np.bool_], longest: float) -> tuple[bool, Ints] | None:
        """Return the token ids of the chosen classes, or of all other classes, if one of these lists is short.

        Args:
            chosen: [C] Which classes are chosen.
            longest: The most ids of a short list.

        Returns:
            Whether the ids are those of the chosen classes, and the ids in any order; None if neither list is short.
        """
        if self._alive is not None and not chosen[0]:
            ids, classes = self._alive
            ids = ids[chosen.take(classes)]
            return (True, ids) if len(ids) <= longest else None
        # Building the index by class takes as long as a few passes over all ids, so it is only built after some calls.
        if next(self._listings) < WORTH_AN_INDEX:
            legal = self.per_token(chosen)
            count = int(np.count_nonzero(legal))
            if count <= longest:
                return True, np.flatnonzero(legal)
            return (False, np.flatnonzero(~legal)) if len(legal) - count <= longest else None
        order, begin = self.by_class
        sizes = begin[1:] - begin[:-1]
        count = int(sizes[chosen].sum())
        if min(count, len(order) - count) > longest:
            return None
        are_chosen = count <= longest
        which = np.flatnonzero(chosen if are_chosen else ~chosen)
        place, _ = expand(begin[which], sizes[which])
        return are_chosen, order[place].astype(np.int64)

    def per_token(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the value of each token's class: [C] to [V]."""
        if values.dtype == bool and np.count_nonzero(values) <= FEW_CLASSES:
            # Comparing all tokens with one class takes a tenth of the time of a look-up.
            legal = np.zeros(len(self.class_of), bool)
            for symbol in np.flatnonzero(values).tolist():
                legal |= self.class_of == symbol
            return legal
        if values.itemsize == self.class_of.itemsize == 1:
            table = values.tobytes().ljust(256, b"\0")
            return np.frombuffer(self.class_of.tobytes().translate(table), values.dtype)
        # torch gathers from a small table several times faster than numpy does.
        classes = torch.from_numpy(self.class_of.astype(np.int32))
        chosen: NDArray[Any] = torch.from_numpy(values).index_select(0, classes).numpy()
        return chosen
