"""Generations: which automaton of a slot a state belongs to, and whether its registry has stacks.

A state names its automaton by a slot of the registry. Slots are used again, and each registry numbers its own slots. So a state
must not be valid for a later automaton in the slot, nor in the other registry of the vocabulary. One number beside the slot tells
both.

By hand: the first automaton in slot 3 has generation 0. It is dropped, and another one takes the slot with generation 1, so that
states of generation 0 are stale. In a registry with stacks, the same two have the generations 2**40 and 2**40 + 1.

Invariants: the generations of a slot only grow. Those of registries without stacks stay below 2**40, for which a server would
    have to
load an automaton every millisecond for 34 years. A state without an automaton has generation 0 in both kinds of registries. No
state has the generation of a vacant slot. Files of states have zeros in their place.
"""

from __future__ import annotations

from typing import overload

from torch import Tensor

__all__ = ["SlotGeneration"]

_WITH_STACKS = 2**40


class SlotGeneration:
    """Reads and writes generations, as numbers or as tensors of int64."""

    # Of rows without an automaton.
    NEUTRAL = 0
    # In tables on a device, of a slot without an automaton.
    VACANT = -1

    @staticmethod
    def first(*, stacks: bool) -> int:
        """Return the generation of a new slot, in a registry with or without stacks."""
        return _WITH_STACKS if stacks else 0

    @staticmethod
    def after(generation: int) -> int:
        """Return the generation of the next automaton in a slot."""
        return generation + 1

    @overload
    @staticmethod
    def has_stacks(generation: int) -> bool: ...
    @overload
    @staticmethod
    def has_stacks(generation: Tensor) -> Tensor: ...
    @staticmethod
    def has_stacks(generation: int | Tensor) -> bool | Tensor:
        """Return whether states belong to a registry with stacks."""
        return generation >= _WITH_STACKS
