"""The tables of a registry on one device, with spare capacity: a new automaton is written into them in place.

Rebuilding all tables for every automaton that a server's request brings would delay its step by tens of milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.compiler.bytes.byte_dfa import DEAD
from logitkit.compiler.tokens.tables.counted_state import MOST
from logitkit.compiler.tokens.tables.targets import REGISTRY_TARGETS
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.compiler.tokens.tables.token_table import STAY
from logitkit.kernels.records import (
    ACTION_FIELDS,
    FIRST_PUSHED,
    PAIR_FIELDS,
    ROW_FIELDS,
    SLOT_FIELDS,
    KernelTables,
    Records,
)
from logitkit.lazy import lazy
from logitkit.runtime.registry_tables import NEUTRAL_ROWS, RegistryTables
from logitkit.runtime.row_mask import finished_ids
from logitkit.runtime.slot_generation import SlotGeneration
from logitkit.runtime.stack_tables import StackTables

__all__ = ["RegistryLayout"]

# In place of the first frame of a block, if there is none: more than any frame.
NO_BLOCK = REGISTRY_TARGETS.action(0)

# The types of classes of tokens, from narrow to wide.
WIDTHS = (torch.uint8, torch.int16, torch.int32)
NUMPY = {torch.uint8: np.uint8, torch.int16: np.int16, torch.int32: np.int32, torch.int64: np.int64}


class RegistryLayout:
    """Tables with spare capacity, and the amount in use.

    Args:
        automata: The automaton of each slot, or None; slot 0 is neutral.
        generations: The generation of each slot.
        device: The device of the tables.
        ends: The ids that end a sequence, and the id of padding or None. By default, those of the automata.
    """

    def __init__(
        self,
        automata: Sequence[TokenAutomaton | None],
        generations: Sequence[int],
        device: torch.device,
        ends: tuple[Sequence[int], int | None] | None = None,
    ) -> None:
        self.device = device
        present = [a for a in automata if a is not None]
        if ends is None:
            ends = (present[0].eos_ids, present[0].pad_id) if present else ((), None)
        self._allocate(present, room(len(automata)), *ends)
        # Action 0 is a placeholder, read by rows without one.
        self._rows, self._places, self._actions = NEUTRAL_ROWS, 0, 1
        for slot, automaton in enumerate(automata):
            if automaton is not None:
                self._write(slot, automaton, generations[slot])

    @lazy
    def kernel_tables(self) -> KernelTables:
        """The tables as kernels get them."""
        return KernelTables.of(self.records)

    def nbytes(self) -> int:
        """Return the total size of the tables in bytes."""
        return sum(table.nbytes for table in self.records)

    def _full(self, shape: tuple[int, ...], value: int, dtype: torch.dtype) -> Tensor:
        """Return a new tensor of one value."""
        return torch.full(shape, value, dtype=dtype, device=self.device)

    def _allocate(
        self, present: Sequence[TokenAutomaton], slots: int, eos_ids: Sequence[int], pad_id: int | None
    ) -> None:
        """Create tables for these automata, in which all slots are neutral and only the generation of slot 0 matches."""
        size = max((len(a.class_of) for a in present), default=1)
        finished = finished_ids(eos_ids, pad_id)
        nestings = [a.nesting for a in present]
        widest = room(max((n.pushed.shape[1] for n in nestings), default=1))
        self.records = Records(
            slots=self._full((slots, len(SLOT_FIELDS)), 0, torch.int64),
            class_of=self._full(
                (slots, size), 0, max((_width(a) for a in present), key=WIDTHS.index, default=WIDTHS[0])
            ),
            default=self._full((slots, room(max((a.classes for a in present), default=1))), STAY, torch.int32),
            rows=self._full((room(NEUTRAL_ROWS + sum(a.states for a in present)), len(ROW_FIELDS)), 0, torch.int32),
            # One entry after the last row, so that an empty row has something to read.
            pairs=self._full((room(sum(len(a.row_class) for a in present) + 1), len(PAIR_FIELDS)), 0, torch.int32),
            actions=self._full((room(1 + sum(len(n.state) for n in nestings)), FIRST_PUSHED + widest), 0, torch.int32),
            ends=torch.tensor([[i, i in eos_ids] for i in finished.tolist()], dtype=torch.int32, device=self.device),
        )
        slot, row, pair, action = (
            dict(zip(names, table.unbind(1), strict=False))
            for names, table in (
                (SLOT_FIELDS, self.records.slots),
                (ROW_FIELDS, self.records.rows),
                (PAIR_FIELDS, self.records.pairs),
                (ACTION_FIELDS, self.records.actions),
            )
        )
        set_part(row["fallback"], np.arange(len(self.records.rows)))
        slot["generation"][1:] = SlotGeneration.VACANT
        slot["first_block"].fill_(NO_BLOCK)
        self.tables = RegistryTables(
            generation=slot["generation"],
            class_of=self.records.class_of,
            default=self.records.default,
            first_row=slot["first_row"],
            row_start=row["start"],
            row_end=row["end"],
            row_class=pair["class"],
            row_target=pair["target"],
            fallback=row["fallback"],
            lane=torch.arange(room(max((_longest_row(a) for a in present), default=1)), device=self.device),
            link=torch.arange(max((a.longest_chain for a in present), default=1), device=self.device),
            eos_ids=torch.tensor([*eos_ids], dtype=torch.int64, device=self.device),
            finished_ids=torch.from_numpy(finished).to(self.device),
        )
        counting = self.records.actions[:, ACTION_FIELDS.index("low") : FIRST_PUSHED].T
        self.stacks = StackTables(
            self.tables,
            cost=row["cost"],
            max_depth=slot["max_depth"],
            first_block=slot["first_block"] if any(n.blocks for n in nestings) else slot["first_block"][:0],
            state=action["state"],
            pushed=self.records.actions[:, FIRST_PUSHED:],
            rest=action["rest"],
            height=action["height"],
            action_cost=action["cost"],
            counting=counting if any(n.counting is not None for n in nestings) else counting[:, :0],
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
                self.tables.generation[slot] = SlotGeneration.VACANT
            return True
        if not self._has_room(slot, automaton):
            return False
        self._write(slot, automaton, generation)
        return True

    def settle(self) -> None:
        """Wait until everything is written, because other threads may read it in other streams of the device."""
        if self.device.type == "cuda" and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            torch.cuda.current_stream(self.device).synchronize()

    def is_being_captured(self) -> bool:
        """Whether a CUDA graph is captured, which will read these tables."""
        return self.device.type == "cuda" and torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()  # type: ignore[no-untyped-call]

    def _has_room(self, slot: int, automaton: TokenAutomaton) -> bool:
        records, nesting = self.records, automaton.nesting
        return (
            slot < len(records.slots)
            and automaton.classes <= records.default.shape[1]
            and len(automaton.class_of) == records.class_of.shape[1]
            and WIDTHS.index(_width(automaton)) <= WIDTHS.index(records.class_of.dtype)
            and self._rows + automaton.states <= len(records.rows)
            and self._places + len(automaton.row_class) < len(records.pairs)
            and _longest_row(automaton) <= len(self.tables.lane)
            and automaton.longest_chain <= len(self.tables.link)
            and self._actions + len(nesting.state) <= len(records.actions)
            and nesting.pushed.shape[1] <= self.stacks.pushed.shape[1]
            and nesting.pops <= len(self.stacks.round)
            and (not nesting.blocks or len(self.stacks.first_block) > 0)
            and (nesting.counting is None or self.stacks.counting.shape[1] > 0)
        )

    def _write(self, slot: int, automaton: TokenAutomaton, generation: int) -> None:
        records, nesting, states = self.records, automaton.nesting, automaton.states
        # No state refers to this slot until the write is complete.
        first_block = nesting.first_block(states) if nesting.blocks else NO_BLOCK
        set_part(
            records.slots[slot],
            np.array([SlotGeneration.VACANT, self._rows, automaton.classes, nesting.counted_depth, first_block]),
        )
        set_part(records.class_of[slot], automaton.class_of)
        set_part(records.default[slot, : automaton.classes], automaton.default)
        # Those of an earlier automaton in this slot may be none of the states of this one.
        records.default[slot, automaton.classes :] = STAY
        fallback = np.arange(states) if automaton.fallback is None else automaton.fallback
        cost = automaton.cost if automaton.has_stacks else np.zeros(states, np.int64)
        begin, end = automaton.row_start[:-1] + self._places, automaton.row_start[1:] + self._places
        rows = np.column_stack([begin, end, fallback + self._rows, cost])
        set_part(records.rows[self._rows : self._rows + states], rows)
        target = automaton.row_target.astype(np.int64)
        action = REGISTRY_TARGETS.action(self._actions + automaton.targets.action_number(target))
        target = np.where(automaton.targets.is_action(target), action, target)
        pairs = np.column_stack([automaton.row_class, target])
        set_part(records.pairs[self._places : self._places + len(pairs)], pairs)
        if automaton.has_stacks:
            self._write_actions(automaton)
        self.tables.generation[slot] = generation
        self._rows += states
        self._places += len(pairs)

    def _write_actions(self, automaton: TokenAutomaton) -> None:
        nesting, begin = automaton.nesting, self._actions
        self._actions = end = begin + len(nesting.state)
        # A step looks for a rest in the row of a frame, and takes it for illegal if the row does not list it.
        assert (automaton.default[nesting.rest[nesting.rest > 0]] == DEAD).all()
        nothing = np.array([[0], [MOST], [0], [0]]).repeat(len(nesting.state), axis=1)
        fields = (nesting.state, nesting.rest, nesting.height, automaton.action_cost)
        counting = nothing if nesting.counting is None else nesting.counting
        whole = np.column_stack([*fields, *counting, nesting.pushed])
        set_part(self.records.actions[begin:end, : whole.shape[1]], whole)


def set_part(part: Tensor, values: NDArray[np.integer]) -> None:
    """Copy the values of an array into a part of a table."""
    # Converted on the host: then the copy is of a plain array (the original may be read-only) of a type that all devices support.
    part.copy_(torch.from_numpy(values.astype(NUMPY[part.dtype])))


def _width(automaton: TokenAutomaton) -> torch.dtype:
    """Return the type of the classes of tokens, as narrow as they were compiled."""
    return next(width for width in WIDTHS if NUMPY[width] == automaton.class_of.dtype)


def _longest_row(automaton: TokenAutomaton) -> int:
    return int(np.diff(automaton.row_start).max(initial=1))


def room(needed: int) -> int:
    """Round up to a power of two: spare capacity, and a shape that changes rarely, which keeps compiled graphs valid longer."""
    return 1 << max(needed - 1, 0).bit_length()
