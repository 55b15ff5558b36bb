"""Beginnings of numbers whose value is settled: whatever follows, they are equal to one number.

By hand: between 0 and 1, only zeros follow `1.`, so it is 1 already. Where any number may stand, `0e` is 0, as is each of its
completions. If 1 or 0 is used, then such a beginning leads nowhere, although digits may follow without end.
"""

from __future__ import annotations

from logitkit.compiler.tokens.tables.packed_stacks import Packed
from logitkit.runtime.remembering.byte_steps import ByteSteps
from logitkit.runtime.remembering.json_text import AFTER_NUMBER
from logitkit.runtime.remembering.spelling import spelled_number

__all__ = ["settled_number", "with_end"]

ZERO, POINT = b"0."


def settled_number(number: bytes, state: int, stack: Packed, steps: ByteSteps) -> bytes | None:
    """Return the one text of all numbers with a beginning, or None if there are several.

    Args:
        number: The beginning.
        state: The state after it.
        stack: The stack after it.
        steps: The steps of the automaton.
    """
    # A long number is read again after each byte, so that what takes long comes last.
    if b"e" in number or b"E" in number:
        mantissa = number.lower().partition(b"e")[0]
        return None if mantissa.strip(b"-0.") else b"0"
    begun = number != b"-"
    seen, todo = set(), [(state, stack, POINT in number, begun)]
    while todo:
        at = state, stack, has_point, begun = todo.pop()
        if at in seen:
            continue
        seen.add(at)
        for byte in steps.legal(state, stack).translate(None, AFTER_NUMBER):
            if not (byte == ZERO and (has_point or not begun)) and not (byte == POINT and not has_point and begun):
                return None
            todo.append((*steps.after(state, stack, byte), has_point or byte == POINT, True))
    return spelled_number(number + b"0" if number[-1:] in b"-." else number)


def with_end(state: int, stack: Packed, steps: ByteSteps) -> tuple[int, Packed]:
    """Return the state and the stack after the shortest end of a number with a settled value."""
    while True:
        legal = steps.legal(state, stack)
        if legal.translate(None, AFTER_NUMBER) == legal:
            state, stack = steps.after(state, stack, ZERO if ZERO in legal else legal[0])
        else:
            return state, stack
