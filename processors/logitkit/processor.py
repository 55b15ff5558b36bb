"""The protocol that every logits processor follows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol, TypeGuard, TypeVar, runtime_checkable

import torch
from torch import Tensor

from logitkit.context import Context
from logitkit.errors import BatchMismatch, ConfigurationError, ProcessorError

__all__ = ["Processor", "Role", "Stateless"]

S = TypeVar("S")


class Role(IntEnum):
    """What a processor does to logits: the canonical order in which kinds run.

    A constraint never follows a truncation, because what truncation keeps may all be illegal.
    """

    BIAS = 0
    PENALTY = 1
    CONSTRAINT = 2
    TEMPERATURE = 3
    TRUNCATION = 4


@runtime_checkable
class Processor(Protocol[S]):
    """A logits processor: three pure functions and no mutable state of its own.

    A state is a NamedTuple of tensors whose leading dimension is the row (or a tuple of such states). No
    method changes the processor or a state it is given. Implementations are frozen dataclasses and may set the
    attributes `role: Role`, `reads_prompt: bool` (tokens of prompts matter to it, so that pads would count) and
    `batch_size: int | None` (it has something for each row of one batch).

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> penalty = lk.RepetitionPenalty(2.0)
        >>> context = Context.of([[0]], vocabulary_size=3)
        >>> state = penalty.init_state(context)
        >>> state = penalty.advance(state, torch.tensor([2]))
        >>> penalty.process_logits(state, torch.tensor([[1.0, 1.0, -1.0]]), context)[1]
        tensor([[ 0.5000,  1.0000, -2.0000]])
    """

    def init_state(self, context: Context) -> S:
        """Return the state of `context.batch_size` rows that have their prompt and no output yet."""
        ...

    def advance(self, state: S, tokens: Tensor) -> S:
        """Return the state after tokens were committed.

        Args:
            state: The state of B rows.
            tokens: [B] or [B, T] int64 token ids, -1 where a row has none.
        """
        ...

    def process_logits(self, state: S, logits: Tensor, context: Context) -> tuple[S, Tensor]:
        """Return the state and the processed logits; `logits`, [B, V] floating point, may be overwritten."""
        ...


@dataclass(frozen=True)
class Stateless:
    """Lift `fn(logits, context) -> logits` to a processor.

    Args:
        fn: A pure function of logits [B, V] and the context; it may overwrite the logits.

    Raises:
        ProcessorError: On use, when the function does not return a tensor of the same shape and dtype.

    Example:
        >>> import torch
        >>> halve = Stateless(lambda logits, context: logits / 2)
        >>> context = Context.of([[]], vocabulary_size=2)
        >>> halve.process_logits((), torch.tensor([[2.0, 4.0]]), context)[1]
        tensor([[1., 2.]])
    """

    fn: Callable[[Tensor, Context], Tensor]

    def init_state(self, context: Context) -> tuple[()]:
        """Return the empty state."""
        return ()

    def advance(self, state: tuple[()], tokens: Tensor) -> tuple[()]:
        """Return the empty state: nothing is remembered."""
        return state

    def process_logits(self, state: tuple[()], logits: Tensor, context: Context) -> tuple[tuple[()], Tensor]:
        """Return the function's result."""
        return state, self.fn(logits, context)


# What the protocol asks for. `isinstance` would find it out of the protocol's annotations, anew at every call.
METHODS = ("init_state", "advance", "process_logits")


def is_processor(value: object) -> TypeGuard[Processor[Any]]:
    """Whether a value is a processor, and no class of them.

    Example:
        >>> is_processor(Stateless(lambda logits, context: logits)), is_processor(Stateless), is_processor(len)
        (True, False, False)
    """
    return not isinstance(value, type) and all(callable(getattr(value, name, None)) for name in METHODS)


def check_processor(value: object) -> None:
    """Refuse what is no processor.

    Raises:
        ConfigurationError: It is none.
    """
    if not is_processor(value):
        given = f"the class {value.__name__}" if isinstance(value, type) else repr(value)
        raise ConfigurationError(f"processor is {given}; give a processor, such as logitkit.Regex(...)")


def own_rows(name: str, rows: int, logits: Tensor) -> Tensor:
    """Return logits that may be overwritten row by row, after a look at their shape.

    Args:
        name: Who asks, for an error.
        rows: Rows of the state.
        logits: [B, V] floating point; a copy is made if rows share memory, as those of an expanded tensor do.

    Raises:
        BatchMismatch: There are not as many rows of logits as of the state.
        ConfigurationError: The logits have another rank, or are not floating point.
    """
    if logits.dim() != 2 or not logits.is_floating_point():
        raise ConfigurationError(
            f"{name} got logits of shape {list(logits.shape)} and {logits.dtype}; it needs [rows, columns] in floating point"
        )
    if logits.shape[0] != rows:
        raise BatchMismatch(f"{name} got {logits.shape[0]} rows of logits for a state of {rows} rows; they must agree")
    return logits.clone(memory_format=torch.contiguous_format) if 0 in logits.stride() else logits


def check_tokens(name: str, rows: int, tokens: Tensor) -> None:
    """Look at the shape of committed tokens.

    Raises:
        BatchMismatch: There are not as many rows of tokens as of the state.
        ConfigurationError: The tokens have another rank than 1 or 2, or are no integers.
    """
    if tokens.dim() not in (1, 2) or tokens.is_floating_point():
        raise ConfigurationError(
            f"{name} got tokens of shape {list(tokens.shape)} and {tokens.dtype}; it needs [rows] or [rows, steps] of int64"
        )
    if tokens.shape[0] != rows:
        raise BatchMismatch(f"{name} got {tokens.shape[0]} rows of tokens for a state of {rows} rows; they must agree")


def count_tokens(tokens: Tensor) -> Tensor:
    """Return how many of the committed tokens of each row are real: [B] int64, of [B] or [B, T]; there may be no rows."""
    real = (tokens >= 0).to(torch.int64)
    return real.sum(1) if real.dim() == 2 else real


def role_of(processor: Processor[Any]) -> Role | None:
    """Return the declared role of a processor, or None."""
    role = getattr(processor, "role", None)
    return role if isinstance(role, Role) else None


def reads_prompt(processor: Processor[Any]) -> bool:
    """Return whether a processor declares that the tokens of prompts matter to it."""
    return bool(getattr(processor, "reads_prompt", False))


def batch_size_of(processor: Processor[Any]) -> int | None:
    """Return how many rows a processor is made for, or None for any."""
    rows = getattr(processor, "batch_size", None)
    return rows if isinstance(rows, int) else None


def name_of(processor: Processor[Any]) -> str:
    """Return the name by which errors call a processor."""
    return type(processor).__name__


def process_checked(processor: Processor[S], state: S, logits: Tensor, context: Context) -> tuple[S, Tensor]:
    """Call `process_logits` and report, by the processor's name, a result that breaks the protocol.

    Raises:
        ProcessorError: The result is in the wrong order, or its structure, dtype or shape is another.
    """
    shape, dtype = logits.shape, logits.dtype
    result = processor.process_logits(state, logits, context)
    if not isinstance(result, tuple) or len(result) != 2:
        raise ProcessorError(
            f"{name_of(processor)}.process_logits returned {type(result).__name__}; return the pair (state, logits)"
        )
    after, processed = result
    if not isinstance(processed, Tensor):
        swapped = isinstance(after, Tensor)
        raise ProcessorError(
            f"{name_of(processor)}.process_logits returned {type(processed).__name__} as its second value; "
            + ("the order is (state, logits), not (logits, state)" if swapped else "return the pair (state, logits)")
        )
    if processed.shape != shape or processed.dtype != dtype:
        raise ProcessorError(
            f"{name_of(processor)}.process_logits returned logits of shape {list(processed.shape)} and {processed.dtype}; "
            f"it was given {list(shape)} and {dtype}, which must be kept"
        )
    if after is not state:
        check_same_structure(processor, "process_logits", state, after)
    return after, processed


def check_same_structure(processor: Processor[Any], method: str, before: Any, after: Any) -> None:
    """Report, by the processor's name, a state whose structure, dtypes or rows changed.

    Trailing sizes may grow: an unbounded history does, by doubling.

    Raises:
        ProcessorError: The states differ.
    """
    if isinstance(before, Tensor) and isinstance(after, Tensor):
        if before.dtype == after.dtype and before.dim() == after.dim() and before.shape[:1] == after.shape[:1]:
            return
        was, now = (f"{t.dtype} of shape {list(t.shape)}" for t in (before, after))
    elif type(before) is type(after) and isinstance(before, tuple) and len(before) == len(after):
        for old, new in zip(before, after, strict=True):
            check_same_structure(processor, method, old, new)
        return
    else:
        was, now = (
            f"{type(t).__name__} of {len(t)}" if isinstance(t, tuple) else type(t).__name__ for t in (before, after)
        )
    raise ProcessorError(
        f"{name_of(processor)}.{method} changed its state from {was} to {now}; structure, dtypes and rows of a state are fixed"
    )
