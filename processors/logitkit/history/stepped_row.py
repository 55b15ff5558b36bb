"""A short cut in front of a resolver: a row alone that goes on by a token is stepped on the spot."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from logitkit.automata.lone_row import LoneRow
from logitkit.processor import Processor
from logitkit.stepping import first_row, row_of

__all__ = ["SteppedRow"]

S = TypeVar("S")

# Bytes of the ids that resolvers take.
WIDTHS = (4, 8)


class SteppedRow(Generic[S]):
    """Step the row of the last call, where a call goes on from it by one token or repeats it.

    What is stepped the resolver does not see. Before it is asked about anything else, `missed` tells what it has to be told.

    Args:
        processor: Whose states they are. Those that have no `LoneRow` are never stepped.

    Example:
        >>> import logitkit as lk
        >>> regex = lk.Regex("01*", lk.Vocabulary([b"0", b"1", None], eos_ids=[2]))
        >>> state = regex.init_state(lk.Context.of([[1]], vocabulary_size=3))
        >>> stepped = SteppedRow(regex)
        >>> ids = np.array([1, 0])
        >>> stepped.begin(ids[:1].tobytes(), ids.itemsize, 3, state)
        >>> row = stepped.step(ids.tobytes(), ids.itemsize, 3)
        >>> row is not None and torch.equal(row.state.state, regex.advance(state, torch.tensor([0])).state)
        True
        >>> [shown.tolist() for shown in stepped.missed()]
        [[[1, 0]]]
    """

    def __init__(self, processor: Processor[S]) -> None:
        self._processor = processor
        self._row: LoneRow | None = None
        self._known, self._width, self._columns = b"", 0, 0
        # The fewest bytes of ids that the resolver has not seen: with one token more than it has, or with the prompt.
        self._untold = 0
        self._begun = False

    def step(self, ids: bytes, width: int, columns: int) -> LoneRow | None:
        """Return the row, stepped to these ids, or None if that takes a resolver.

        Args:
            ids: The memory of all token ids of the row, prompt and pads included, in the order of bytes of this machine.
            width: Bytes of an id.
            columns: Of the logits.
        """
        row = self._row
        if row is None or columns != self._columns:
            return None
        if width != self._width:
            self._widen(width)
        known = self._known
        if width != self._width or not ids.startswith(known):
            return None
        more = len(ids) - len(known)
        if more:
            token = int.from_bytes(ids[-width:], sys.byteorder, signed=True)
            if more != width or token < 0:
                return None
            row.advance(token)
            self._known = ids
        return row

    def _widen(self, width: int) -> None:
        """Note what is known in ids of so many bytes: mlx-lm shows a prompt of 32 bits, and from its first token on 64."""
        if width in WIDTHS and self._width in WIDTHS:
            self._known = np.frombuffer(self._known, f"i{self._width}").astype(f"i{width}").tobytes()
            self._untold = self._untold // self._width * width
            self._width = width

    def start(self, ids: bytes, width: int, columns: int) -> LoneRow | None:
        """Return the row that a prompt begins, or None if that takes a resolver; it does from the second time on.

        Args:
            ids: All of them are prompt; else see `step`.
            width: Bytes of an id.
            columns: Of the logits.

        Raises:
            VocabularyError: There are fewer columns than the vocabulary has ids.
        """
        if self._begun or width not in WIDTHS or not ids or np.frombuffer(ids, f"i{width}").min() < 0:
            return None
        row = first_row(self._processor, columns)
        if row is not None:
            self._take(row, ids, width, columns)
            self._untold = len(ids)
        return row

    def begin(self, ids: bytes, width: int, columns: int, state: S) -> None:
        """Go on from what a resolver found: for the arguments see `step`, and the state of the row."""
        self._take(row_of(self._processor, state), ids, width, columns)
        self._untold = len(ids) + width

    def _take(self, row: LoneRow | None, ids: bytes, width: int, columns: int) -> None:
        self._row, self._begun = row, True
        self._known, self._width, self._columns = ids, width, columns

    @property
    def state(self) -> Any:
        """The state of the row, or None if there is none."""
        return None if self._row is None else self._row.state

    @property
    def columns(self) -> int:
        """Columns of the logits of the row."""
        return self._columns

    def missed(self) -> Iterator[Tensor]:
        """Yield all ids of the row, [1, L], at each call that the resolver was not asked about; after that there is no row."""
        if self._row is not None and self._untold <= len(self._known):
            ids = torch.from_numpy(np.frombuffer(self._known, np.dtype(f"i{self._width}")).copy())[None]
            for length in range(self._untold // self._width, ids.shape[1] + 1):
                yield ids[:, :length]
        # Not before all are told: whoever tells them may be interrupted.
        self._row = None
