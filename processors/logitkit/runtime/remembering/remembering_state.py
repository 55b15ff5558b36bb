"""The state of rows that remember the items of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from logitkit.compiler.bytes.byte_dfa import DEAD
from logitkit.compiler.tokens.tables.packed_stacks import frames_of, rows_of
from logitkit.errors import StateFileError
from logitkit.protocol.context import Context
from logitkit.protocol.described import per_row
from logitkit.protocol.state import Fill
from logitkit.runtime.automaton_registry import NEUTRAL
from logitkit.runtime.automaton_state import AutomatonState
from logitkit.runtime.constraint_row import ConstraintRow, NeutralRow
from logitkit.runtime.constraint_state import ConstraintState
from logitkit.runtime.positions import Numbers, RowPositions
from logitkit.runtime.remembering.byte_steps import steps_of
from logitkit.runtime.remembering.remembering_row import NOTHING, Memory, RememberingRow

__all__ = ["Remembering", "RememberingState"]

# Stands after the end of a text.
NONE = -1
MOST_BYTE = 255


class RememberingState(NamedTuple):
    """The position of each row, and the text of the array whose items it remembers.

    Args:
        rows: The positions; the tokens that are left are not counted.
        began: [B, 2] int64, the state after the bracket of the outermost such array, 0 if there is none, and the number of
            frames then.
        text: [B, N] int16, the bytes from this bracket on, then -1.
    """

    rows: ConstraintState
    began: Tensor
    text: Annotated[Tensor, Fill(NONE)]

    @property
    def runs_on_host(self) -> bool:
        """Whether steps run on the host, wherever the tensors are."""
        return True

    @classmethod
    def start(cls, rows: ConstraintState) -> RememberingState:
        """Return the state of rows that have remembered nothing."""
        count, device = len(rows.left), rows.left.device
        began = torch.zeros((count, 2), dtype=torch.int64, device=device)
        return cls(rows, began, torch.full((count, 0), NONE, dtype=torch.int16, device=device))

    @property
    def row_states(self) -> Tensor:
        """[B] int64: 0 where a row is dead, 1 where it is finished, else more."""
        return self.rows.row_states

    @property
    def left(self) -> Tensor:
        """[B] int64, the number of tokens left to each row: not counted."""
        return self.rows.left

    @property
    def has_frames(self) -> bool:
        """Whether rows have room for frames, as far as batches are concerned: all that remember have."""
        return True

    @property
    def slots(self) -> Tensor:
        """[B] int64, the slots of the rows."""
        return self.rows.slots

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All tensors."""
        return (*self.rows.tensors, self.began, self.text)

    def host_rows(self, registry: Any) -> list[ConstraintRow]:
        """Return the rows as Python numbers."""
        (slots, generations, states), stacks = (part.tolist() for part in self.rows.at), rows_of(self.rows.stack)
        columns = zip(slots, generations, states, stacks, self._memories(), strict=True)
        return [
            NeutralRow(registry, slot, generation, [(state, stack)])
            if slot == NEUTRAL
            else RememberingRow(registry, slot, generation, state, stack, memory)
            for slot, generation, state, stack, memory in columns
        ]

    def _memories(self) -> list[Memory]:
        texts = self.text.numpy()
        lengths = (texts != NONE).sum(1).tolist()
        columns = zip(self.began.tolist(), texts, lengths, strict=True)
        return [
            Memory(state, depth, text[:length].astype(np.uint8).tobytes()) if state != DEAD else NOTHING
            for (state, depth), text, length in columns
        ]

    def numbers_of(self, rows: Sequence[Any]) -> Numbers:
        """Return the positions of rows, and what they remember."""
        return (*self.rows.numbers_of(rows), [getattr(row, "memory", NOTHING) for row in rows])

    def with_numbers(self, numbers: Numbers, before: Numbers | None = None) -> RememberingState:
        """Return the rows at other positions; see `RowState`."""
        *of_rows, memories = numbers
        rows = self.rows.with_numbers(tuple(of_rows), None if before is None else before[:-1])
        if before is not None and memories == before[-1]:
            return self._replace(rows=rows)
        texts = np.full((len(memories), max(len(memory.text) for memory in memories)), NONE, np.int16)
        for row, memory in enumerate(memories):
            texts[row, : len(memory.text)] = np.frombuffer(memory.text, np.uint8)
        began = np.array([memory[:2] for memory in memories], np.int64)
        return RememberingState(rows, torch.from_numpy(began), torch.from_numpy(texts))

    @property
    def positions(self) -> RowPositions:
        """The positions of the rows as tensors, without what they remember."""
        return self.rows.positions

    def at_positions(self, positions: RowPositions) -> RememberingState:
        """Return the state of the rows at other positions."""
        return self._replace(rows=self.rows.at_positions(positions))

    def finished(self, rows: Tensor) -> RememberingState:
        """Return a state in which some rows, [B] bool, have had EOS."""
        began, text = (
            torch.where(rows[:, None], nothing, part) for part, nothing in ((self.began, DEAD), (self.text, NONE))
        )
        return RememberingState(self.rows.finished(rows), began, text)

    def problem(self) -> str | None:
        """Describe an impossible value in a state read from a file, or return None."""
        text = self.text
        if self.began.dim() != 2 or self.began.shape[1] != 2 or text.dim() != 2:
            return "began is not [B, 2], or text is not [B, N]"
        if bool(((text < NONE) | (text > MOST_BYTE)).any()) or bool(
            ((text[:, :-1] == NONE) & (text[:, 1:] != NONE)).any()
        ):
            return "text is not bytes, and then -1"
        return None

    def to_portable(self, processor: Any) -> tuple[RememberingState, list[Any]]:
        """Return the state; `rows` replaces its own references to this process."""
        return self, []

    def from_portable(self, notes: object, processor: Any, device: torch.device) -> RememberingState:
        """Return the state, whose automata are already bound.

        Raises:
            StateFileError: The text that a row remembers is impossible for its automaton.
        """
        registry = processor.registry
        (slots, generations, _), stacks = (part.tolist() for part in self.rows.at), rows_of(self.rows.stack)
        columns = zip(slots, generations, stacks, self._memories(), strict=True)
        for number, (slot, generation, stack, memory) in enumerate(columns):
            if memory == NOTHING:
                continue
            steps = None if slot == NEUTRAL else steps_of(registry.automaton(slot, generation))
            if not (
                steps is not None
                and steps.is_beginning(memory.state)
                and 0 <= memory.depth <= len(frames_of(stack))
                and memory.text.startswith(b"{" if steps.remembers_names(memory.state) else b"[")
            ):
                raise StateFileError(
                    f"row {number} remembers a text that does not begin with an array that it remembers"
                )
        for number, (row, state) in enumerate(zip(self.host_rows(registry), self.row_states.tolist(), strict=True)):
            position = row.position if isinstance(row, RememberingRow) else None
            if position is not None and (position.state, position.stack) != (row.current, row.stack):
                raise StateFileError(f"row {number} remembers a text that does not lead to its state")
            # A row whose text its automaton does not allow is dead.
            if row.current != state:
                raise StateFileError(f"row {number} remembers a text that its automaton does not allow")
        return self


class Remembering:
    """The step of rows that may remember items, for batches with rows that do not take it."""

    @classmethod
    def neutral_state(cls, context: Context) -> RememberingState:
        """Return the state of rows without a constraint."""
        stack = torch.zeros((context.batch_size, 0), dtype=torch.int32, device=context.device)
        left = per_row(context, -1)
        return RememberingState.start(ConstraintState(AutomatonState.neutral(context), stack, left))
