"""Find the rows in which the constraints of a chain contradict each other."""

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

__all__ = ["allowed_tokens", "conflicts", "eos_ids_of"]


def eos_ids_of(processor: Processor[Any]) -> tuple[int, ...]:
    """Return the EOS ids that a processor knows, or one of the processors of a chain."""
    vocabulary = getattr(processor, "vocabulary", None)
    found = getattr(processor if vocabulary is None else vocabulary, "eos_ids", ())
    return getattr(processor, "known_eos_ids", ()) or (tuple(found) if isinstance(found, Iterable) else ())


def conflicts(
    processors: Sequence[Processor[Any]], states: Sequence[Any], eos_ids: Sequence[int], columns: int | None = None
) -> Tensor:
    """Return the rows that violate a constraint, or that the constraints leave without a token, except those ended by a stop.

    `is_dead(state)` of a constraint returns the rows that violate it, and `fired(state)` of a stop the rows that it has ended.
    The tokens that are left are found by masking a row of zeros. No step does this, so a pass over all tokens is affordable.

    Args:
        processors: The processors of a chain.
        states: Their states, of B rows.
        eos_ids: The ids that end a row without a token.
        columns: The number of columns of the logits. None: the size of the vocabulary.

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
    in_conflict = reduce(or_, broken, none) | _without_token(constraints, none, eos_ids, columns)
    return in_conflict & ~reduce(or_, stopped, none)


def _without_token(
    constraints: Sequence[tuple[Processor[Any], Any]], none: Tensor, eos_ids: Sequence[int], columns: int | None
) -> Tensor:
    if not constraints:
        return none
    legal, forced_end = _legal(constraints, none, eos_ids, columns)
    return ~legal.any(1) & ~forced_end


def allowed_tokens(
    processors: Sequence[Processor[Any]], states: Sequence[Any], eos_ids: Sequence[int], columns: int | None = None
) -> Tensor:
    """Return the tokens that all constraints of a chain leave, [B, V] bool; see `conflicts` for the arguments.

    Raises:
        ConfigurationError: No constraint has a vocabulary, and no columns are given.
    """
    constraints = [(p, s) for p, s in zip(processors, states, strict=True) if role_of(p) is Role.CONSTRAINT]
    first = leaves(tuple(states))[0]
    none = torch.zeros(len(first), dtype=torch.bool, device=first.device)
    return _legal(constraints, none, eos_ids, columns)[0]


def _legal(
    constraints: Sequence[tuple[Processor[Any], Any]], none: Tensor, eos_ids: Sequence[int], columns: int | None
) -> tuple[Tensor, Tensor]:
    """Return the tokens that are left, [B, V] bool, and the rows in which an EOS is forced, [B] bool."""
    sizes = [p.vocabulary.size for p, _ in constraints if hasattr(p, "vocabulary")]
    if columns is None and not sizes:
        raise ConfigurationError(
            "no constraint of the chain has a vocabulary; give the columns of the logits: columns=..."
        )
    size = max(sizes) if columns is None else checked_integer("columns", columns, 1, 2**31 - 1)
    context = Context.of([[]] * len(none), size, none.device)
    legal = torch.ones(len(none), size, dtype=torch.bool, device=none.device)
    forced_end = none.clone()
    finished = reduce(or_, [p.is_finished(s) for p, s in constraints if hasattr(p, "is_finished")], none)
    for processor, state in constraints:
        zeros = torch.zeros(legal.shape, device=none.device)
        allowed = process_checked(processor, state, zeros, context) > -torch.inf
        if not only_masks(processor):
            # Forced tokens override earlier constraints. A forced EOS also overrides later ones, because a row without a token
            # ends with EOS anyway.
            forced = ~allowed.all(1, keepdim=True)
            legal = torch.where(forced, allowed, legal)
            forced_end |= (forced & allowed)[:, list(eos_ids)].any(1)
        elif getattr(processor, "bans_repeats", False):
            # An EOS that ends the row does not count as a repeat of one that was forced or is part of the prompt.
            allowed[:, list(eos_ids)] = True
            legal &= allowed | finished[:, None]
        else:
            legal &= allowed
    return legal, forced_end
