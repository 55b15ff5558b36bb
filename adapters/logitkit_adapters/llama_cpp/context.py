"""The single context of a `Llama`, which the sequences of all its sessions and generators use in turns.

The contents are known by their tokens. But keys that were moved to the front, as a rolling session does, depend on what came
before them, although they stand for the same tokens. So contents that were shifted have a mark of their own, as have their
snapshots, and are never taken for others. The `Llama` itself does not know of marks: such contents must not be left to it.
"""

from __future__ import annotations

import ctypes
import weakref
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any, Protocol

import llama_cpp
import numpy as np
import torch
from torch import Tensor

__all__ = ["Kept", "SharedContext", "context_of"]

# By the address of the `Llama`, which lives as long as its context. That in turn lives as long as anything uses it: a reference
# from the `Llama` would be a cycle, so that its memory would be freed late.
_contexts: weakref.WeakValueDictionary[int, SharedContext] = weakref.WeakValueDictionary()
_lock = Lock()

# The sequence currently in the context of each `Llama`.
OWN = 0


def context_of(llama: llama_cpp.Llama) -> SharedContext:
    """Return the context of a `Llama`, which all that use it at the same time share."""
    with _lock:
        found = _contexts.get(id(llama))
        if found is None:
            found = _contexts[id(llama)] = SharedContext(llama)
        return found


class Kept:
    """A snapshot of a sequence's cache: at the front of the context until something else needs that, then a copy.

    Args:
        tokens: The tokens whose positions are cached.
        is_cuttable: Whether the first positions can be restored without the rest.
        mark: The mark of the contents, None if they were never shifted.
        data: llama.cpp's copy of these positions, and possibly of later ones; None while they are only in the context.
    """

    def __init__(self, tokens: tuple[int, ...], is_cuttable: bool, mark: object = None) -> None:
        self.tokens = tokens
        self.is_cuttable = is_cuttable
        self.mark = mark
        self.data: bytes | None = None


class Owner(Protocol):
    """A sequence whose turn it is."""

    @property
    def tokens(self) -> tuple[int, ...]:
        """The tokens whose positions are cached."""

    @property
    def ids(self) -> array[int]:
        """The same as 32-bit numbers, as in the context."""

    def park(self) -> None:
        """Save the cache, because another sequence gets its turn."""


class SharedContext:
    """The context of a `Llama`, and its contents.

    Its contents always agree with the `n_tokens` and `input_ids` of the `Llama`. So the methods of the `Llama` continue from
    them, and a use of the `Llama` by other code in between is detected.

    Args:
        llama: The model, with its context.
    """

    def __init__(self, llama: llama_cpp.Llama) -> None:
        self._llama: Any = llama
        self._row: Any = ctypes.c_float * llama.n_vocab()
        self._owner: weakref.ref[Owner] | None = None
        self._unwritten: weakref.WeakSet[Kept] = weakref.WeakSet()
        self._mark: object = None
        # Keys are moved in the next pass. A copy that is made before would have the old keys in the new places.
        self._is_shifting = False
        self.is_busy = False
        model = llama.model
        folded = llama_cpp.llama_model_is_recurrent(model) or llama_cpp.llama_model_is_hybrid(model)
        self.is_cuttable = not folded and llama_cpp.llama_model_n_swa(model) == 0

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Say that the contents are changing: what the garbage collector closes meanwhile must leave them alone."""
        before, self.is_busy = self.is_busy, True
        try:
            yield
        finally:
            self.is_busy = before

    @property
    def memory(self) -> Any:
        """The memory of the context."""
        return llama_cpp.llama_get_memory(self._llama.ctx)

    def is_turn_of(self, owner: Owner) -> bool:
        """Whether the context contains exactly the tokens of a sequence, whose turn it is."""
        is_owner = self._owner is not None and self._owner() is owner
        return is_owner and self._llama.n_tokens == len(owner.ids) and self._holds(owner.ids)

    def begin_turn(self, owner: Owner) -> None:
        """Declare the contents of the context to be the cache of a sequence."""
        self._owner = weakref.ref(owner)

    def park(self) -> None:
        """Let the current sequence save its cache, if that is still needed and present."""
        owner = None if self._owner is None else self._owner()
        if owner is not None and self.is_turn_of(owner) and not self._is_shifting:
            owner.park()
        self._owner = None

    def keep(self, owner: Owner) -> Kept:
        """Return a snapshot of the contents, which is copied only when it is about to be lost."""
        kept = Kept(owner.tokens, self.is_cuttable, self._mark)
        self._unwritten.add(kept)
        return kept

    def can_load(self, kept: Kept) -> bool:
        """Whether a cache has been copied, or is still in the context."""
        return kept.data is not None or self._contains(kept)

    def copy_out(self, kept: Kept) -> bool:
        """Copy a cache, if that has not been done; return False if it is lost."""
        with self.busy():
            if kept.data is None and self._contains(kept):
                self._unwritten.add(kept)
                self._write(0)
        return kept.data is not None

    def load(self, kept: Kept, length: int) -> bool:
        """Load the first tokens of a cache into the context; return False if it is lost."""
        if self._contains(kept):
            return self.cut(length)
        if kept.data is None:
            return False
        self.clear()
        buffer = (ctypes.c_uint8 * len(kept.data)).from_buffer_copy(kept.data)
        if not llama_cpp.llama_state_seq_set_data(self._llama.ctx, buffer, len(kept.data), OWN):
            return False
        self._mark = kept.mark
        # The copy may contain later positions, which the cut removes.
        self._llama.input_ids[: len(kept.tokens)] = kept.tokens
        self._llama.n_tokens = len(kept.tokens)
        return self.cut(length)

    def clear(self) -> None:
        """Empty the context, unless the `Llama` was closed."""
        if self._llama.ctx is None:
            return
        with self.busy():
            self._write(0)
            # First, because an interruption may come between any two lines, and must not leave tokens without positions.
            self._llama.n_tokens = 0
            self._llama._requires_eval = True  # noqa: SLF001
            llama_cpp.llama_memory_clear(self.memory, True)
            self._mark, self._is_shifting = None, False

    def cut(self, length: int) -> bool:
        """Cut the context to its first positions; return False if the cache cannot be cut there."""
        llama, before = self._llama, self._llama.n_tokens
        if length <= llama_cpp.llama_memory_seq_pos_max(self.memory, OWN):
            self._write(length)
            if length and not self._has_window(length):
                return False
            llama.n_tokens = length
            llama._requires_eval = True  # noqa: SLF001
            if not llama_cpp.llama_memory_seq_rm(self.memory, OWN, length, -1):
                llama.n_tokens = before
                return False
        llama.n_tokens = length
        return True

    def shift(self, drop: int) -> bool:
        """Remove the first positions, and move the others to the front; return False if the cache does not support it."""
        self._write(0)
        if not llama_cpp.llama_memory_can_shift(self.memory):
            return False
        llama, left = self._llama, self._llama.n_tokens - drop
        self._mark, self._is_shifting = object(), True
        llama.n_tokens = 0
        llama._requires_eval = True  # noqa: SLF001
        llama_cpp.llama_memory_seq_rm(self.memory, OWN, 0, drop)
        llama_cpp.llama_memory_seq_add(self.memory, OWN, drop, -1, -drop)
        llama.input_ids[:left] = llama.input_ids[drop : drop + left].copy()
        llama.n_tokens = left
        return True

    def run(self, tokens: Sequence[int], all_positions: bool) -> Tensor:
        """Run tokens after those in the context, and return the logits of all of them or of the last."""
        llama, before = self._llama, self._llama.n_tokens
        steps = [1] * len(tokens) if all_positions else [len(tokens)]
        rows, done = [], 0
        try:
            for step in steps:
                llama.eval(list(tokens[done : done + step]))
                done += step
                found = llama_cpp.llama_get_logits_ith(llama.ctx, -1)
                rows.append(np.frombuffer(self._row.from_address(ctypes.addressof(found.contents)), np.float32).copy())
        except BaseException:
            # The positions after that may be incomplete.
            llama.n_tokens = before
            if not llama_cpp.llama_memory_seq_rm(self.memory, OWN, before, -1):
                llama_cpp.llama_memory_clear(self.memory, True)
                llama.n_tokens = 0
            llama._requires_eval = True  # noqa: SLF001
            raise
        self._is_shifting = False
        return torch.from_numpy(np.stack(rows)) if all_positions else torch.from_numpy(rows[0])

    def _holds(self, tokens: Sequence[int]) -> bool:
        """Whether the context begins with these tokens."""
        llama = self._llama
        if len(tokens) > llama.n_tokens:
            return False
        # Comparing bytes is several times as fast as comparing numbers, and this runs before every token.
        ids = tokens if isinstance(tokens, array) else array("i", tokens)
        return bool(llama.input_ids[: len(ids)].tobytes() == ids.tobytes())

    def _contains(self, kept: Kept) -> bool:
        """Whether a cache is at the front of the context."""
        return kept.mark is self._mark and self._holds(kept.tokens)

    def _has_window(self, length: int) -> bool:
        """Whether the cache has every position that the next token attends to: with a sliding window, it forgets some."""
        first = llama_cpp.llama_memory_seq_pos_min(self.memory, OWN)
        window = llama_cpp.llama_model_n_swa(self._llama.model)
        return bool(first <= 0 or (window > 0 and first <= length - window))

    def _write(self, length: int) -> None:
        """Copy every snapshot that needs more than the first `length` positions of the context."""
        losing = [kept for kept in self._unwritten if len(kept.tokens) > length]
        there = [] if self._is_shifting else [kept for kept in losing if self._contains(kept)]
        if there:
            size = llama_cpp.llama_state_seq_get_size(self._llama.ctx, OWN)
            buffer = (ctypes.c_uint8 * size)()
            written = llama_cpp.llama_state_seq_get_data(self._llama.ctx, buffer, size, OWN)
            data = bytes(memoryview(buffer)[:written])
            for kept in there:
                kept.data = data
        for kept in losing:
            self._unwritten.discard(kept)
