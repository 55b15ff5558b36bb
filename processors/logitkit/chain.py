"""Several processors as one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Any, TypeGuard

import torch
from torch import Tensor

from logitkit.automata.limits import DEFAULT_LIMITS, Limits, check_limits
from logitkit.conflicts import conflicts, eos_ids_of
from logitkit.constraints.constraint import AutomatonConstraint
from logitkit.constraints.intersection import Intersection
from logitkit.constraints.pushdown_constraint import PushdownConstraint
from logitkit.context import Context
from logitkit.errors import ConfigurationError
from logitkit.processor import (
    Processor,
    Role,
    batch_size_of,
    check_same_structure,
    is_processor,
    name_of,
    own_rows,
    process_checked,
    reads_prompt,
    role_of,
)
from logitkit.tokens.forced import ForcedTokens
from logitkit.tokens.id_lists import checked_ids

__all__ = ["Chain", "chain"]

# These end rows that they leave nothing.
LANGUAGES = (AutomatonConstraint, PushdownConstraint)


@dataclass(frozen=True)
class Chain:
    """Processors that run one after another; make it with `chain`.

    Its state is the tuple of their states, left to right.
    """

    processors: tuple[Processor[Any], ...]
    eos_ids: tuple[int, ...] = field(default=(), repr=False, compare=False)

    @property
    def reads_prompt(self) -> bool:
        """Whether the tokens of prompts matter to any of them."""
        return any(map(reads_prompt, self.processors))

    @property
    def batch_size(self) -> int | None:
        """The number of rows that one of them is for, or None."""
        return next((rows for p in self.processors if (rows := batch_size_of(p)) is not None), None)

    def init_state(self, context: Context) -> tuple[Any, ...]:
        """Return the states of all processors for the rows of `context`."""
        return tuple(p.init_state(context) for p in self.processors)

    def advance(self, state: tuple[Any, ...], tokens: Tensor) -> tuple[Any, ...]:
        """Return the states of all processors after `tokens`, [B] or [B, T] int64."""
        after = []
        going_on = tokens
        for processor, before in zip(self.processors, state, strict=True):
            if isinstance(processor, ForcedTokens):
                going_on = processor.without_ends(before, going_on, self._eos_ids)
        for processor, before in zip(self.processors, state, strict=True):
            now = processor.advance(before, going_on if follows_text(processor) else tokens)
            check_same_structure(processor, "advance", before, now)
            after.append(now)
        return tuple(after)

    def process_logits(
        self, state: tuple[Any, ...], logits: Tensor, context: Context
    ) -> tuple[tuple[Any, ...], Tensor]:
        """Run every processor on the logits, [B, V], in order.

        Processors that may each allow other tokens can leave a row none: such a row ends with EOS, at logit 0.
        """
        after = []
        ending = self._ending
        for place, (processor, before) in enumerate(zip(self.processors, state, strict=True)):
            now, logits = process_checked(processor, before, logits, context)
            after.append(now)
            if place == ending:
                logits = _end_empty_rows(own_rows("chain", len(logits), logits), self._eos_ids)
        return tuple(after), logits

    def conflicts(self, state: tuple[Any, ...], columns: int | None = None) -> Tensor:
        """Return the rows that can only end, or have ended, against what the constraints ask for.

        A row whose text a stop has ended is none of them.

        Args:
            state: The state of B rows.
            columns: Columns of the logits, where they are more than a vocabulary has ids, or there is none.

        Returns:
            [B] bool: the row has left the language of a constraint, or together they leave it nothing to say.

        Raises:
            ConfigurationError: No constraint has a vocabulary, and no columns are given.
        """
        return conflicts(self.processors, state, columns)

    @cached_property
    def _ending(self) -> int | None:
        """The place behind which empty rows are ended: that of the last that may ban, unless it does so itself."""
        may_ban = [i for i, p in enumerate(self.processors) if role_of(p) in (None, Role.CONSTRAINT)]
        if len(may_ban) < 2 or not self._eos_ids or isinstance(self.processors[may_ban[-1]], LANGUAGES):
            return None
        return may_ban[-1]

    @property
    def ending_ids(self) -> tuple[int, ...]:
        """The ids at logit 0 in rows that its processors leave nothing; none where they see to such rows by themselves."""
        return () if self._ending is None else self._eos_ids

    @cached_property
    def _eos_ids(self) -> tuple[int, ...]:
        # What a vocabulary says comes first: `MinNewTokens` may hold back ids that end no constrained text.
        known = sorted(self.processors, key=lambda p: not hasattr(p, "vocabulary"))
        return self.eos_ids or next((found for p in known if (found := eos_ids_of(p))), ())


def follows_text(processor: Processor[Any]) -> bool:
    """Return whether EOS finishes what a processor follows, so that one that is forced is none to it; others count tokens."""
    return role_of(processor) is Role.CONSTRAINT and hasattr(processor, "vocabulary")


def _end_empty_rows(logits: Tensor, eos_ids: tuple[int, ...]) -> Tensor:
    never = float("-inf")
    empty = logits.amax(1, keepdim=True) == never
    ends = torch.tensor(eos_ids, device=logits.device)
    kept = logits.index_select(1, ends)
    # Logits that want gradients may not be written as they are.
    logits.detach().index_copy_(1, ends, torch.where(empty, torch.zeros_like(kept), kept).detach())
    return logits


def chain(*processors: Processor[Any], limits: Limits = DEFAULT_LIMITS, eos_ids: Iterable[int] = ()) -> Chain:
    """Make one processor of several; they run from left to right, and chains inside are flattened.

    Args:
        *processors: Any processors. A constraint (`Regex`, `Choice`, ...) must stand before every truncation (`TopK`, ...):
            all that a truncation keeps might be illegal. Finite automata among neighbouring constraints become one, their
            `Intersection`, so that together they have no dead end.
        limits: Bounds on each such intersection.
        eos_ids: What ends a row that the constraints leave nothing; needed only where none of them has a vocabulary.

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
    check_limits(limits)
    ends = checked_ids("eos_ids", eos_ids)
    flat: list[Processor[Any]] = []
    for i, processor in enumerate(processors):
        if isinstance(processor, Chain):
            flat.extend(processor.processors)
            ends = ends or processor.eos_ids
        elif not is_processor(processor):
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
    return Chain(tuple(_joined(flat, limits)), ends)


def _joined(processors: list[Processor[Any]], limits: Limits) -> list[Processor[Any]]:
    """Replace the automata of each run of constraints by their intersection, which stands where the first of them stood."""
    joined: list[Processor[Any]] = []
    for constrains, run in groupby(processors, lambda p: role_of(p) is Role.CONSTRAINT):
        members = list(run)
        automata = [p for p in members if _is_finite(p)]
        if not constrains or len(automata) < 2:
            joined.extend(members)
            continue
        parts = (q for p in automata for q in (p.parts if isinstance(p, Intersection) else (p,)))
        both = Intersection(tuple(parts), limits=limits)
        # Constraints only mask, so what stands between two of them need not stay there.
        joined.extend(both if p is automata[0] else p for p in members if p is automata[0] or p not in automata[1:])
    return joined


def _is_finite(processor: Processor[Any]) -> TypeGuard[AutomatonConstraint | PushdownConstraint]:
    return isinstance(processor, AutomatonConstraint) or (
        isinstance(processor, PushdownConstraint) and processor.is_finite
    )


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
