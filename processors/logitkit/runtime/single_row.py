"""A single row on the CPU that an engine steps without tensors, if its processor only follows an automaton."""

from __future__ import annotations

from functools import cache
from typing import Any

from logitkit.protocol.calls import init_checked
from logitkit.protocol.context import Context
from logitkit.protocol.processor import Processor, reads_max_length
from logitkit.runtime.constraint import Constraint
from logitkit.runtime.constraint_row import ConstraintRow

__all__ = ["can_step", "first_state", "row_of"]


def can_step(processor: Processor[Any]) -> bool:
    """Return whether a processor only follows an automaton, so that `row_of` works; a subclass may do more."""
    return _inherits(type(processor), "process_logits", "advance")


@cache
def _inherits(kind: type[Any], *methods: str) -> bool:
    """Return whether a class has methods as `Constraint` defines them."""
    return issubclass(kind, Constraint) and all(getattr(kind, m) is getattr(Constraint, m) for m in methods)


def first_state(processor: Processor[Any], columns: int) -> Any:
    """Return the state of a row of a processor that `can_step`, before its output; None if that depends on the prompt."""
    if not _inherits(type(processor), "init_state") or reads_max_length(processor):
        return None
    return init_checked(processor, Context.of([[]], vocabulary_size=columns))


def row_of(processor: Processor[Any], state: Any) -> ConstraintRow | None:
    """Return the row of a state of a processor that `can_step`, or None if the state is not that of one row on the CPU."""
    if not (isinstance(processor, Constraint) and hasattr(state, "host_rows")):
        return None
    if len(state.slots) != 1 or state.slots.device.type != "cpu":
        return None
    found: ConstraintRow = state.host_rows(processor.registry)[0]
    return found
