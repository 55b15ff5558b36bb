"""Where the constraints of a chain contradict each other."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any

import torch
from torch import Tensor

from logitkit.context import Context
from logitkit.processor import Processor, Role, role_of
from logitkit.state import leaves

__all__ = ["conflicts", "eos_ids_of"]


def eos_ids_of(processor: Processor[Any]) -> tuple[int, ...]:
    """Return the ids that end a row, as far as a processor knows them."""
    vocabulary = getattr(processor, "vocabulary", None)
    return tuple(getattr(processor if vocabulary is None else vocabulary, "eos_ids", ()))


def conflicts(processors: Sequence[Processor[Any]], states: Sequence[Any]) -> Tensor:
    """Return the rows that broke a constraint, or that constraints leave nothing; but not those that a stop has ended.

    A constraint says by `is_dead(state)` which rows broke it, and a stop by `fired(state)` which it has ended. What is
    left to a row is found by trying: the question is not asked in a step, so a pass over all tokens does no harm.

    Args:
        processors: Those of a chain.
        states: Their states, of B rows.

    Returns:
        [B] bool.
    """
    constraints = [(p, s) for p, s in zip(processors, states, strict=True) if role_of(p) is Role.CONSTRAINT]
    tensors = leaves(tuple(states))
    if not tensors:
        return torch.zeros(0, dtype=torch.bool)
    none = torch.zeros(len(tensors[0]), dtype=torch.bool, device=tensors[0].device)
    broken = [p.is_dead(s) for p, s in constraints if hasattr(p, "is_dead")]
    stopped = [p.fired(s) for p, s in constraints if hasattr(p, "fired")]
    return (reduce(or_, broken, none) | _nothing_left(constraints, none)) & ~reduce(or_, stopped, none)


def _nothing_left(constraints: Sequence[tuple[Processor[Any], Any]], none: Tensor) -> Tensor:
    sizes = [p.vocabulary.size for p, _ in constraints if hasattr(p, "vocabulary")]
    if not sizes:
        return none
    context = Context.of([[]] * len(none), max(sizes), none.device)
    legal = torch.ones(len(none), max(sizes), dtype=torch.bool, device=none.device)
    for processor, state in constraints:
        zeros = torch.zeros(legal.shape, device=none.device)
        legal &= processor.process_logits(state, zeros, context)[1] > -torch.inf
    return ~legal.any(1)
