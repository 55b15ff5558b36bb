"""Call a processor's methods, and raise an error that names the processor if a result violates the protocol.

Everything that runs processors calls them through these three functions. So a mistake raises the same error in every engine,
before a token is chosen.
"""

from __future__ import annotations

from typing import Any, TypeVar

import torch
from torch import Tensor

from logitkit.errors import ProcessorError
from logitkit.protocol.context import Context
from logitkit.protocol.processor import Processor, name_of

__all__ = ["advance_checked", "init_checked", "process_checked"]

S = TypeVar("S")


def init_checked(processor: Processor[S], context: Context) -> S:
    """Return the initial state of a processor for the rows of a context.

    Raises:
        ProcessorError: The state is not a (named) tuple of tensors with one row per row of the context.
    """
    state = processor.init_state(context)
    if not isinstance(state, tuple):
        raise ProcessorError(
            f"{name_of(processor)}.init_state returned {_kind(state)}; return a NamedTuple of tensors, one row for each row of "
            "the batch, or () if the processor has no state"
        )
    _check_first(processor, state, context.batch_size)
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
        _report_difference(processor, state, after)
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
    if not isinstance(result, tuple) or len(result) != 2:
        raise ProcessorError(
            f"{name_of(processor)}.process_logits returned {_kind(result)}; return the pair (state, logits)"
        )
    after, processed = result
    if not isinstance(processed, Tensor):
        swapped = isinstance(after, Tensor)
        raise ProcessorError(
            f"{name_of(processor)}.process_logits returned {_kind(processed)} as its second value; "
            + ("the order is (state, logits), not (logits, state)" if swapped else "return the pair (state, logits)")
        )
    if processed.shape != shape or processed.dtype != dtype:
        raise ProcessorError(
            f"{name_of(processor)}.process_logits returned logits of shape {list(processed.shape)} and {processed.dtype}; "
            f"it was given {list(shape)} and {dtype}, which must be kept"
        )
    if after is not state:
        _check_kept(processor, state, after)
    if writes is not None and writes != _sum_of_versions(state):
        raise _changed(processor, "wrote to its state")
    return processed


def _check_first(processor: Processor[Any], value: Any, rows: int, where: str = "state") -> None:
    """Check one part of an initial state, which may be nested."""
    if isinstance(value, tuple):
        for name, part in zip(_names(value), value, strict=True):
            _check_first(processor, part, rows, f"{where}.{name}")
    elif not isinstance(value, Tensor):
        raise ProcessorError(
            f"{name_of(processor)}.init_state returned {_kind(value)} at {where}; a state holds tensors and (named) "
            "tuples of them, so put a number or a list into a tensor with one row for each row of the batch"
        )
    elif value.shape[:1] != (rows,):
        raise ProcessorError(
            f"{name_of(processor)}.init_state returned {_of_tensor(value)} at {where} for a batch of {rows} rows; the first "
            "dimension of every tensor is the row: its size is context.batch_size"
        )


def _agree(before: Any, after: Any) -> bool:
    """Whether two states agree in structure, dtypes, numbers of dimensions and rows. Runs at every step, so it must be cheap."""
    if type(before) is not type(after) or not isinstance(before, tuple) or len(before) != len(after):
        return False
    for old, new in zip(before, after, strict=True):
        if old is new:
            continue
        if not isinstance(old, Tensor):
            alike = _agree(old, new)
        else:
            alike = isinstance(new, Tensor) and old.dtype == new.dtype
            alike = alike and (old.shape == new.shape or _grew(old, new))
        if not alike:
            return False
    return True


def _grew(old: Tensor, new: Tensor) -> bool:
    return old.dim() == new.dim() > 0 and len(old) == len(new)


def _report_difference(processor: Processor[Any], before: Any, after: Any, where: str = "state") -> None:
    """Raise an error about the first part in which two states differ."""
    if isinstance(before, tuple) and type(before) is type(after) and len(before) == len(after):
        for name, old, new in zip(_names(before), before, after, strict=True):
            if not _agree((old,), (new,)):
                _report_difference(processor, old, new, f"{where}.{name}")
    was, now = _kinds(before, after)
    raise ProcessorError(
        f"{name_of(processor)}.advance changed its state from {was} to {now}, at {where}; the structure, dtypes, "
        "numbers of dimensions and rows of a state are fixed"
    )


def _check_kept(processor: Processor[Any], before: Any, after: Any, where: str = "state") -> None:
    """Raise unless two states hold the same tensors; the tuples around them may be new."""
    if before is after:
        return
    if not isinstance(before, tuple) or type(before) is not type(after) or len(before) != len(after):
        was, now = _kinds(before, after)
        how = "to another tensor" if was == now else f"from {was} to {now}"
        raise _changed(processor, f"changed its state {how}, at {where}")
    for name, old, new in zip(_names(before), before, after, strict=True):
        _check_kept(processor, old, new, f"{where}.{name}")


def _changed(processor: Processor[Any], how: str) -> ProcessorError:
    return ProcessorError(
        f"{name_of(processor)}.process_logits {how}; return the state that was given, with the same tensors. Changes belong in "
        "advance(state, tokens), because engines ask for logits more often than they commit tokens"
    )


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


def _names(state: tuple[Any, ...]) -> tuple[str, ...]:
    return getattr(state, "_fields", tuple(map(str, range(len(state)))))


def _kinds(before: object, after: object) -> tuple[str, str]:
    if isinstance(before, Tensor) and isinstance(after, Tensor):
        return _of_tensor(before), _of_tensor(after)
    return _kind(before), _kind(after)


def _kind(value: object) -> str:
    return f"{type(value).__name__} of {len(value)}" if isinstance(value, tuple) else type(value).__name__


def _of_tensor(value: Tensor) -> str:
    return f"{value.dtype} of shape {list(value.shape)}"
