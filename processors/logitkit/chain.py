"""Several processors as one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from logitkit.constraints.constraint import AutomatonConstraint
from logitkit.constraints.intersection import Intersection
from logitkit.context import Context
from logitkit.errors import ConfigurationError
from logitkit.processor import (
    Processor,
    Role,
    check_same_structure,
    name_of,
    process_checked,
    reads_prompt,
    role_of,
)

__all__ = ["Chain", "chain"]


@dataclass(frozen=True)
class Chain:
    """Processors that run one after another; make it with `chain`.

    Its state is the tuple of their states, left to right.
    """

    processors: tuple[Processor[Any], ...]

    @property
    def reads_prompt(self) -> bool:
        """Whether the tokens of prompts matter to any of them."""
        return any(map(reads_prompt, self.processors))

    def init_state(self, context: Context) -> tuple[Any, ...]:
        """Return the states of all processors for the rows of `context`."""
        return tuple(p.init_state(context) for p in self.processors)

    def advance(self, state: tuple[Any, ...], tokens: Tensor) -> tuple[Any, ...]:
        """Return the states of all processors after `tokens`, [B] or [B, T] int64."""
        after = []
        for processor, before in zip(self.processors, state, strict=True):
            now = processor.advance(before, tokens)
            check_same_structure(processor, "advance", before, now)
            after.append(now)
        return tuple(after)

    def process_logits(
        self, state: tuple[Any, ...], logits: Tensor, context: Context
    ) -> tuple[tuple[Any, ...], Tensor]:
        """Run every processor on the logits, [B, V], in order.

        Constraints that are no neighbours may each allow other tokens and leave none: such a row ends with EOS, at logit 0.
        """
        after = []
        last = self._last_constraint
        for place, (processor, before) in enumerate(zip(self.processors, state, strict=True)):
            now, logits = process_checked(processor, before, logits, context)
            after.append(now)
            if place == last:
                logits = _end_empty_rows(logits, self._eos_ids)
        return tuple(after), logits

    @cached_property
    def _last_constraint(self) -> int | None:
        """The place behind which rows are looked at, or None where a constraint alone, which does so itself, may empty them."""
        first = next(
            (i for i, p in enumerate(self.processors) if isinstance(p, AutomatonConstraint)), len(self.processors)
        )
        may_ban = [i for i, p in enumerate(self.processors) if role_of(p) in (None, Role.CONSTRAINT) and i > first]
        return may_ban[-1] if may_ban else None

    @cached_property
    def _eos_ids(self) -> tuple[int, ...]:
        constraints = (p for p in self.processors if isinstance(p, AutomatonConstraint))
        return next((p.vocabulary.eos_ids for p in constraints), ())


def _end_empty_rows(logits: Tensor, eos_ids: tuple[int, ...]) -> Tensor:
    never = float("-inf")
    empty = logits.amax(1, keepdim=True) == never
    ends = torch.tensor(eos_ids, device=logits.device)
    kept = logits.index_select(1, ends)
    return logits.index_copy_(1, ends, torch.where(empty, torch.zeros_like(kept), kept))


def chain(*processors: Processor[Any]) -> Chain:
    """Make one processor of several; they run from left to right, and chains inside are flattened.

    Args:
        *processors: Any processors. A constraint (`Regex`, `Choice`, ...) must stand before every truncation (`TopK`, ...):
            all that a truncation keeps might be illegal. Neighbouring constraints become one, their `Intersection`, so that
            together they have no dead end.

    Returns:
        A processor whose state is the tuple of their states.

    Raises:
        ConfigurationError: An argument is no processor, a constraint stands after a truncation, or neighbouring constraints
            allow no text together.
        PatternTooLarge: The product of neighbouring constraints would exceed a limit.

    Example:
        >>> import logitkit as lk
        >>> vocabulary = lk.Vocabulary([b"0", b"1", None], eos_ids=[2])
        >>> both = chain(lk.RepetitionPenalty(1.1), lk.Regex("[01]{2}", vocabulary))
        >>> [type(p).__name__ for p in both.processors]
        ['RepetitionPenalty', 'Regex']
    """
    flat: list[Processor[Any]] = []
    for i, processor in enumerate(processors):
        if isinstance(processor, Chain):
            flat.extend(processor.processors)
        elif isinstance(processor, type) or not isinstance(processor, Processor):
            given = (
                f"the class {processor.__name__}" if isinstance(processor, type) else f"a {type(processor).__name__}"
            )
            raise ConfigurationError(
                f"argument {i} of chain is {given}; give a processor, that is an object with init_state, advance and "
                "process_logits (logitkit.Stateless lifts a plain function)"
            )
        else:
            flat.append(processor)
    _check_order(flat)
    return Chain(tuple(_joined(flat)))


def _joined(processors: list[Processor[Any]]) -> list[Processor[Any]]:
    """Replace each run of neighbouring constraints by its intersection."""
    joined: list[Processor[Any]] = []
    for constrains, run in groupby(processors, lambda p: isinstance(p, AutomatonConstraint)):
        members = list(run)
        if constrains and len(members) > 1:
            parts = (q for p in members for q in (p.parts if isinstance(p, Intersection) else (p,)))
            joined.append(Intersection(tuple(parts)))  # type: ignore[arg-type]
        else:
            joined.extend(members)
    return joined


def _check_order(processors: list[Processor[Any]]) -> None:
    truncation: Processor[Any] | None = None
    for processor in processors:
        if role_of(processor) is Role.TRUNCATION:
            truncation = processor
        elif role_of(processor) is Role.CONSTRAINT and truncation is not None:
            raise ConfigurationError(
                f"chain has the constraint {name_of(processor)} after the truncation {name_of(truncation)}, which may leave "
                f"only illegal tokens; put {name_of(processor)} first"
            )
