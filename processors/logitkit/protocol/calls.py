"""The calls of a processor: the checks of what its methods are given and return.

Everything that runs processors calls them through `init_checked`, `advance_checked` and `process_checked`, so a mistake of their
authors raises the same error in every engine, before a token is chosen. Processors check what they are given with `check_tokens`
and `own_rows`.
"""

from __future__ import annotations

from typing import Any, TypeVar

import torch
from torch import Tensor

from logitkit.errors import BatchMismatch, ConfigurationError, ProcessorError
from logitkit.protocol.context import Context
from logitkit.protocol.processor import Processor, name_of
from logitkit.protocol.state_errors import changed, check_first, check_kept, check_pair, differs

__all__ = [
    "advance_checked",
    "by_tensors",
    "check_gradient",
    "check_tokens",
    "count_tokens",
    "init_checked",
    "own_rows",
    "process_checked",
    "token_columns",
]

S = TypeVar("S")


def init_checked(processor: Processor[S], context: Context) -> S:
    """Return the initial state of a processor for the rows of a context.

    Raises:
        ProcessorError: The state is not a (named) tuple of tensors with one row per row of the context.
    """
    state = processor.init_state(context)
    check_first(processor, state, context.batch_size)
    return state


def advance_checked(processor: Processor[S], state: S, tokens: Tensor) -> S:
    """Return the state of a processor after `tokens`, [B] or [B, T] int64.

    Raises:
        ProcessorError: The new state differs from the old one in structure, dtypes, numbers of dimensions or rows, or the old
            state was modified in place. Trailing sizes may grow: those of an unbounded history double.
    """
    if _checks_parts(processor):
        return processor.advance(state, tokens)
    writes = _writes(state)
    after = processor.advance(state, tokens)
    if after is not state and not _agree(state, after):
        raise differs(processor, state, after, _agree)
    if writes is not None and writes != _sum_of_versions(state):
        raise ProcessorError(
            f"{name_of(processor)}.advance wrote to the state that it was given; return a new state and leave the given one "
            "unchanged, because beams, drafts and retries use it again"
        )
    return after


def process_checked(processor: Processor[S], state: S, logits: Tensor, context: Context) -> Tensor:
    """Return the logits, [B, V], as a processor changes them. The state stays the same.

    Raises:
        ProcessorError: The result is not the pair of the given state and logits of the given shape and dtype.
    """
    shape, dtype = logits.shape, logits.dtype
    writes = None if _checks_parts(processor) else _writes(state)
    result = processor.process_logits(state, logits, context)
    if type(result) is not tuple or len(result) != 2 or not isinstance(result[1], Tensor):
        check_pair(processor, result)
    after, processed = result
    if processed.shape != shape or processed.dtype != dtype:
        raise ProcessorError(
            f"{name_of(processor)}.process_logits returned logits of shape {list(processed.shape)} and {processed.dtype}; "
            f"it was given {list(shape)} and {dtype}; return the same shape and dtype"
        )
    if after is not state:
        check_kept(processor, state, after)
    if writes is not None and writes != _sum_of_versions(state):
        raise changed(processor, "wrote to its state")
    return processed


def _agree(before: Any, after: Any) -> bool:
    """Whether two states agree in structure, dtypes, numbers of dimensions and rows. Runs at every step, so it must be cheap."""
    if before is after:
        return True
    if isinstance(before, Tensor):
        alike = isinstance(after, Tensor) and before.dtype == after.dtype
        return alike and (before.shape == after.shape or _grew(before, after))
    alike = isinstance(before, tuple) and type(before) is type(after) and len(before) == len(after)
    return alike and all(map(_agree, before, after))


def _grew(old: Tensor, new: Tensor) -> bool:
    return old.dim() == new.dim() > 0 and len(old) == len(new)


def _checks_parts(processor: Processor[Any]) -> bool:
    """Whether a processor only passes states on to others through the functions of this module, as `Chain` does."""
    return getattr(type(processor), "checks_parts", False) is True


def _writes(state: Any) -> int | None:
    """Return how often torch operations wrote to the tensors of a state, or None if torch does not count that."""
    if torch.compiler.is_compiling() or torch.is_inference_mode_enabled():
        return None
    try:
        return _sum_of_versions(state)
    except RuntimeError:  # a tensor that was made in inference mode
        return None


def _sum_of_versions(state: Any) -> int:
    total = 0
    for part in state:
        total += part._version if isinstance(part, Tensor) else _sum_of_versions(part)  # noqa: SLF001 - as autograd does
    return total


def check_gradient(name: str, logits: Tensor) -> None:
    """Refuse logits that require a gradient: a processor writes in place, so their gradient would be wrong.

    Raises:
        ConfigurationError: The logits require a gradient, and gradients are recorded.
    """
    if logits.requires_grad and torch.is_grad_enabled():
        raise ConfigurationError(
            f"{name} got logits that require a gradient, which it cannot compute; call it under torch.no_grad(), or give "
            "logits.detach()"
        )


def own_rows(name: str, rows: int, logits: Tensor) -> Tensor:
    """Check the logits that a processor is given, and return logits that it may overwrite.

    Args:
        name: The processor's name, for an error.
        rows: The number of rows of its state.
        logits: [B, V] floating point.

    Returns:
        The logits; a copy if rows share memory, as those of an expanded tensor do.

    Raises:
        BatchMismatch: The logits and the state have different numbers of rows.
        ConfigurationError: The logits have another rank, are not floating point, or require a gradient.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> lk.own_rows("Mine", 2, torch.zeros(1, 3).expand(2, 3)).stride()
        (3, 1)
    """
    check_gradient(name, logits)
    if logits.dim() != 2 or not logits.is_floating_point():
        raise ConfigurationError(
            f"{name} got logits of shape {list(logits.shape)} and {logits.dtype}; it needs [rows, columns] in floating point"
        )
    if logits.shape[0] != rows:
        raise BatchMismatch(f"{name} got {logits.shape[0]} rows of logits for a state of {rows} rows; they must agree")
    return logits.clone(memory_format=torch.contiguous_format) if 0 in logits.stride() else logits


def check_tokens(name: str, rows: int, tokens: Tensor) -> None:
    """Check the shape and dtype of the tokens that `advance` is given.

    Args:
        name: The processor's name, for an error.
        rows: The number of rows of its state.
        tokens: [B] or [B, T] int64.

    Raises:
        BatchMismatch: The tokens and the state have different numbers of rows.
        ConfigurationError: The tokens do not have 1 or 2 dimensions, or are not integers.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> lk.check_tokens("Mine", 2, torch.tensor([5, -1]))
        >>> lk.check_tokens("Mine", 2, torch.tensor([5]))
        Traceback (most recent call last):
            ...
        logitkit.errors.BatchMismatch: Mine got 1 rows of tokens for a state of 2 rows; they must agree
    """
    if tokens.dim() not in (1, 2) or tokens.is_floating_point():
        raise ConfigurationError(
            f"{name} got tokens of shape {list(tokens.shape)} and {tokens.dtype}; it needs [rows] or [rows, steps] of int64"
        )
    if tokens.shape[0] != rows:
        raise BatchMismatch(f"{name} got {tokens.shape[0]} rows of tokens for a state of {rows} rows; they must agree")


def count_tokens(tokens: Tensor) -> Tensor:
    """Count the tokens of each row, without those that are -1.

    Args:
        tokens: [B] or [B, T] int64, -1 where a row has none; B may be 0.

    Returns:
        [B] int64.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> lk.count_tokens(torch.tensor([[5, -1], [-1, -1]])).tolist(), lk.count_tokens(torch.tensor([5, -1])).tolist()
        ([1, 0], [1, 0])
    """
    real = (tokens >= 0).to(torch.int64)
    return real.sum(1) if real.dim() == 2 else real


def token_columns(tokens: Tensor) -> tuple[Tensor, ...]:
    """Return committed tokens step by step, for a processor that handles one token of each row at a time.

    Args:
        tokens: [B] or [B, T] int64, -1 where a row has none; B and T may be 0.

    Returns:
        T tensors of [B]; one for tokens of shape [B].

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> [column.tolist() for column in lk.token_columns(torch.tensor([[5, 6], [7, -1]]))]
        [[5, 7], [6, -1]]
        >>> [column.tolist() for column in lk.token_columns(torch.tensor([5, 7]))]
        [[5, 7]]
    """
    return tokens.unbind(1) if tokens.dim() == 2 else (tokens,)


def by_tensors(tensor: Tensor) -> bool:
    """Whether to use tensors only, as on an accelerator and while a graph is traced, or to work row by row on the host."""
    return not tensor.is_cpu or torch.compiler.is_compiling()
