"""The bank of pushdown automata: all of one vocabulary, so that rows with different automata are processed together."""

from __future__ import annotations

from collections.abc import Hashable
from typing import cast

import torch

from logitkit.compiler.bytes.byte_dfa import FIRST_STATE
from logitkit.compiler.tokens.place import Place
from logitkit.compiler.tokens.pushdown_automaton import PushdownAutomaton
from logitkit.compiler.tokens.token_automaton import TokenAutomaton
from logitkit.runtime.bank import Bank
from logitkit.runtime.pushdown_layout import PushdownLayout
from logitkit.runtime.pushdown_tables import PushdownTables
from logitkit.runtime.row_mask import RowMask
from logitkit.runtime.shared import shared_by
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["PushdownBank", "pushdown_bank"]


class PushdownBank(Bank):
    """A bank whose masks and tables include stacks."""

    layout = PushdownLayout

    def pushdown(self, slot: int, generation: int) -> PushdownAutomaton:
        """Return the automaton that a state refers to.

        Raises:
            StaleAutomaton: All processors that used it are gone.
        """
        # Not a cast: rows call this at every step.
        return self.automaton(slot, generation)  # type: ignore[return-value]

    def mask_of(self, automaton: TokenAutomaton, state: Hashable) -> RowMask:
        """Compute the mask of a state together with its stack."""
        assert isinstance(state, Place)
        if state.state < FIRST_STATE:
            return RowMask.of(automaton, state.state)
        return RowMask.allowing(automaton, cast(PushdownAutomaton, automaton).legal(state))

    def stacks_on(self, device: torch.device) -> PushdownTables:
        """Return the tables of all automata as tensors on a device."""
        # Called first, because it prepares the tables that a traced graph reads.
        self.tables_on(device)
        return cast(PushdownLayout, self._layouts[device]).stacks

    def nbytes(self) -> int:
        """Return the total size of the automata, cached masks and tables on devices, in bytes."""
        layouts = [cast(PushdownLayout, layout) for layout in [*self._layouts.values()]]
        return super().nbytes() + sum(layout.stacks.nbytes() - layout.tables.nbytes() for layout in layouts)


def pushdown_bank(vocabulary: Vocabulary) -> PushdownBank:
    """Return the bank of this vocabulary, which equal vocabularies share."""
    return shared_by(vocabulary).once(PushdownBank, PushdownBank)
