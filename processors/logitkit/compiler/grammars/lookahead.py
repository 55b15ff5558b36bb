"""Which symbols may come next: in a state, and after the end of a rule."""

from __future__ import annotations

from functools import reduce
from operator import or_

from logitkit.compiler.grammars.stack_machine import TAIL, StackMachine
from logitkit.limits import Limits

__all__ = ["lookahead"]


def lookahead(machine: StackMachine, limits: Limits) -> tuple[list[int], list[int]]:
    """Compute masks of symbols, as least fixed points.

    Conditions on the next character are left out of account, so a symbol may be in the masks without need.

    Returns:
        For each state, what may be read before its rule ends, next; and for each rule, what may be read next after its end.
    """
    active = [s for s in range(len(machine.moves)) if machine.calls[s] or machine.looks[s]][::-1]
    ahead, silent = _before_ends(machine, active, limits)
    return ahead, _after_ends(machine, active, ahead, silent, limits)


def _before_ends(machine: StackMachine, active: list[int], limits: Limits) -> tuple[list[int], list[bool]]:
    """Return for each state what may be read before its rule ends, and whether it may end without reading anything."""
    ahead = [reduce(or_, row.values(), 0) for row in machine.moves]
    silent = list(machine.final)
    changed = True
    while changed:
        changed = False
        limits.spend(4 * len(active))
        for state in active:
            mask, quiet = ahead[state], silent[state]
            for callee, return_state in machine.calls[state]:
                mask |= ahead[callee]
                if silent[callee]:
                    quiet |= return_state == TAIL or silent[return_state]
                    mask |= 0 if return_state == TAIL else ahead[return_state]
            for _, target in machine.looks[state]:
                mask |= ahead[target]
                quiet |= silent[target]
            if mask != ahead[state] or quiet != silent[state]:
                ahead[state], silent[state] = mask, quiet
                changed = True
    return ahead, silent


def _after_ends(
    machine: StackMachine, active: list[int], ahead: list[int], silent: list[bool], limits: Limits
) -> list[int]:
    """Return for each rule what may be read next after its end, given the same for states before it."""
    follow = [0] * (max(machine.rule) + 1)
    follow[0] = machine.end
    changed = True
    while changed:
        changed = False
        limits.spend(4 * len(active))
        for state in active:
            mine = follow[machine.rule[state]]
            for callee, return_state in machine.calls[state]:
                mask = mine if return_state == TAIL else ahead[return_state] | (mine if silent[return_state] else 0)
                at = machine.rule[callee]
                if mask & ~follow[at]:
                    follow[at] |= mask
                    changed = True
    return follow
