"""Find the rows in which the constraints of a chain contradict each other, or in which other processors leave no token."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_
from typing import Any

import torch
from torch import Tensor

from logitkit.errors import ConfigurationError
from logitkit.parameters.scalars import checked_integer
from logitkit.protocol.calls import process_checked
from logitkit.protocol.context import Context
from logitkit.protocol.declared import is_foreign, only_masks
from logitkit.protocol.processor import Processor, Role, name_of, role_of
from logitkit.protocol.state import leaves

__all__ = [
    "allowed_tokens",
    "conflicts",
    "context_of_columns",
    "eos_ids_of",
    "fired_rows",
    "legal_tokens",
    "refused_ends",
]

# A function may ban tokens by their logits, so all legal tokens are shown with each of these.
PROBES = (0.0, 1e4)


def eos_ids_of(processor: Processor[Any]) -> tuple[int, ...]:
    """Return the EOS ids that a processor knows, or one of the processors of a chain."""
    vocabulary = getattr(processor, "vocabulary", None)
    found = getattr(processor if vocabulary is None else vocabulary, "eos_ids", ())
    return getattr(processor, "known_eos_ids", ()) or (tuple(found) if isinstance(found, Iterable) else ())


def conflicts(
    processors: Sequence[Processor[Any]],
    states: Sequence[Any],
    eos_ids: Sequence[int],
    columns: int | None = None,
    context: Context | None = None,
) -> Tensor:
    """Return the rows that violate a constraint, or that the processors leave without a token, except those ended by a stop.

    `is_dead(state)` of a constraint returns the rows that violate it, and `fired(state)` of a stop the rows that it has ended.
    The tokens that are left are found by masking rows of zeros. No step does this, so a pass over all tokens is affordable.

    Args:
        processors: The processors of a chain.
        states: Their states, of B rows.
        eos_ids: The ids that end a row without a token.
        columns: The number of columns of the logits. None: the size of the vocabulary.
        context: The context of the rows, for functions and classes of users. None: rows without a prompt.

    Returns:
        [B] bool.

    Raises:
        ConfigurationError: No constraint has a vocabulary, and no columns are given; or a function or class of a user fails
            without the context.
    """
    pairs = list(zip(processors, states, strict=True))
    constraints = [(p, s) for p, s in pairs if role_of(p) is Role.CONSTRAINT]
    tensors = leaves(tuple(states))
    if not tensors:
        return torch.zeros(0, dtype=torch.bool)
    none = torch.zeros(len(tensors[0]), dtype=torch.bool, device=tensors[0].device)
    broken = [p.is_dead(s) for p, s in constraints if hasattr(p, "is_dead")]
    in_conflict = reduce(or_, broken, none)
    if constraints:
        legal, forced_end = legal_tokens(constraints, context_of_columns(constraints, none, columns, context), eos_ids)
        in_conflict = in_conflict | (~legal.any(1) & ~forced_end)
        others = [(p, s) for p, s in pairs if _may_ban(p)]
        if others:
            in_conflict = in_conflict | _without_token(others, legal, eos_ids, context)
    return in_conflict & ~reduce(or_, fired_rows(pairs), none)


def fired_rows(pairs: Iterable[tuple[Processor[Any], Any]]) -> list[Tensor]:
    """Return the rows that each stop has ended, [B] bool."""
    return [p.fired(s) for p, s in pairs if hasattr(p, "fired")]


def _may_ban(processor: Processor[Any]) -> bool:
    """Whether a processor is a function or class of a user that may ban tokens without the role of a constraint."""
    return is_foreign(processor) and role_of(processor) is not Role.CONSTRAINT


def _without_token(
    others: Sequence[tuple[Processor[Any], Any]], legal: Tensor, eos_ids: Sequence[int], context: Context | None
) -> Tensor:
    """Return the rows that could go on under the constraints, but to which functions and classes of users leave no token."""
    going_on = legal.clone()
    going_on[:, [end for end in eos_ids if end < legal.shape[1]]] = False
    left = torch.zeros_like(going_on)
    for value in PROBES:
        logits = torch.where(legal, value, -torch.inf)
        for processor, state in others:
            shown = Context.of([[]] * len(legal), legal.shape[1], legal.device) if context is None else context
            try:
                logits = process_checked(processor, state, logits, shown)
            except Exception as error:
                if context is not None:
                    raise
                raise ConfigurationError(
                    f"without the context of the rows, {name_of(processor)} fails ({type(error).__name__}: {error}), so its bans "
                    "are unknown; give it: conflicts(state, context=...)"
                ) from error
        left = left | (logits > -torch.inf)
    return going_on.any(1) & ~left.any(1)


def allowed_tokens(
    processors: Sequence[Processor[Any]], states: Sequence[Any], eos_ids: Sequence[int], columns: int | None = None
) -> Tensor:
    """Return the tokens that all constraints of a chain leave, [B, V] bool; see `conflicts` for the arguments.

    In a row that a stop has ended before its text is complete, these are the EOS ids.

    Raises:
        ConfigurationError: No constraint has a vocabulary, and no columns are given.
    """
    pairs = list(zip(processors, states, strict=True))
    constraints = [(p, s) for p, s in pairs if role_of(p) is Role.CONSTRAINT]
    first = leaves(tuple(states))[0]
    none = torch.zeros(len(first), dtype=torch.bool, device=first.device)
    legal = legal_tokens(constraints, context_of_columns(constraints, none, columns), eos_ids)[0]
    ends = torch.zeros(legal.shape[1], dtype=torch.bool, device=legal.device)
    ends[[end for end in eos_ids if end < len(ends)]] = True
    over = reduce(or_, fired_rows(pairs), none) & ~legal.any(1)
    return torch.where(over[:, None], ends, legal)


def context_of_columns(
    constraints: Sequence[tuple[Processor[Any], Any]],
    none: Tensor,
    columns: int | None = None,
    context: Context | None = None,
) -> Context:
    """Return the context in which the tokens that are left are found."""
    if context is not None:
        return context
    sizes = [v.size for p, _ in constraints if (v := getattr(p, "vocabulary", None)) is not None]
    if columns is None and not sizes:
        raise ConfigurationError(
            "no constraint of the chain has a vocabulary; give the columns of the logits: columns=..."
        )
    size = max(sizes) if columns is None else checked_integer("columns", columns, 1, 2**31 - 1)
    return Context.of([[]] * len(none), size, none.device)


def refused_ends(constraints: Sequence[tuple[Processor[Any], Any]], context: Context, eos_ids: Sequence[int]) -> Tensor:
    """Return the rows whose end at one of some EOS ids any of the constraints does not allow by itself, [B] bool.

    Args:
        constraints: The constraints, each with its state of B rows before the end.
        context: The context of the rows.
        eos_ids: The ids.
    """
    refused = torch.zeros(context.batch_size, dtype=torch.bool, device=context.device)
    for processor, state in constraints:
        # An EOS that ends the row does not count as a repeat of one that was forced or is part of the prompt.
        if not getattr(processor, "bans_repeats", False):
            refused |= ~_alone(processor, state, context)[:, list(eos_ids)].any(1)
        if hasattr(processor, "is_dead"):
            refused |= processor.is_dead(state)
    return refused


def legal_tokens(
    constraints: Sequence[tuple[Processor[Any], Any]], context: Context, eos_ids: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """Return the tokens that constraints leave, [B, V] bool, and the rows in which an EOS is forced, [B] bool.

    Args:
        constraints: The constraints in the order of their chain, each with its state of B rows.
        context: The context of the rows.
        eos_ids: The ids that end a row.
    """
    device = context.device
    legal = torch.ones(context.batch_size, context.vocabulary_size, dtype=torch.bool, device=device)
    forced_end = torch.zeros(context.batch_size, dtype=torch.bool, device=device)
    finished = reduce(or_, [p.is_finished(s) for p, s in constraints if hasattr(p, "is_finished")], forced_end)
    for processor, state in constraints:
        allowed = _alone(processor, state, context)
        if not only_masks(processor):
            # Forced tokens override earlier constraints. A forced EOS also overrides later ones, because a row without a token
            # ends with EOS anyway.
            forced = ~allowed.all(1, keepdim=True)
            legal = torch.where(forced, allowed, legal)
            forced_end = forced_end | (forced & allowed)[:, list(eos_ids)].any(1)
        elif getattr(processor, "bans_repeats", False):
            # An EOS that ends the row does not count as a repeat of one that was forced or is part of the prompt.
            allowed[:, list(eos_ids)] = True
            legal &= allowed | finished[:, None]
        else:
            legal &= allowed
    return legal, forced_end


def _alone(processor: Processor[Any], state: Any, context: Context) -> Tensor:
    """Return the tokens that a processor leaves by itself, [B, V] bool."""
    zeros = torch.zeros(context.batch_size, context.vocabulary_size, device=context.device)
    return process_checked(processor, state, zeros, context) > -torch.inf
