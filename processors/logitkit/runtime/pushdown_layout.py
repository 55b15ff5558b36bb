"""The tables of a bank of pushdown automata on one device, with spare capacity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.compiler.tokens.pushdown_automaton import PushdownAutomaton
from logitkit.compiler.tokens.token_automaton import TokenAutomaton
from logitkit.runtime.bank_layout import BankLayout, room
from logitkit.runtime.pushdown_tables import PushdownTables

__all__ = ["PushdownLayout"]

# For a slot without an automaton, hence without outcomes: larger than any target.
NO_OUTCOMES = 2**30


class _Stacks(NamedTuple):
    """The tables of `PushdownTables` except `base`."""

    cost: Tensor
    states: Tensor
    first_outcome: Tensor
    max_depth: Tensor
    state: Tensor
    pushed: Tensor
    rest: Tensor
    height: Tensor
    outcome_cost: Tensor
    round: Tensor


class PushdownLayout(BankLayout):
    """The tables of finite automata, and those for the effects of tokens on stacks."""

    def __init__(
        self, automata: Sequence[TokenAutomaton | None], generations: Sequence[int], device: torch.device
    ) -> None:
        present = [cast(PushdownAutomaton, a) for a in automata if a is not None]
        # Outcome 0 is a placeholder, read by rows without one.
        outcomes = room(1 + sum(len(a.nesting.state) for a in present))
        widest = room(max((a.nesting.pushed.shape[1] for a in present), default=1))
        slots = room(len(automata))

        def full(shape: tuple[int, ...], value: int, dtype: torch.dtype) -> Tensor:
            return torch.full(shape, value, dtype=dtype, device=device)

        self._outcomes = 1
        self._stacks = _Stacks(
            cost=full((1,), 0, torch.int32),
            states=full((slots,), NO_OUTCOMES, torch.int64),
            first_outcome=full((slots,), 0, torch.int64),
            max_depth=full((slots,), 0, torch.int64),
            state=full((outcomes,), 0, torch.int32),
            pushed=full((outcomes, widest), 0, torch.int32),
            rest=full((outcomes,), 0, torch.int32),
            height=full((outcomes,), 0, torch.int32),
            outcome_cost=full((outcomes,), 0, torch.int32),
            round=torch.arange(max((a.nesting.pops for a in present), default=0), device=device),
        )
        super().__init__(automata, generations, device)

    @property
    def stacks(self) -> PushdownTables:
        """All tables."""
        return PushdownTables(self.tables, *self._stacks)

    def _has_room(self, slot: int, automaton: TokenAutomaton) -> bool:
        nesting = cast(PushdownAutomaton, automaton).nesting
        return (
            super()._has_room(slot, automaton)
            and self._outcomes + len(nesting.state) <= len(self._stacks.state)
            and nesting.pushed.shape[1] <= self._stacks.pushed.shape[1]
            and nesting.pops <= len(self._stacks.round)
        )

    def _write(self, slot: int, automaton: TokenAutomaton, generation: int) -> None:
        automaton = cast(PushdownAutomaton, automaton)
        if len(self._stacks.cost) != len(self.tables.row_start):
            # On the first write; the capacity in rows is known by now.
            cost = torch.zeros(len(self.tables.row_start), dtype=torch.int32, device=self.tables.row_start.device)
            self._stacks = self._stacks._replace(cost=cost)
        stacks, nesting = self._stacks, automaton.nesting
        # No state refers to this slot until the write is complete.
        self.tables.generation[slot] = -1
        begin, end = self._outcomes, self._outcomes + len(nesting.state)
        _set(stacks.cost[self._rows : self._rows + automaton.states], automaton.cost)
        stacks.states[slot] = automaton.states
        stacks.first_outcome[slot] = begin
        stacks.max_depth[slot] = nesting.max_depth
        _set(stacks.state[begin:end], nesting.state)
        _set(stacks.pushed[begin:end, : nesting.pushed.shape[1]], nesting.pushed)
        _set(stacks.rest[begin:end], nesting.rest)
        _set(stacks.height[begin:end], nesting.height)
        _set(stacks.outcome_cost[begin:end], automaton.outcome_cost)
        self._outcomes = end
        super()._write(slot, automaton, generation)


def _set(part: Tensor, values: NDArray[np.integer]) -> None:
    part.copy_(torch.from_numpy(values.astype(np.int32)))
