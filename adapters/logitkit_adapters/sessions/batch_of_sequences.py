"""Batches in an engine that runs one sequence at a time: a list of sequences."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from logitkit.sessions.cache_port import SavedCache
from logitkit.sessions.packing import Packing
from logitkit.sessions.reuse import common_prefix
from logitkit.sessions.sequence_state import SequenceState
from logitkit_adapters.sessions.batch import BatchEngine, BatchRun
from logitkit_adapters.sessions.sequence import CachedSequence, SavedSequence, SequenceEngine

__all__ = ["CachedRow", "SequenceBatches", "SequenceRun"]


class CachedRow(NamedTuple):
    """The cache of one row.

    Args:
        saved: The saved sequence, or None.
        length: The number of its first tokens that belong to the row.
    """

    saved: SavedSequence | None
    length: int


class SequenceBatches(BatchEngine):
    """A model of an engine that runs rows one by one; those of the mlx engines may step together."""

    @property
    def row_by_row(self) -> bool:
        """Whether a forward pass runs one row."""
        return True

    def run(self, state: SequenceState) -> BatchRun:
        """Return a run of the rows of a state."""
        return SequenceRun(self.engine, self.sequences(state), state.rows)

    def sequences(self, state: SequenceState) -> list[CachedSequence]:
        """Return a sequence for each row, with the cached part of the row."""
        cache = state.kv_cache if state.kv_cache is not None and self.owns(state) else [CachedRow(None, 0)] * len(state)
        return [self._begun(row, held) for row, held in zip(state.rows, cache, strict=True)]

    def continuations(self, prompt: Sequence[int], rows: Sequence[Sequence[int]]) -> Iterator[Tensor]:
        """Yield the logits of each row; what a row shares with the one before is not fed again, if the cache can be cut."""
        sequence = self.engine.new()
        path, before = [sequence.feed(prompt).to(torch.float32)], tuple[int, ...]()
        for row in rows:
            shared = common_prefix(before, row)
            if shared < len(before) and not sequence.trim(len(prompt) + shared):
                sequence, shared = self.engine.new(), 0
                sequence.feed(prompt)
            rest = row[shared:]
            path = path[: shared + 1] + ([*sequence.feed(rest, all_positions=True).to(torch.float32)] if rest else [])
            before = tuple(row)
            yield torch.stack(path)

    def read(self, saved: SavedCache, rows: Sequence[Sequence[int]]) -> list[CachedRow]:
        """Return the saved sequences of rows, each as far as it has the same tokens."""
        found = [self.engine.read(self._file(saved.folder, row)) for row in range(saved.rows)]
        cache = [CachedRow(one, 0 if one is None else len(one.tokens)) for one in found]
        if saved.packing is not None:
            cache = self.repacked(cache, saved.packing)
        return [
            held._replace(length=0 if held.saved is None else min(held.length, common_prefix(held.saved.tokens, row)))
            for held, row in zip(cache, rows, strict=True)
        ]

    def repacked(self, cache: Sequence[CachedRow], packing: Packing) -> list[CachedRow]:
        """Return the caches of other rows. Sequences have no columns, so each keeps everything that it has."""
        kept = zip(packing.rows.tolist(), packing.kept.tolist(), strict=True)
        return [CachedRow(cache[row].saved, min(cache[row].length, length)) for row, length in kept]

    def batched(self, states: Sequence[SequenceState], paddings: Sequence[int], cached: int) -> list[CachedRow] | None:
        """Return the caches of the rows of several states, each as long as it is."""
        return [row for state in states for row in state.kv_cache] if all(map(self.owns, states)) else None

    def save(self, cache: Sequence[CachedRow], folder: os.PathLike[str]) -> bool:
        """Write a file for each row whose cache can be saved."""
        for old in Path(folder).glob(f"{self.name}.*"):
            old.unlink()
        with self.lock:
            written = [
                held.saved is not None
                and held.length > 0
                and self.engine.write(held.saved, held.length, self._file(folder, row))
                for row, held in enumerate(cache)
            ]
        return any(written)

    def _file(self, folder: str | os.PathLike[str], row: int) -> Path:
        return Path(folder) / f"{self.name}.{row}.safetensors"

    def _begun(self, row: tuple[int, ...], held: CachedRow) -> CachedSequence:
        """Return a sequence with the cached part of a row, except for its last token, which is fed."""
        length = min(held.length, len(row) - 1)
        if held.saved is None or length <= 0 or held.saved.tokens[:length] != row[:length]:
            return self.engine.new()
        return self.engine.restore(held.saved, length) or self.engine.new()


class SequenceRun:
    """Rows being generated.

    Args:
        engine: The model.
        sequences: The cached sequence of each row.
        rows: The tokens of each row.
    """

    def __init__(self, engine: SequenceEngine, sequences: list[CachedSequence], rows: Sequence[Sequence[int]]) -> None:
        self._engine = engine
        self._sequences = sequences
        self._rows = rows

    def start(self) -> Tensor:
        """Feed the uncached tokens of each row."""
        pairs = zip(self._sequences, self._rows, strict=True)
        return torch.stack([sequence.feed(row[sequence.length :]).to(torch.float32) for sequence, row in pairs])

    def step(self, tokens: Tensor, active: Tensor) -> Tensor:
        """Feed one token to each row that continues."""
        found = [
            sequence.feed([token]).to(torch.float32) if there else None
            for sequence, token, there in zip(self._sequences, tokens.tolist(), active.tolist(), strict=True)
        ]
        blank = torch.zeros_like(next(logits for logits in found if logits is not None))
        return torch.stack([blank if logits is None else logits for logits in found])

    def select(self, rows: Tensor) -> None:
        """Continue with the given rows; repeated rows are copied."""
        before, taken = self._sequences, set[int]()
        self._sequences = []
        for row in rows.tolist():
            self._sequences.append(self._forked(before[row]) if row in taken else before[row])
            taken.add(row)

    def only(self, row: int) -> SequenceRun:
        """Return the run of one row."""
        return SequenceRun(self._engine, [self._sequences[row]], ())

    def cache(self) -> list[CachedRow]:
        """Return the caches of the rows."""
        return [CachedRow(sequence.save(), sequence.length) for sequence in self._sequences]

    def _forked(self, sequence: CachedSequence) -> CachedSequence:
        fork = sequence.fork()
        if fork is None:
            # A cache that cannot be copied is recomputed.
            fork = self._engine.new()
            fork.feed(sequence.tokens)
        return fork
