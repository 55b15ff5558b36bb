"""Beginnings of numbers whose value is settled: whatever follows, they are equal to one number.

By hand: between 0 and 1, only zeros follow `1.`, so it is 1 already. Where any number may stand, `0e` is 0, as is each of its
completions. If 1 or 0 is used, then such a beginning leads nowhere, although digits may follow without end.
"""

from __future__ import annotations

from logitkit.compiler.tokens.tables.packed_stacks import Packed
from logitkit.runtime.remembering.byte_steps import ByteSteps
from logitkit.runtime.remembering.json_text import AFTER_NUMBER, IN_NUMBER
from logitkit.runtime.remembering.open_values import OpenNumber
from logitkit.runtime.remembering.spelling import spelled_number

__all__ = ["is_settled", "may_be_settled_after", "settled_number", "with_end"]

ZERO, POINT = b"0."


def is_settled(number: OpenNumber, state: int, stack: Packed, steps: ByteSteps) -> bool:
    """Whether all numbers with a beginning are equal.

    Args:
        number: The beginning.
        state: The state after it.
        stack: The stack after it.
        steps: The steps of the automaton.
    """
    if number.has_exponent:
        return number.is_zero
    key = state, stack, number.has_point, number.is_begun
    found = steps.settled.get(key)
    if found is None:
        found = steps.settled.keep(key, _adds_only_zeros(*key, steps), len(stack) + 100)
    return found


def _adds_only_zeros(state: int, stack: Packed, has_point: bool, is_begun: bool, steps: ByteSteps) -> bool:
    seen, todo = set(), [(state, stack, has_point, is_begun)]
    while todo:
        at = state, stack, has_point, is_begun = todo.pop()
        if at in seen:
            continue
        seen.add(at)
        for byte in steps.legal(state, stack).translate(None, AFTER_NUMBER):
            if not (byte == ZERO and (has_point or not is_begun)) and not (
                byte == POINT and not has_point and is_begun
            ):
                return False
            todo.append((*steps.after(state, stack, byte), has_point or byte == POINT, True))
    return True


def settled_number(text: bytes, number: OpenNumber) -> bytes:
    """Return the one text of all numbers with a beginning that is settled, given its text."""
    if number.has_exponent:
        return b"0"
    return spelled_number(text + b"0" if text[-1:] in b"-." else text)


def with_end(state: int, stack: Packed, steps: ByteSteps) -> tuple[int, Packed]:
    """Return the state and the stack after the shortest end of a number with a settled value."""
    while True:
        legal = steps.legal(state, stack)
        if legal.translate(None, AFTER_NUMBER) == legal:
            state, stack = steps.after(state, stack, ZERO if ZERO in legal else legal[0])
        else:
            return state, stack


def may_be_settled_after(text: bytes, number: OpenNumber, state: int, stack: Packed, steps: ByteSteps) -> bool:
    """Whether a number may be complete in a token that goes on with it, or be settled after it, or have a sign only.

    Args:
        text: The token, which the automaton allows.
        number: The number before it.
        state: The state before it.
        stack: The stack before it.
        steps: The steps of the automaton.
    """
    for byte in text:
        if byte not in IN_NUMBER:
            return True
        state, stack = steps.after(state, stack, byte)
        number = number.after(byte)
        if is_settled(number, state, stack, steps):
            return True
    return not number.is_begun
