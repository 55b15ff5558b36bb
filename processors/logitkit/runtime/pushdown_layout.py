"""The tables of a bank of pushdown automata on one device, with spare capacity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import torch
from torch import Tensor

from logitkit.compiler.tokens.counted_state import MOST
from logitkit.compiler.tokens.pushdown_automaton import PushdownAutomaton
from logitkit.compiler.tokens.token_automaton import TokenAutomaton
from logitkit.protocol.state import walk
from logitkit.runtime.bank_layout import BankLayout, room, set_part
from logitkit.runtime.pushdown_tables import PushdownTables

__all__ = ["PushdownLayout"]

# For a slot without an automaton, hence without outcomes: larger than any target.
NO_OUTCOMES = 2**30


class PushdownLayout(BankLayout):
    """The tables of finite automata, and those for the effects of tokens on stacks.

    Here each state lists all that it does: all rows of a batch would wait for those that fall back.
    """

    def __init__(
        self, automata: Sequence[TokenAutomaton | None], generations: Sequence[int], device: torch.device
    ) -> None:
        super().__init__([_whole(automaton) for automaton in automata], generations, device)

    def put(self, slot: int, automaton: TokenAutomaton | None, generation: int) -> bool:
        """Write one slot; see `BankLayout`."""
        return super().put(slot, _whole(automaton), generation)

    def nbytes(self) -> int:
        """Return the total size of the tables in bytes."""
        return sum(table.nbytes for _, table in walk(self.stacks) if isinstance(table, Tensor))

    def _allocate(self, present: Sequence[TokenAutomaton], slots: int) -> None:
        super()._allocate(present, slots)
        nestings = [cast(PushdownAutomaton, a).nesting for a in present]
        # Outcome 0 is a placeholder, read by rows without one.
        self._outcomes = 1
        outcomes = room(1 + sum(len(n.state) for n in nestings))
        widest = room(max((n.pushed.shape[1] for n in nestings), default=1))
        self.stacks = PushdownTables(
            self.tables,
            cost=self._full((len(self.tables.row_start),), 0, torch.int32),
            states=self._full((slots,), NO_OUTCOMES, torch.int64),
            first_outcome=self._full((slots,), 0, torch.int64),
            max_depth=self._full((slots,), 0, torch.int64),
            state=self._full((outcomes,), 0, torch.int32),
            pushed=self._full((outcomes, widest), 0, torch.int32),
            rest=self._full((outcomes,), 0, torch.int32),
            height=self._full((outcomes,), 0, torch.int32),
            outcome_cost=self._full((outcomes,), 0, torch.int32),
            counting=self._full((4, outcomes if any(n.counting is not None for n in nestings) else 0), 0, torch.int32),
            round=torch.arange(max((n.pops for n in nestings), default=0), device=self.device),
        )

    def _has_room(self, slot: int, automaton: TokenAutomaton) -> bool:
        nesting = cast(PushdownAutomaton, automaton).nesting
        return (
            super()._has_room(slot, automaton)
            and self._outcomes + len(nesting.state) <= len(self.stacks.state)
            and nesting.pushed.shape[1] <= self.stacks.pushed.shape[1]
            and nesting.pops <= len(self.stacks.round)
            and (nesting.counting is None or self.stacks.counting.shape[1] > 0)
        )

    def _write(self, slot: int, automaton: TokenAutomaton, generation: int) -> None:
        automaton = cast(PushdownAutomaton, automaton)
        stacks, nesting = self.stacks, automaton.nesting
        # No state refers to this slot until the write is complete.
        self.tables.generation[slot] = -1
        begin, end = self._outcomes, self._outcomes + len(nesting.state)
        set_part(stacks.cost[self._rows : self._rows + automaton.states], automaton.cost)
        stacks.states[slot] = automaton.states
        stacks.first_outcome[slot] = begin
        stacks.max_depth[slot] = nesting.max_depth
        set_part(stacks.state[begin:end], nesting.state)
        set_part(stacks.pushed[begin:end, : nesting.pushed.shape[1]], nesting.pushed)
        set_part(stacks.rest[begin:end], nesting.rest)
        set_part(stacks.height[begin:end], nesting.height)
        set_part(stacks.outcome_cost[begin:end], automaton.outcome_cost)
        if self.stacks.counting.shape[1]:
            nothing = np.array([[0], [MOST], [0], [0]]).repeat(end - begin, axis=1)
            set_part(stacks.counting[:, begin:end], nothing if nesting.counting is None else nesting.counting)
        self._outcomes = end
        super()._write(slot, automaton, generation)


def _whole(automaton: TokenAutomaton | None) -> TokenAutomaton | None:
    return None if automaton is None else cast(PushdownAutomaton, automaton).without_fallback()
