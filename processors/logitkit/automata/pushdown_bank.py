"""The pushdown automata of one vocabulary: rows with different ones are handled together."""

from __future__ import annotations

from collections.abc import Hashable
from typing import cast

import torch

from logitkit.automata.bank import Bank
from logitkit.automata.byte_dfa import FIRST_STATE
from logitkit.automata.place import Place
from logitkit.automata.pushdown_automaton import PushdownAutomaton
from logitkit.automata.pushdown_layout import PushdownLayout
from logitkit.automata.pushdown_tables import PushdownTables
from logitkit.automata.row_mask import RowMask
from logitkit.automata.shared import shared_by
from logitkit.automata.token_automaton import TokenAutomaton
from logitkit.vocabulary import Vocabulary

__all__ = ["PushdownBank", "pushdown_bank"]


class PushdownBank(Bank):
    """A bank whose masks and tables know stacks."""

    def pushdown(self, slot: int, generation: int) -> PushdownAutomaton:
        """Return the automaton that a state refers to.

        Raises:
            StaleAutomaton: All processors that used it are gone.
        """
        # No cast: rows ask this at every step.
        return self.automaton(slot, generation)  # type: ignore[return-value]

    def mask_of(self, automaton: TokenAutomaton, state: Hashable) -> RowMask:
        """Work out the mask of a place."""
        assert isinstance(state, Place)
        if state.state < FIRST_STATE:
            return RowMask.of(automaton, state.state)
        return RowMask.allowing(automaton, cast(PushdownAutomaton, automaton).legal(state))

    def new_layout(self, device: torch.device) -> PushdownLayout:
        """Lay out the tables of all slots anew."""
        return PushdownLayout([*self.automata], [*self.generations], device)

    def stacks_on(self, device: torch.device) -> PushdownTables:
        """Return the tables of all automata as tensors on a device."""
        # Asked first, as it has ready what a traced graph reads.
        self.tables_on(device)
        return cast(PushdownLayout, self._layouts[device]).stacks

    def nbytes(self) -> int:
        """Return the bytes that automata, cached masks and the tables on devices take now."""
        layouts = [cast(PushdownLayout, layout) for layout in [*self._layouts.values()]]
        return super().nbytes() + sum(layout.stacks.nbytes() - layout.tables.nbytes() for layout in layouts)


def pushdown_bank(vocabulary: Vocabulary) -> PushdownBank:
    """Return the bank of all vocabularies equal to this one."""
    return shared_by(vocabulary).once(PushdownBank, PushdownBank)
