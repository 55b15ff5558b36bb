"""Batches in an mlx engine: prompts run one by one, and all rows step together in the engine's own batch caches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import torch
from torch import Tensor

from logitkit.sessions.sequence_state import SequenceState
from logitkit_adapters.arrays import logits_to_torch
from logitkit_adapters.mlx.sequence import MlxEngine, MlxSequence
from logitkit_adapters.sessions.batch import BatchRun
from logitkit_adapters.sessions.batch_of_sequences import CachedRow, SequenceBatches

__all__ = ["MlxBatches"]


class MlxBatches(SequenceBatches):
    """A model of an mlx engine. Its rows step together if all layers keep all positions, and otherwise one after another."""

    engine: MlxEngine

    @property
    def row_by_row(self) -> bool:
        """Whether a forward pass runs one row: layers with a window or a recurrent state would see what follows an ended row."""
        return any(type(layer) is not self.engine.all_positions for layer in self.engine.make_cache())

    def run(self, state: SequenceState) -> BatchRun:
        """Return a run of the rows of a state."""
        if self.row_by_row:
            return super().run(state)
        return MlxRun(self.engine, self.sequences(state), state.rows)


class MlxRun:
    """Rows being generated.

    Args:
        engine: The model.
        sequences: The cached sequence of each row.
        rows: The tokens of each row.
    """

    def __init__(self, engine: MlxEngine, sequences: list[Any], rows: Sequence[Sequence[int]]) -> None:
        self._engine = engine
        # Sequences before the first step, and then their tokens and the caches of the layers.
        self._sequences: list[MlxSequence] = sequences
        self._rows = [list(row) for row in rows]
        self._layers: list[Any] = []

    def start(self) -> Tensor:
        """Feed the uncached tokens of each row."""
        pairs = zip(self._sequences, self._rows, strict=True)
        return torch.stack([sequence.feed(row[sequence.length :]).to(torch.float32) for sequence, row in pairs])

    def step(self, tokens: Tensor, active: Tensor) -> Tensor:
        """Feed one token per row; that of an ended row is written after its positions, which nothing reads any more."""
        if not self._layers:
            caches: Any = zip(*(sequence.cache for sequence in self._sequences), strict=True)
            self._layers = [of_layer[0].merge(of_layer) for of_layer in caches]
            self._compute()
            # Their caches have been copied.
            self._sequences = []
        fed = tokens.tolist()
        output = self._engine.forward(mx.array(fed)[:, None], self._layers)[:, -1]
        self._compute(output)
        for row, token, goes_on in zip(self._rows, fed, active.tolist(), strict=True):
            if goes_on:
                row.append(token)
        return logits_to_torch(output).tensor.to(torch.float32)

    def select(self, rows: Tensor) -> None:
        """Continue with the given rows."""
        places = rows.tolist()
        self._rows = [[*self._rows[place]] for place in places]
        if self._layers:
            for layer in self._layers:
                layer.filter(mx.array(places))
            self._compute()
        else:
            # A sequence that is here twice is copied when sequences are merged.
            self._sequences = [self._sequences[place] for place in places]

    def cache(self) -> list[CachedRow]:
        """Return the caches of the rows."""
        if self._layers:
            self._sequences = [self._sequence(place, row) for place, row in enumerate(self._rows)]
        return [CachedRow(sequence.save(), sequence.length) for sequence in self._sequences]

    def _sequence(self, place: int, tokens: list[int]) -> MlxSequence:
        """Return a row by itself."""
        cache = [layer.extract(place) for layer in self._layers]
        for layer in cache:
            layer.trim(layer.offset - len(tokens))
        return self._engine.sequence(self._engine, tokens, cache)

    def _compute(self, *outputs: mx.array) -> None:
        """Compute all arrays at once, since another thread may go on."""
        mx.eval(*outputs, *(part for layer in self._layers for part in layer.state[:4] if part is not None))
