"""A processor made from a plain function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from logitkit.errors import ConfigurationError
from logitkit.protocol.context import Context
from logitkit.protocol.not_a_hook import NotAHook
from logitkit.protocol.processor import is_processor

__all__ = ["Stateless"]


@dataclass(frozen=True)
class Stateless(NotAHook):
    """Turn a function `fn(logits, context) -> logits` into a processor.

    Args:
        fn: A pure function of logits [B, V] and the context; it may overwrite the logits.

    Raises:
        ConfigurationError: `fn` is not a function that can be called with logits and a context, or it is a processor or a hook.
        ProcessorError: On use, if the function does not return a tensor of the same shape and dtype.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> halve = lk.Stateless(lambda logits, context: logits / 2)
        >>> context = lk.Context.of([[]], vocabulary_size=2)
        >>> halve.process_logits((), torch.tensor([[2.0, 4.0]]), context)[1]
        tensor([[1., 2.]])
    """

    fn: Callable[[Tensor, Context], Tensor]

    def __post_init__(self) -> None:
        _check_function(self.fn)

    def init_state(self, context: Context) -> tuple[()]:
        """Return the empty state."""
        return ()

    def advance(self, state: tuple[()], tokens: Tensor) -> tuple[()]:
        """Return the empty state."""
        return state

    def process_logits(self, state: tuple[()], logits: Tensor, context: Context) -> tuple[tuple[()], Tensor]:
        """Return the function's result."""
        return state, self.fn(logits, context)


def _check_function(fn: object) -> None:
    advice = "give a function fn(logits, context) that returns the logits"
    if is_processor(fn) or is_processor(getattr(fn, "processor", None)):
        raise ConfigurationError(
            f"fn is a {type(fn).__name__}, which needs no Stateless around it; {advice}, or use the processor itself"
        )
    if not callable(fn):
        raise ConfigurationError(f"fn is of type {type(fn).__name__}; {advice}")
    try:
        signature = inspect.signature(fn)
    except ValueError:  # a built-in function may have no signature
        return
    try:
        signature.bind(None, None)
    except TypeError as error:
        raise ConfigurationError(f"fn cannot be called with two arguments ({error}); {advice}") from None
