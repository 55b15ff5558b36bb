"""The mask of rows that have reached a stop, for both implementations."""

from __future__ import annotations

import torch
from torch import Tensor

from logitkit.compiler.bytes.byte_dfa import FIRST_STATE
from logitkit.runtime.automaton_registry import NEUTRAL
from logitkit.runtime.automaton_state import AutomatonState
from logitkit.runtime.logit_arrays import as_array
from logitkit.runtime.registry_tables import RegistryTables
from logitkit.stopping.stop_automaton import FIRED
from logitkit.stopping.stop_registry import StopRegistry

__all__ = ["stop_rows", "stop_tensors"]


def stop_rows(at: AutomatonState, registry: StopRegistry, logits: Tensor) -> Tensor:
    """Allow only EOS in rows after a stop, and only EOS and padding in rows after EOS; in place, on the host.

    A row without any token left, since another processor masked these, gets EOS at logit 0.

    Args:
        at: The positions of B rows.
        registry: The registry that the slots refer to.
        logits: [B, W] floating point, W at least the size of the vocabulary.
    """
    array, never, zero = as_array(logits)
    for row, (slot, state) in enumerate(zip(at.slot.tolist(), at.state.tolist(), strict=True)):
        if state < FIRST_STATE and slot != NEUTRAL:
            registry.endings[state].apply(array[row], never, zero)
    return logits


def stop_tensors(at: AutomatonState, tables: RegistryTables, logits: Tensor) -> Tensor:
    """Like `stop_rows`, with tensors only; a row whose automaton no longer exists ends."""
    never = float("-inf")
    # A dead row is one that has reached a stop.
    state = tables.live(*at)[:, None]
    over = (state < FIRST_STATE) & (at.slot != NEUTRAL)[:, None]
    ids = tables.finished_ids
    given = logits.index_select(1, ids)
    ends = (ids[:, None] == tables.eos_ids).any(1)
    kept = given.masked_fill(given.isnan() | ((state == FIRED) & ~ends), never)
    kept = kept.masked_fill(ends & (kept == never).all(1, keepdim=True), 0)
    return logits.masked_fill_(over, never).index_copy_(1, ids, torch.where(over, kept, given))
