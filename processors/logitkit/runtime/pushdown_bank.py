"""The bank of pushdown automata: all of one vocabulary, so that rows with different automata are processed together."""

from __future__ import annotations

from typing import Any, cast

import torch

from logitkit.compiler.bytes.byte_dfa import FIRST_STATE
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

    def mask_of(self, automaton: TokenAutomaton, state: Any) -> RowMask:
        """Compute the mask of a state together with its stack, a `Place`."""
        if state.state < FIRST_STATE:
            return RowMask.of(automaton, state.state)
        return RowMask.allowing(automaton, cast(PushdownAutomaton, automaton).legal(state))

    def stacks_on(self, device: torch.device) -> PushdownTables:
        """Return the tables of all automata as tensors on a device."""
        # Called first, because it prepares the tables that a traced graph reads.
        self.tables_on(device)
        return cast(PushdownLayout, self._layouts[device]).stacks


def pushdown_bank(vocabulary: Vocabulary) -> PushdownBank:
    """Return the bank of this vocabulary, which equal vocabularies share."""
    return shared_by(vocabulary).once(PushdownBank, PushdownBank)
