"""Errors about results that violate the protocol: which part of a state is wrong, and how."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import is_
from typing import Any

from torch import Tensor

from logitkit.errors import ProcessorError
from logitkit.protocol.processor import Processor, name_of
from logitkit.protocol.state import walk

__all__ = ["changed", "check_first", "check_kept", "check_pair", "differs"]


def check_first(processor: Processor[Any], state: Any, rows: int) -> None:
    """Check an initial state of a number of rows."""
    name = f"{name_of(processor)}.init_state"
    if not isinstance(state, tuple):
        raise ProcessorError(
            f"{name} returned {_kind_of(state)}; return a NamedTuple of tensors, one row for each row of "
            "the batch, or () if the processor has no state"
        )
    for where, part in walk(state):
        if not isinstance(part, Tensor | tuple):
            raise ProcessorError(
                f"{name} returned {_kind_of(part)} at {where}; a state holds tensors and (named) "
                "tuples of them, so put a number or a list into a tensor with one row for each row of the batch"
            )
        if isinstance(part, Tensor) and part.shape[:1] != (rows,):
            raise ProcessorError(
                f"{name} returned {_of_tensor(part)} at {where} for a batch of {rows} rows; the first "
                "dimension of every tensor is the row: its size is context.batch_size"
            )


def differs(processor: Processor[Any], before: Any, after: Any, alike: Callable[[Any, Any], bool]) -> ProcessorError:
    """Return the error for a state that `advance` changed more than its values.

    Args:
        processor: The processor.
        before: The state that it was given.
        after: The state that it returned.
        alike: Whether two parts agree in all but their values.
    """
    where, *parts = next(_differences(before, after, alike))
    was, now = _kinds_of(*parts)
    return ProcessorError(
        f"{name_of(processor)}.advance changed its state from {was} to {now}, at {where}; the structure, dtypes, "
        "numbers of dimensions and rows of a state are fixed"
    )


def check_kept(processor: Processor[Any], before: Any, after: Any) -> None:
    """Raise unless two states hold the same tensors; the tuples around them may be new."""
    for where, *parts in _differences(before, after, is_):
        was, now = _kinds_of(*parts)
        how = "to another tensor" if was == now else f"from {was} to {now}"
        raise changed(processor, f"changed its state {how}, at {where}")


def check_pair(processor: Processor[Any], result: Any) -> None:
    """Raise unless the result of `process_logits` is a pair whose second value is a tensor."""
    name = f"{name_of(processor)}.process_logits"
    if not isinstance(result, tuple) or len(result) != 2:
        raise ProcessorError(f"{name} returned {_kind_of(result)}; return the pair (state, logits)")
    after, processed = result
    if not isinstance(processed, Tensor):
        swapped = isinstance(after, Tensor)
        raise ProcessorError(
            f"{name} returned {_kind_of(processed)} as its second value; "
            + ("the order is (state, logits), not (logits, state)" if swapped else "return the pair (state, logits)")
        )


def changed(processor: Processor[Any], how: str) -> ProcessorError:
    """Return the error for a state that `process_logits` changed."""
    return ProcessorError(
        f"{name_of(processor)}.process_logits {how}; return the state that was given, with the same tensors. Changes belong in "
        "advance(state, tokens), because engines ask for logits more often than they commit tokens"
    )


def _differences(before: Any, after: Any, alike: Callable[[Any, Any], bool]) -> Iterator[tuple[str, Any, Any]]:
    """Yield the path of the first parts in which two states differ, and these parts; later paths may not belong together."""
    for (path, old), (_, new) in zip(walk(before), walk(after), strict=False):
        same_tuple = isinstance(old, tuple) and type(old) is type(new) and len(old) == len(new)
        if not same_tuple and not alike(old, new):
            yield path, old, new


def _kinds_of(before: object, after: object) -> tuple[str, str]:
    """Describe two parts of a state in the same terms."""
    if isinstance(before, Tensor) and isinstance(after, Tensor):
        return _of_tensor(before), _of_tensor(after)
    return _kind_of(before), _kind_of(after)


def _kind_of(value: object) -> str:
    return f"{type(value).__name__} of {len(value)}" if isinstance(value, tuple) else type(value).__name__


def _of_tensor(value: Tensor) -> str:
    return f"{value.dtype} of shape {list(value.shape)}"
