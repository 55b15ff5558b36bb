"""Errors about states that violate the protocol: which part is wrong, and how."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from logitkit.errors import ProcessorError
from logitkit.protocol.processor import Processor, name_of

__all__ = ["changed", "check_first", "check_kept", "kind_of", "kinds_of", "names_of"]


def check_first(processor: Processor[Any], value: Any, rows: int, where: str = "state") -> None:
    """Check one part of an initial state, which may be nested."""
    if isinstance(value, tuple):
        for name, part in zip(names_of(value), value, strict=True):
            check_first(processor, part, rows, f"{where}.{name}")
    elif not isinstance(value, Tensor):
        raise ProcessorError(
            f"{name_of(processor)}.init_state returned {kind_of(value)} at {where}; a state holds tensors and (named) "
            "tuples of them, so put a number or a list into a tensor with one row for each row of the batch"
        )
    elif value.shape[:1] != (rows,):
        raise ProcessorError(
            f"{name_of(processor)}.init_state returned {_of_tensor(value)} at {where} for a batch of {rows} rows; the first "
            "dimension of every tensor is the row: its size is context.batch_size"
        )


def check_kept(processor: Processor[Any], before: Any, after: Any, where: str = "state") -> None:
    """Raise unless two states hold the same tensors; the tuples around them may be new."""
    if before is after:
        return
    if not isinstance(before, tuple) or type(before) is not type(after) or len(before) != len(after):
        was, now = kinds_of(before, after)
        how = "to another tensor" if was == now else f"from {was} to {now}"
        raise changed(processor, f"changed its state {how}, at {where}")
    for name, old, new in zip(names_of(before), before, after, strict=True):
        check_kept(processor, old, new, f"{where}.{name}")


def changed(processor: Processor[Any], how: str) -> ProcessorError:
    """Return the error for a state that `process_logits` changed."""
    return ProcessorError(
        f"{name_of(processor)}.process_logits {how}; return the state that was given, with the same tensors. Changes belong in "
        "advance(state, tokens), because engines ask for logits more often than they commit tokens"
    )


def names_of(state: tuple[Any, ...]) -> tuple[str, ...]:
    """Return the names of the parts of a state."""
    return getattr(state, "_fields", tuple(map(str, range(len(state)))))


def kinds_of(before: object, after: object) -> tuple[str, str]:
    """Describe two parts of a state in the same terms, for an error."""
    if isinstance(before, Tensor) and isinstance(after, Tensor):
        return _of_tensor(before), _of_tensor(after)
    return kind_of(before), kind_of(after)


def kind_of(value: object) -> str:
    """Describe a value, for an error."""
    return f"{type(value).__name__} of {len(value)}" if isinstance(value, tuple) else type(value).__name__


def _of_tensor(value: Tensor) -> str:
    return f"{value.dtype} of shape {list(value.shape)}"
