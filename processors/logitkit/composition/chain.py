"""Chains: several processors as one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch import Tensor

from logitkit.composition.bitmasks import token_bitmask
from logitkit.composition.conflicts import allowed_tokens, conflicts, eos_ids_of
from logitkit.composition.empty_rows import end_rows
from logitkit.composition.ends import without_forced_ends
from logitkit.constraints.intersection import intersected
from logitkit.errors import ConfigurationError
from logitkit.lazy import lazy
from logitkit.limits import DEFAULT_LIMITS, Limits, check_limits
from logitkit.parameters.token_ids import checked_ids
from logitkit.protocol.calls import advance_checked, by_tensors, init_checked, own_rows, process_checked
from logitkit.protocol.context import Context
from logitkit.protocol.declared import (
    counts_until_end,
    ends_empty_rows,
    follows_text,
    is_foreign,
    may_empty_rows,
    truncates,
)
from logitkit.protocol.not_a_hook import NotAHook
from logitkit.protocol.processor import (
    Processor,
    Role,
    batch_size_of,
    check_is_processor,
    name_of,
    reads_guidance,
    reads_max_length,
    reads_prompt,
    role_of,
)
from logitkit.runtime.constraint import Constraint
from logitkit.runtime.shared_passes import process_together, run_ends

__all__ = ["Chain", "chain", "members"]

# How many texts `example` draws from one constraint, to find one that the others allow.
DRAWS = 100


@dataclass(frozen=True)
class Chain(NotAHook):
    """Several processors that run one after another; create it with `chain`.

    Its state is the tuple of their states, from left to right.
    """

    processors: tuple[Processor[Any], ...]
    eos_ids: tuple[int, ...] = field(default=(), repr=False, compare=False)

    # Every call of one of its processors is checked, so a call of its own is not checked again.
    checks_parts: ClassVar[bool] = True

    def __post_init__(self) -> None:
        # Computed now, because declarations are cached by class, which a graph of torch.compile does not do.
        _ = self._ending, self._counts, self._run_ends, self.at_fault

    @property
    def reads_prompt(self) -> bool:
        """Whether any of the processors uses the tokens of prompts."""
        return any(map(reads_prompt, self.processors))

    @property
    def reads_max_length(self) -> bool:
        """Whether any of the processors uses the maximum length of a row."""
        return any(map(reads_max_length, self.processors))

    @property
    def reads_guidance(self) -> bool:
        """Whether any of the processors reads the logits of a second pass."""
        return any(map(reads_guidance, self.processors))

    @property
    def batch_size(self) -> int | None:
        """The number of rows that one of the processors is made for, or None for any number."""
        return next((rows for p in self.processors if (rows := batch_size_of(p)) is not None), None)

    def init_state(self, context: Context) -> tuple[Any, ...]:
        """Return the states of all processors for the rows of `context`."""
        return tuple(init_checked(p, context) for p in self.processors)

    def advance(self, state: tuple[Any, ...], tokens: Tensor) -> tuple[Any, ...]:
        """Return the states of all processors after `tokens`, [B] or [B, T] int64."""
        after = []
        going_on, ends = tokens, None
        if self._counts:
            going_on, ends = without_forced_ends(zip(self.processors, state, strict=True), tokens, self.known_eos_ids)
        for processor, before in zip(self.processors, state, strict=True):
            if ends is not None and counts_until_end(processor):
                after.append(processor.advance_until_end(before, tokens, ends))  # type: ignore[attr-defined]
            else:
                shown = going_on if going_on is tokens or follows_text(processor) else tokens
                after.append(advance_checked(processor, before, shown))
        return tuple(after)

    def process_logits(
        self, state: tuple[Any, ...], logits: Tensor, context: Context
    ) -> tuple[tuple[Any, ...], Tensor]:
        """Run every processor on the logits, [B, V], in order.

        Several constraints together can leave a row without a legal token, and so can processors of your own. Such a row ends
        with EOS, at logit 0.
        """
        return state, self.processed(state, logits, context)[0]

    def processed(self, state: tuple[Any, ...], logits: Tensor, context: Context) -> tuple[Tensor, Tensor | None]:
        """Run every processor on the logits, [B, V].

        Returns:
            The logits, and the rows that the chain has ended because no token was left, [B] bool; None if there are none.
        """
        links, ending, ended, done = [*zip(self.processors, state, strict=True)], self._ending, None, 0
        for place, (processor, before) in enumerate(links):
            run_end = self._run_ends[place]
            if place >= done and run_end > place + 1 and by_tensors(logits):
                count, logits = process_together(links[place:run_end], logits)
                done = place + count
            if place >= done:
                logits = process_checked(processor, before, logits, context)
            if place == ending:
                logits, ended = end_rows(own_rows("chain", len(logits), logits), self.known_eos_ids)
        return logits, ended

    def ends_rows_after(self, place: int) -> bool:
        """Whether the chain ends rows that have no token left after the processor at an index, with EOS at logit 0."""
        return place == self._ending

    def conflicts(self, state: tuple[Any, ...], columns: int | None = None, context: Context | None = None) -> Tensor:
        """Return the rows that violate a constraint, or that the processors together leave without a token.

        Such rows end with EOS. A row that was ended by a stop is not in conflict. If the chain has a constraint on text, a
        conflict is still reported after EOS.

        Functions and classes of your own, which may ban tokens without a role, are tried on logits that the constraints leave.

        Args:
            state: The state of B rows.
            columns: The number of columns of the logits, if it is not the size of a vocabulary.
            context: The context of the rows, if a function or class of yours reads it. None: rows without a prompt.

        Returns:
            [B] bool.

        Raises:
            ConfigurationError: No constraint has a vocabulary, and no columns are given; or a function or class of yours fails
                without the context.
        """
        return conflicts(self.processors, state, self.known_eos_ids, columns, context)

    def allowed_tokens(self, state: tuple[Any, ...], columns: int | None = None) -> Tensor:
        """Return the tokens that all constraints of the chain leave: [B, V] bool, none in a row in conflict.

        In a row that a stop has ended before its text is complete, these are the EOS ids.

        Args:
            state: The state of B rows.
            columns: The number of columns of the logits, if it is not the size of a vocabulary.

        Raises:
            ConfigurationError: No constraint has a vocabulary, and no columns are given.
        """
        return allowed_tokens(self.processors, state, self.known_eos_ids, columns)

    def token_bitmask(
        self, state: tuple[Any, ...], columns: int | None = None, context: Context | None = None
    ) -> Tensor:
        """Return the mask of `process_logits` as bits, [B, ceil(columns / 32)] int32; see `conflicts` for the arguments.

        Raises:
            ConfigurationError: A processor is not a constraint; or none has a vocabulary, and no columns are given.
        """
        links = list(zip(self.processors, state, strict=True))
        return token_bitmask(links, lambda *given: self.processed(state, *given)[0], columns, context)

    def matches(self, text: str | bytes) -> bool:
        """Whether all constraints on text in the chain allow a complete text, in some tokenization."""
        return all(p.matches(text) for p in self.processors if isinstance(p, Constraint))

    def example(self, seed: int = 0) -> str:
        """Return a random text that all constraints on text in the chain allow.

        Args:
            seed: The seed of the random numbers.

        Raises:
            ConfigurationError: The chain has no constraint on text, or no text for all of them was found.
        """
        first = next((p for p in self.processors if isinstance(p, Constraint)), None)
        if first is None:
            raise ConfigurationError("the chain has no constraint on text, so every text is an example; add one")
        for draw in range(DRAWS):
            text = first.example(seed + draw)
            if self.matches(text):
                return text
        raise ConfigurationError(
            f"none of {DRAWS} texts of {name_of(first)} is allowed by the other constraints; try another seed"
        )

    @lazy
    def _counts(self) -> bool:
        """Whether any of the processors counts tokens until an EOS ends the row, so that a forced EOS must be recognized."""
        return bool(self.known_eos_ids) and any(map(counts_until_end, self.processors))

    @lazy
    def _ending(self) -> int | None:
        """The index of the last processor that may leave a row without a token; None if that one ends such rows itself."""
        if not self.known_eos_ids:
            return None
        foreign = [i for i, p in enumerate(self.processors) if is_foreign(p)]
        may_ban = [i for i, p in enumerate(self.processors) if role_of(p) is Role.CONSTRAINT]
        places = [*foreign, *(may_ban if foreign or len(may_ban) > 1 else ())]
        last = max(places, default=None)
        return None if last is None or ends_empty_rows(self.processors[last]) else last

    @lazy
    def _run_ends(self) -> tuple[int, ...]:
        """For each processor, the index after the last of those that may share passes with it."""
        return run_ends(self.processors, self._ending)

    @lazy
    def at_fault(self) -> tuple[Processor[Any], ...]:
        """The processors that may leave a row without a token, if neither the chain nor a later processor ends such rows."""
        ends = [i for i, p in enumerate(self.processors) if i == self._ending or ends_empty_rows(p)]
        return tuple(p for p in self.processors[max(ends, default=-1) + 1 :] if may_empty_rows(p))

    @property
    def ending_ids(self) -> tuple[int, ...]:
        """The EOS ids with which the chain ends rows without a token; empty if its processors end such rows themselves."""
        return () if self._ending is None else self.known_eos_ids

    @lazy
    def known_eos_ids(self) -> tuple[int, ...]:
        """The EOS ids that the caller or one of the processors gives."""
        # Those of a vocabulary come first: `MinNewTokens` may hold back ids that do not end a constrained text.
        known = sorted(self.processors, key=lambda p: not hasattr(p, "vocabulary"))
        return self.eos_ids or next((found for p in known if (found := eos_ids_of(p))), ())


def chain(*processors: Processor[Any], limits: Limits = DEFAULT_LIMITS, eos_ids: Iterable[int] = ()) -> Chain:
    """Combine several processors into one, which runs them from left to right; chains inside are flattened.

    Args:
        *processors: Any processors. A constraint (`Regex`, `Choice`, ...) must come before every truncation (`TopK`, ...) and
            before `Temperature(0)`, because all tokens that these keep might be illegal. `Guidance` must come first. Neighbouring
            constraints that are finite automata become one `Intersection`, so that generation cannot get stuck between them, with
            `closing` too.
        limits: Bounds on each intersection.
        eos_ids: The ids that end a row without a legal token. Needed only if no constraint has a vocabulary.

    Returns:
        A processor whose state is the tuple of their states.

    Raises:
        ConfigurationError: An argument is not a processor, a constraint comes after a truncation, `Guidance` comes after another
            processor, or no text satisfies all neighbouring constraints.
        PatternTooLarge: The product of neighbouring constraints would exceed a limit.

    Example:
        >>> import logitkit as lk
        >>> vocabulary = lk.Vocabulary([b"0", b"1", None], eos_ids=[2])
        >>> both = lk.chain(lk.RepetitionPenalty(1.1), lk.Regex("[01]{2}", vocabulary))
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
        else:
            check_is_processor(processor, f"argument {i} of chain", "(logitkit.Stateless lifts a plain function)")
            flat.append(processor)
    _check_order(flat)
    return Chain(tuple(intersected(flat, limits)), ends)


def members(processor: Processor[Any]) -> tuple[Processor[Any], ...]:
    """Return the processors of a chain, or the only processor."""
    return processor.processors if isinstance(processor, Chain) else (processor,)


def _check_order(processors: list[Processor[Any]]) -> None:
    truncation: Processor[Any] | None = None
    for place, processor in enumerate(processors):
        if place and reads_guidance(processor):
            raise ConfigurationError(
                f"chain has {name_of(processor)} after {name_of(processors[place - 1])}, which changes the logits of only one of "
                f"the two passes that {name_of(processor)} compares; put {name_of(processor)} first"
            )
        if truncates(processor):
            truncation = processor
        elif role_of(processor) is Role.CONSTRAINT and truncation is not None:
            before = (
                f"the truncation {name_of(truncation)}" if role_of(truncation) is Role.TRUNCATION else repr(truncation)
            )
            raise ConfigurationError(
                f"chain has the constraint {name_of(processor)} after {before}, which may leave only illegal tokens; put "
                f"{name_of(processor)} first"
            )
