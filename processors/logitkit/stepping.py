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
from logitkit.context import Context
from logitkit.processor import Processor

__all__ = ["can_step", "first_row", "row_of"]

BASES = (AutomatonConstraint, PushdownConstraint)


def can_step(processor: Processor[Any]) -> bool:
    """Whether a processor is nothing but an automaton: a subclass may do more than mask."""
    kind = type(processor)
    return any(
        isinstance(processor, base) and kind.process_logits is base.process_logits and kind.advance is base.advance
        for base in BASES
    )


def first_row(processor: Processor[Any], columns: int) -> LoneRow | None:
    """Return a row before its output, whatever its prompt is, or None if it takes the prompt to tell.

    Raises:
        VocabularyError: There are fewer columns of logits than the vocabulary has ids.
    """
    kind = type(processor)
    begins = any(isinstance(processor, base) and kind.init_state is base.init_state for base in BASES)
    if not (begins and can_step(processor)):
        return None
    row: LoneRow | None
    if isinstance(processor, AutomatonConstraint):
        lease = processor.lease()
        row = AutomatonRow(processor.bank, lease.slot, lease.generation, processor.automaton.start)
    else:
        row = row_of(processor, processor.init_state(Context.of([[]], vocabulary_size=columns)))
    if row is not None:
        row.check_width(columns)
    return row


def row_of(processor: Processor[Any], state: Any) -> LoneRow | None:
    """Return the row of a state of one row on the CPU, or None if it cannot be stepped."""
    if not can_step(processor):
        return None
    match processor, state:
        case AutomatonConstraint(), AutomatonState() if _is_one(state):
            return AutomatonRow.of(processor.bank, state)
        case PushdownConstraint(), PushdownState() if _is_one(state.at):
            return PushdownRow(processor.bank, state)
    return None


def _is_one(at: AutomatonState) -> bool:
    return len(at.state) == 1 and at.state.device.type == "cpu"
