"""Numbers that stand for a choice, as kernels read and write them: Triton's language calls no methods of Python's classes.

Each function does what its module does on the host, with the same numbers: `StateAndCount`, `Targets` in the
tables of a registry, and `SectionStates`.
"""

from __future__ import annotations

from logitkit.compiler.bytes import byte_dfa
from logitkit.compiler.tokens.tables import counted_state
from logitkit.compiler.tokens.tables.targets import REGISTRY_TARGETS
from logitkit.kernels.language import constant, device_function, tl

__all__ = ["action_of", "count_of", "forced", "is_break", "is_inside", "state_of", "with_count"]

STATE_BITS, COUNT_SHIFT = map(constant, (counted_state.STATE_BITS, counted_state.COUNT_SHIFT))
FIRST_ACTION = constant(REGISTRY_TARGETS.states)
FIRST_STATE = constant(byte_dfa.FIRST_STATE)


@device_function
def state_of(counted):
    """Return the state without its count, int32."""
    return (counted & STATE_BITS).to(tl.int32)


@device_function
def count_of(counted):
    """Return the count of a state, int32."""
    return (counted >> COUNT_SHIFT).to(tl.int32)


@device_function
def with_count(state, count):
    """Return a state with its count, int64."""
    return state.to(tl.int64) | (count.to(tl.int64) << COUNT_SHIFT)


@device_function
def action_of(target):
    """Return whether targets are actions, and the numbers of these; 0 for states."""
    outside = target >= FIRST_ACTION
    return outside, tl.where(outside, target - FIRST_ACTION, 0)


@device_function
def is_inside(state, inside):
    """Return whether a state is inside a thinking section, given the number of such states."""
    return (state >= FIRST_STATE) & (state < inside + FIRST_STATE)


@device_function
def is_break(state, inside, paused, breaks):
    """Return whether a state is at the end of a line or a sentence, given how many states there are inside and in both groups."""
    first = inside - paused - breaks + FIRST_STATE
    return (state >= first) & (state < first + breaks)


@device_function
def forced(state, inside):
    """Return the state in which the end of a section is forced, given one inside."""
    return state + inside
