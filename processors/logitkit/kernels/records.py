"""The tables of a registry as records: numbers that a step reads together lie together, and a kernel gets few pointers."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

__all__ = [
    "ACTION_FIELDS",
    "FIRST_PUSHED",
    "PAIR_FIELDS",
    "ROW_FIELDS",
    "SLOT_FIELDS",
    "KernelTables",
    "Records",
]

# The columns of the tables, in order.
SLOT_FIELDS = ("generation", "first_row", "classes", "max_depth", "first_block")
ROW_FIELDS = ("start", "end", "fallback", "cost")
PAIR_FIELDS = ("class", "target")
ACTION_FIELDS = ("state", "rest", "height", "cost", "low", "high", "kept", "added")

# In a record of an action, the frames that it pushes follow these.
FIRST_PUSHED = len(ACTION_FIELDS)


class Records(NamedTuple):
    """The tables of all slots of a registry, on one device. Row numbers and numbers of actions are those of the registry.

    By hand: a token of class 7, in state 3 of the automaton in slot 2. The record of the slot says that its rows begin at 500. So
    the row is 503, and its record says that it has the pairs from 9000 to 9004. They are sorted by class. The one of class 7 has
    the target 5, so the next state is 5. If none has class 7, the row that row 503 falls back to counts. If it falls back to
    itself, the default of class 7 does.

    Args:
        slots: [N, 5] int64. `generation`: changes with the automaton in the slot. `first_row`: the row of its state 0.
            `classes`: how many it has. `max_depth`: the most frames of a row, those of blocks not counted. `first_block`: the
            frame with which those of blocks begin; more than any frame if it has none.
        class_of: [N, V] uint8, int16 or int32, the class of each token: as narrow as the classes of all automata allow.
        default: [N, C] int32, the target of each class where no row lists one: a state, `DEAD`, or `STAY`.
        rows: [R, 4] int32, a row for each state. `start`, `end`: its pairs. `fallback`: the row that counts for classes that
            this one does not list; a row that falls back to nothing names itself. `cost`: tokens needed to finish from there.
        pairs: [P, 2] int32. `class`: ascending in each row. `target`: a state or an action (`REGISTRY_TARGETS`).
        actions: [O, 8 + F] int32. `state`: where it leads. `rest`: the class of the rest of the token, after a frame is popped;
            0 if none is. `height`: the free frames that it needs. `cost`: tokens needed to finish after it. `low`, `high`: the
            counts with which it is legal. `kept`, `added`: the count afterwards is kept * count + added. Then the frames that it
            pushes, and zeros.
        ends: [E, 2] int32, the ids that a finished row may emit. `id`; `is_eos`: 1, or 0 for padding.
    """

    slots: Tensor
    class_of: Tensor
    default: Tensor
    rows: Tensor
    pairs: Tensor
    actions: Tensor
    ends: Tensor


class KernelTables(NamedTuple):
    """The tables of a registry as a kernel gets them, first of all its arguments.

    Args:
        records: The tables.
        addresses: Where they are.
        sizes: N, V, C, 8 + F and E.
        fit: Whether 32 bits count all numbers in `rows`, `pairs` and `actions`, as kernels do. Larger tables take 8 GiB.
    """

    records: Records
    addresses: tuple[int, ...]
    sizes: tuple[int, int, int, int, int]
    fit: bool

    @classmethod
    def of(cls, tables: Records) -> KernelTables:
        """Return the tables with their addresses, which stay the same, and their sizes."""
        slots, ids = tables.class_of.shape
        sizes = slots, ids, tables.default.shape[1], tables.actions.shape[1], tables.ends.shape[0]
        fit = all(table.numel() < 2**31 for table in (tables.rows, tables.pairs, tables.actions))
        return cls(tables, tuple([table.data_ptr() for table in tables]), sizes, fit)

    @property
    def class_width(self) -> int:
        """C, the most classes that an automaton may have."""
        return self.sizes[2]
