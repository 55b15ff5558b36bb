"""A step of rows that have a processor each: who takes it, and its state.

A step is one of the canonical order, as `BatchedRequests` has them, whose processors run all rows together, or a processor of its
own, which knows nothing of the other rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from logitkit.batching.steps import OwnStep, StepKey, class_of, rank, steps_of
from logitkit.composition.chain import Chain
from logitkit.composition.conflicts import eos_ids_of
from logitkit.errors import ConfigurationError
from logitkit.protocol.calls import by_tensors, process_checked
from logitkit.protocol.context import Context, select_context
from logitkit.protocol.declared import counts_until_end, follows_text, neutral_state
from logitkit.protocol.processor import Processor
from logitkit.protocol.state import select
from logitkit.runtime.automaton_registry import AutomatonRegistry
from logitkit.runtime.shared import shared_by

__all__ = ["RowStep", "SharedKey", "StepRows", "canonical_steps", "filler", "index_of", "process_own"]


class StepRows(NamedTuple):
    """The state of one step.

    Args:
        takes: [B] bool, the rows that take it.
        state: The state of all rows; that of a row that does not take the step is neutral, or means nothing.
    """

    takes: Tensor
    state: Any


class SharedKey(NamedTuple):
    """A step of the canonical order, which rows take together if their processors have the same vocabulary, or need none.

    Args:
        step: The step.
        registry: The registry of the vocabulary: a number in a state means another automaton in that of another vocabulary.
    """

    step: StepKey
    registry: AutomatonRegistry | None

    @property
    def rank(self) -> tuple[Any, ...]:
        """The sort key in the canonical order."""
        return rank(self.step), id(self.registry)


class RowStep(NamedTuple):
    """A step of some rows.

    Args:
        key: The part that the processors of such rows share: a step of the canonical order, or the identity of their processor.
        runs: The processor that runs it for all rows.
        links: By the identity of the processor of a row: the part of it that takes this step.
        is_shared: Whether it is a step of the canonical order.
    """

    key: Any
    runs: Processor[Any]
    links: Mapping[int, Processor[Any]]
    is_shared: bool


def canonical_steps(processor: Processor[Any]) -> Mapping[SharedKey, Processor[Any]] | None:
    """Return the steps of the canonical order that a processor consists of, or None if it is a step by itself."""
    try:
        steps = steps_of(processor)
    except ConfigurationError:
        return None
    if any(isinstance(key, OwnStep) for key in steps) or _has_other_ends(processor):
        return None
    return {SharedKey(key, _registry_of(link)): link for key, link in steps.items()}


def _registry_of(link: Processor[Any]) -> AutomatonRegistry | None:
    vocabulary = getattr(link, "vocabulary", None)
    return None if vocabulary is None else shared_by(vocabulary).registry


def _has_other_ends(processor: Processor[Any]) -> bool:
    """Whether a chain counts tokens until an EOS that is not that of its first text, the only one that shared steps know."""
    if not isinstance(processor, Chain) or not any(map(counts_until_end, processor.processors)):
        return False
    known = next((eos_ids_of(link) for link in processor.processors if follows_text(link)), ())
    return processor.known_eos_ids != known


def filler(step: RowStep, count: int, device: torch.device, some: Any) -> Any:
    """Return the state of rows that do not take a step; `some` is the state of rows, at least one."""
    if step.is_shared:
        return neutral_state(class_of(step.key.step), Context.of([[]] * count, 0, device))
    return select(some, torch.zeros(count, dtype=torch.int64, device=device))


def process_own(runs: Processor[Any], rows: StepRows, logits: Tensor, context: Context) -> Tensor:
    """Return the logits, [B, V], with those of the rows that take a step processed."""
    takes, state = rows
    if by_tensors(logits):
        return torch.where(takes[:, None], process_checked(runs, state, logits.clone(), context), logits)
    which = takes.nonzero()[:, 0]
    if len(which) == len(takes):
        return process_checked(runs, state, logits, context)
    if not len(which):
        return logits
    part = logits.index_select(0, which)
    found = process_checked(runs, select(state, which), part, select_context(context, which))
    return logits.index_copy_(0, which, found)


def index_of(rows: Sequence[int], device: torch.device) -> Tensor:
    """Return row numbers as a tensor for `select`."""
    return torch.tensor([*rows], dtype=torch.int64, device=device)
