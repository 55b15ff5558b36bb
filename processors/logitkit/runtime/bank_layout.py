"""The tables of a bank on one device, with spare capacity: a new automaton is written into them in place.

Rebuilding all tables for every automaton that a server's request brings would delay its step by tens of milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.compiler.tokens.counted_state import MOST
from logitkit.compiler.tokens.token_automaton import TokenAutomaton
from logitkit.compiler.tokens.token_table import STAY
from logitkit.protocol.state import walk
from logitkit.runtime.bank_tables import NEUTRAL_ROWS, BankTables
from logitkit.runtime.row_mask import finished_ids
from logitkit.runtime.stack_tables import StackTables
from logitkit.runtime.step_graphs import StepGraphs, capture_on

__all__ = ["BankLayout"]

# For a slot without an automaton, hence without outcomes: larger than any target.
NO_OUTCOMES = 2**30


class BankLayout:
    """Tables with spare capacity, and the amount in use.

    Args:
        automata: The automaton of each slot, or None; slot 0 is neutral.
        generations: The generation of each slot.
        device: The device of the tables.
    """

    def __init__(
        self, automata: Sequence[TokenAutomaton | None], generations: Sequence[int], device: torch.device
    ) -> None:
        self.device = device
        # They read these tables where they are, so each layout has its own graphs.
        self.graphs = StepGraphs(capture_on(device))
        present = [a for a in automata if a is not None]
        self._allocate(present, room(len(automata)))
        # Outcome 0 is a placeholder, read by rows without one.
        self._rows, self._places, self._outcomes = NEUTRAL_ROWS, 0, 1
        for slot, automaton in enumerate(automata):
            if automaton is not None:
                self._write(slot, automaton, generations[slot])

    def nbytes(self) -> int:
        """Return the total size of the tables in bytes."""
        return sum(table.nbytes for _, table in walk(self.stacks) if isinstance(table, Tensor))

    def _full(self, shape: tuple[int, ...], value: int, dtype: torch.dtype) -> Tensor:
        """Return a new tensor of one value."""
        return torch.full(shape, value, dtype=dtype, device=self.device)

    def _allocate(self, present: Sequence[TokenAutomaton], slots: int) -> None:
        """Create tables for these automata, in which all slots are neutral and only the generation of slot 0 matches."""
        rows = room(NEUTRAL_ROWS + sum(len(a.row_start) for a in present))
        # One entry after the last row, so that an empty row has something to read.
        places = room(sum(len(a.row_class) for a in present) + 1)
        size = max((len(a.class_of) for a in present), default=1)
        classes = room(max((a.classes for a in present), default=1))
        wide = any(a.class_of.dtype == np.int32 for a in present)
        eos_ids, pad_id = (present[0].eos_ids, present[0].pad_id) if present else ((), None)
        self.tables = BankTables(
            generation=self._full((slots,), -1, torch.int64),
            class_of=self._full((slots, size), 0, torch.int32 if wide else torch.int16),
            default=self._full((slots, classes), STAY, torch.int32),
            first_row=self._full((slots,), 0, torch.int64),
            row_start=self._full((rows + 1,), 0, torch.int64),
            row_class=self._full((places,), 0, torch.int32),
            row_target=self._full((places,), 0, torch.int32),
            fallback=torch.arange(rows, device=self.device),
            lane=torch.arange(room(max((_longest_row(a) for a in present), default=1)), device=self.device),
            link=torch.arange(max((a.longest_chain for a in present), default=1), device=self.device),
            eos_ids=torch.tensor(eos_ids, dtype=torch.int64, device=self.device),
            finished_ids=torch.from_numpy(finished_ids(eos_ids, pad_id)).to(self.device),
        )
        self.tables.generation[0] = 0
        nestings = [a.nesting for a in present]
        outcomes = room(1 + sum(len(n.state) for n in nestings))
        widest = room(max((n.pushed.shape[1] for n in nestings), default=1))
        self.stacks = StackTables(
            self.tables,
            cost=self._full((len(self.tables.row_start),), 0, torch.int32),
            states=self._full((slots,), NO_OUTCOMES, torch.int64),
            first_outcome=self._full((slots,), 0, torch.int64),
            max_depth=self._full((slots,), 0, torch.int64),
            first_block=self._full((slots if any(n.blocks for n in nestings) else 0,), NO_OUTCOMES, torch.int64),
            state=self._full((outcomes,), 0, torch.int32),
            pushed=self._full((outcomes, widest), 0, torch.int32),
            rest=self._full((outcomes,), 0, torch.int32),
            height=self._full((outcomes,), 0, torch.int32),
            outcome_cost=self._full((outcomes,), 0, torch.int32),
            counting=self._full((4, outcomes if any(n.counting is not None for n in nestings) else 0), 0, torch.int32),
            round=torch.arange(max((n.pops for n in nestings), default=0), device=self.device),
        )

    def put(self, slot: int, automaton: TokenAutomaton | None, generation: int) -> bool:
        """Write one slot: an automaton, or None for an empty slot.

        Other slots are not touched, so their rows can be stepped meanwhile. The space of a removed automaton is reused only
        when all tables are laid out again.

        Returns:
            Whether there was enough capacity; if not, nothing has changed.
        """
        if automaton is None:
            if slot < len(self.tables.generation):
                self.tables.generation[slot] = -1
            return True
        if not self._has_room(slot, automaton):
            return False
        self._write(slot, automaton, generation)
        return True

    def settle(self) -> None:
        """Wait until everything is written, because other threads may read it in other streams of the device."""
        if self.device.type == "cuda" and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            torch.cuda.current_stream(self.device).synchronize()

    def _has_room(self, slot: int, automaton: TokenAutomaton) -> bool:
        tables, nesting = self.tables, automaton.nesting
        return (
            slot < len(tables.generation)
            and automaton.classes <= tables.default.shape[1]
            and len(automaton.class_of) == tables.class_of.shape[1]
            and not (automaton.class_of.dtype == np.int32 and tables.class_of.dtype == torch.int16)
            and self._rows + len(automaton.row_start) <= len(tables.fallback)
            and self._places + len(automaton.row_class) < len(tables.row_class)
            and _longest_row(automaton) <= len(tables.lane)
            and automaton.longest_chain <= len(tables.link)
            and self._outcomes + len(nesting.state) <= len(self.stacks.state)
            and nesting.pushed.shape[1] <= self.stacks.pushed.shape[1]
            and nesting.pops <= len(self.stacks.round)
            and (not nesting.blocks or len(self.stacks.first_block) > 0)
            and (nesting.counting is None or self.stacks.counting.shape[1] > 0)
        )

    def _write(self, slot: int, automaton: TokenAutomaton, generation: int) -> None:
        tables = self.tables
        # No state refers to this slot until the write is complete.
        tables.generation[slot] = -1
        rows, places, states = self._rows, self._places, automaton.states
        set_part(tables.class_of[slot], automaton.class_of)
        set_part(tables.default[slot, : automaton.classes], automaton.default)
        # Those of an earlier automaton in this slot may be none of the states of this one.
        tables.default[slot, automaton.classes :] = STAY
        set_part(tables.row_start[rows : rows + states + 1], automaton.row_start + places)
        set_part(tables.row_class[places : places + len(automaton.row_class)], automaton.row_class)
        set_part(tables.row_target[places : places + len(automaton.row_target)], automaton.row_target)
        fallback = np.arange(states) if automaton.fallback is None else automaton.fallback
        set_part(tables.fallback[rows : rows + states], fallback)
        tables.first_row[slot] = rows
        self._write_stacks(slot, automaton)
        tables.generation[slot] = generation
        self._rows += len(automaton.row_start)
        self._places += len(automaton.row_class)

    def _write_stacks(self, slot: int, automaton: TokenAutomaton) -> None:
        stacks, nesting = self.stacks, automaton.nesting
        begin, end = self._outcomes, self._outcomes + len(nesting.state)
        stacks.states[slot] = automaton.states
        stacks.first_outcome[slot] = begin
        stacks.max_depth[slot] = nesting.counted_depth
        if len(stacks.first_block):
            stacks.first_block[slot] = automaton.states - nesting.blocks
        if not automaton.has_stacks:
            return
        set_part(stacks.cost[self._rows : self._rows + automaton.states], automaton.cost)
        set_part(stacks.state[begin:end], nesting.state)
        set_part(stacks.pushed[begin:end, : nesting.pushed.shape[1]], nesting.pushed)
        set_part(stacks.rest[begin:end], nesting.rest)
        set_part(stacks.height[begin:end], nesting.height)
        set_part(stacks.outcome_cost[begin:end], automaton.outcome_cost)
        if stacks.counting.shape[1]:
            nothing = np.array([[0], [MOST], [0], [0]]).repeat(end - begin, axis=1)
            set_part(stacks.counting[:, begin:end], nothing if nesting.counting is None else nesting.counting)
        self._outcomes = end


def set_part(part: Tensor, values: NDArray[np.integer]) -> None:
    """Copy the values of an array into a part of a table."""
    # Widened on the host: then the copy is of a plain array (the original may be read-only) of a type that all devices support.
    part.copy_(torch.from_numpy(values.astype(np.int64 if part.dtype == torch.int64 else np.int32)))


def _longest_row(automaton: TokenAutomaton) -> int:
    return int(np.diff(automaton.row_start).max(initial=1))


def room(needed: int) -> int:
    """Round up to a power of two: spare capacity, and a shape that changes rarely, which keeps compiled graphs valid longer."""
    return 1 << max(needed - 1, 0).bit_length()
