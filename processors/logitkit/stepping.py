"""Which processors can step one row on the CPU without tensors."""

from __future__ import annotations

from typing import Any

from logitkit.automata.automaton_row import AutomatonRow
from logitkit.automata.automaton_state import AutomatonState
from logitkit.constraints.constraint import AutomatonConstraint
from logitkit.processor import Processor

__all__ = ["can_step", "row_of"]


def can_step(processor: Processor[Any]) -> bool:
    """Whether a processor is nothing but a finite automaton: a subclass may do more than mask."""
    kind = type(processor)
    return (
        isinstance(processor, AutomatonConstraint)
        and kind.process_logits is AutomatonConstraint.process_logits
        and kind.advance is AutomatonConstraint.advance
    )


def row_of(processor: Processor[Any], state: Any) -> AutomatonRow | None:
    """Return the row of a state of one row on the CPU, or None if it cannot be stepped."""
    if (
        not can_step(processor)
        or not isinstance(processor, AutomatonConstraint)
        or not isinstance(state, AutomatonState)
    ):
        return None
    return AutomatonRow(processor.bank, state) if len(state.state) == 1 and state.state.device.type == "cpu" else None
