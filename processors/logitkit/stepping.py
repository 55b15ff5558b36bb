"""Which processors can step one row on the CPU without tensors."""

from __future__ import annotations

from typing import Any

from logitkit.automata.automaton_row import AutomatonRow
from logitkit.automata.automaton_state import AutomatonState
from logitkit.automata.lone_row import LoneRow
from logitkit.automata.pushdown_row import PushdownRow
from logitkit.automata.pushdown_state import PushdownState
from logitkit.constraints.constraint import AutomatonConstraint
from logitkit.constraints.pushdown_constraint import PushdownConstraint
from logitkit.processor import Processor

__all__ = ["can_step", "row_of"]


def can_step(processor: Processor[Any]) -> bool:
    """Whether a processor is nothing but an automaton: a subclass may do more than mask."""
    kind = type(processor)
    return any(
        isinstance(processor, base) and kind.process_logits is base.process_logits and kind.advance is base.advance
        for base in (AutomatonConstraint, PushdownConstraint)
    )


def row_of(processor: Processor[Any], state: Any) -> LoneRow | None:
    """Return the row of a state of one row on the CPU, or None if it cannot be stepped."""
    if not can_step(processor):
        return None
    match processor, state:
        case AutomatonConstraint(), AutomatonState() if _is_one(state):
            return AutomatonRow(processor.bank, state)
        case PushdownConstraint(), PushdownState() if _is_one(state.at):
            return PushdownRow(processor.bank, state)
    return None


def _is_one(at: AutomatonState) -> bool:
    return len(at.state) == 1 and at.state.device.type == "cpu"
