"""Where the constraints of a chain contradict each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_
from typing import Any

import torch
from torch import Tensor

from logitkit.errors import ConfigurationError
from logitkit.parameters.integers import checked_integer
from logitkit.protocol.calls import process_checked
from logitkit.protocol.context import Context
from logitkit.protocol.declared import only_masks
from logitkit.protocol.processor import Processor, Role, role_of
from logitkit.protocol.state import leaves

__all__ = ["conflicts", "eos_ids_of"]


def eos_ids_of(processor: Processor[Any]) -> tuple[int, ...]:
    """Return the ids that end a row, as far as a processor or, in a chain, a part of it knows them."""
    vocabulary = getattr(processor, "vocabulary", None)
    found = getattr(processor if vocabulary is None else vocabulary, "eos_ids", ())
    return getattr(processor, "known_eos_ids", ()) or (tuple(found) if isinstance(found, Iterable) else ())


def conflicts(
    processors: Sequence[Processor[Any]], states: Sequence[Any], eos_ids: Sequence[int], columns: int | None = None
) -> Tensor:
    """Return the rows that broke a constraint, or that constraints leave nothing; but not those that a stop has ended.

    A constraint says by `is_dead(state)` which rows broke it, and a stop by `fired(state)` which it has ended. What is
    left to a row is found by trying: the question is not asked in a step, so a pass over all tokens does no harm.

    Args:
        processors: Those of a chain.
        states: Their states, of B rows.
        eos_ids: What ends a row that they leave nothing.
        columns: Columns of the logits; None: as many as a vocabulary has ids.

    Returns:
        [B] bool.

    Raises:
        ConfigurationError: No constraint has a vocabulary, and no columns are given.
    """
    constraints = [(p, s) for p, s in zip(processors, states, strict=True) if role_of(p) is Role.CONSTRAINT]
    tensors = leaves(tuple(states))
    if not tensors:
        return torch.zeros(0, dtype=torch.bool)
    none = torch.zeros(len(tensors[0]), dtype=torch.bool, device=tensors[0].device)
    broken = [p.is_dead(s) for p, s in constraints if hasattr(p, "is_dead")]
    stopped = [p.fired(s) for p, s in constraints if hasattr(p, "fired")]
    return (reduce(or_, broken, none) | _nothing_left(constraints, none, eos_ids, columns)) & ~reduce(
        or_, stopped, none
    )


def _nothing_left(
    constraints: Sequence[tuple[Processor[Any], Any]], none: Tensor, eos_ids: Sequence[int], columns: int | None
) -> Tensor:
    if not constraints:
        return none
    sizes = [p.vocabulary.size for p, _ in constraints if hasattr(p, "vocabulary")]
    if columns is None and not sizes:
        raise ConfigurationError(
            "no constraint of the chain has a vocabulary; give the columns of the logits: columns=..."
        )
    size = max(sizes) if columns is None else checked_integer("columns", columns, 1, 2**31 - 1)
    context = Context.of([[]] * len(none), size, none.device)
    legal = torch.ones(len(none), size, dtype=torch.bool, device=none.device)
    goes_on = none.clone()
    finished = reduce(or_, [p.is_finished(s) for p, s in constraints if hasattr(p, "is_finished")], none)
    for processor, state in constraints:
        zeros = torch.zeros(legal.shape, device=none.device)
        allowed = process_checked(processor, state, zeros, context) > -torch.inf
        if not only_masks(processor):
            # What is forced wins over what is before it; EOS over what is behind it too, since a row left nothing has EOS.
            forced = ~allowed.all(1, keepdim=True)
            legal = torch.where(forced, allowed, legal)
            goes_on |= (forced & allowed)[:, list(eos_ids)].any(1)
        elif getattr(processor, "bans_repeats", False):
            # An EOS that ends the row does not repeat an earlier one, which was forced or is part of the prompt.
            allowed[:, list(eos_ids)] = True
            legal &= allowed | finished[:, None]
        else:
            legal &= allowed
    return ~legal.any(1) & ~goes_on
