"""The protocol that every logits processor follows."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard, TypeVar, runtime_checkable

import torch
from torch import Tensor

from logitkit.errors import BatchMismatch, ConfigurationError
from logitkit.protocol.context import Context
from logitkit.protocol.kind import Role
from logitkit.protocol.not_a_hook import NotAHook

__all__ = ["Processor", "Role", "Stateless"]

S = TypeVar("S")


@runtime_checkable
class Processor(Protocol[S]):
    """A logits processor: three pure functions and no mutable state of its own.

    A state is a NamedTuple of tensors whose first dimension is the row, or a tuple of such states. Methods never modify the
    processor or a state that they are given. Implementations are frozen dataclasses.

    A class may describe itself with the attributes and methods below. All are optional. Without them, nothing is assumed: after
    the processor, every row is checked for a remaining token, and requests with it are not batched.

    Its effect on logits:

    - `role: Role`: its place in the canonical order of a chain.
    - `may_empty_rows: bool`: whether it may mask the last tokens that are left in a row. If not declared, it may.
    - `ends_empty_rows: bool`: whether it ends every row that it leaves without a token, with EOS at logit 0.
    - `only_masks: bool`, for constraints: whether those of a chain may run in another order. Default: True.
    - `truncates: bool`: whether it keeps only the best tokens, so that no constraint may follow. Default: as for its role.
    - `bans_repeats: bool`: whether it bans EOS because EOS occurred before, which is not a conflict.

    The data that it needs:

    - `vocabulary: Vocabulary`, `eos_ids: tuple[int, ...]`: the EOS ids. A constraint with a vocabulary tracks the text, so
      it is not shown an EOS that another processor forced.
    - `reads_prompt: bool`: whether the tokens of the prompt matter, so that padding must be excluded.
    - `reads_max_length: bool`: whether the maximum length of a row matters.
    - `batch_size: int | None`: the number of rows, for a processor made for one batch.

    The end of a row (every method gets a state of B rows):

    - `advance_until_end(state, tokens, ends) -> state`: replaces `advance` in a chain, for a processor that counts tokens
      until a row ends: `ends` marks the tokens that end their row, bool in the shape of `tokens`.
    - `forces(state, tokens, eos_ids) -> Tensor`: which tokens are an EOS that it forced, which does not end the row.
    - `finish(state, rows) -> state`: the state after some rows, [B] bool, have ended. Default: the rows are advanced by an
      EOS.
    - `is_finished(state)`, `is_dead(state)`, `fired(state)`, each [B] bool: the rows that have emitted EOS, that have
      violated the constraint, and that a stop has ended.

    Configuration and batching:

    - `kind: Kind`: its JSON form, with the form of each parameter, and arguments with which it changes nothing.
    - `neutral_state(context) -> state`, a classmethod, for a class without such arguments: a state that leaves the logits
      unchanged, bit for bit. Either implies that the state holds all parameters, so that one processor can process the rows of
      all.
    - `step_name: str`: the name in errors of the batched step that its rows share. Default: the name of the class.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> penalty = lk.RepetitionPenalty(2.0)
        >>> context = lk.Context.of([[0]], vocabulary_size=3)
        >>> state = penalty.init_state(context)
        >>> state = penalty.advance(state, torch.tensor([2]))
        >>> penalty.process_logits(state, torch.tensor([[1.0, 1.0, -1.0]]), context)[1]
        tensor([[ 0.5000,  1.0000, -2.0000]])
    """

    def init_state(self, context: Context) -> S:
        """Return the initial state of `context.batch_size` rows, after the prompt and before any output."""
        ...

    def advance(self, state: S, tokens: Tensor) -> S:
        """Return the state after tokens that have become part of the text.

        Args:
            state: The state of B rows.
            tokens: [B] or [B, T] int64 token ids, -1 where a row has none.
        """
        ...

    def process_logits(self, state: S, logits: Tensor, context: Context) -> tuple[S, Tensor]:
        """Return the state and the processed logits; `logits`, [B, V] floating point, may be overwritten."""
        ...


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
        raise ConfigurationError(f"fn is a {type(fn).__name__}; {advice}")
    try:
        signature = inspect.signature(fn)
    except ValueError:  # a built-in function may have no signature
        return
    try:
        signature.bind(None, None)
    except TypeError as error:
        raise ConfigurationError(f"fn cannot be called with two arguments ({error}); {advice}") from None


# The members of the protocol. `isinstance` would derive them from its annotations at every call.
METHODS = ("init_state", "advance", "process_logits")


def is_processor(value: object) -> TypeGuard[Processor[Any]]:
    """Whether a value is a processor, and not a class.

    Example:
        >>> is_processor(Stateless(lambda logits, context: logits)), is_processor(Stateless), is_processor(len)
        (True, False, False)
    """
    return not isinstance(value, type) and all(callable(getattr(value, name, None)) for name in METHODS)


def check_is_processor(value: object, name: str = "processor", note: str = "") -> None:
    """Raise an error if a value is not a processor.

    Args:
        value: The value to check.
        name: The argument's name, for the error.
        note: A remark on other allowed values, for the error.

    Raises:
        ConfigurationError: The value is not a processor; classes, lists and hooks of processors are not.
    """
    if is_processor(value):
        return
    advice = "give a processor, such as logitkit.Regex(...)"
    if isinstance(value, type):
        given = f"the class {value.__name__}"
    elif isinstance(value, list | tuple):
        given = f"a {type(value).__name__} of {len(value)}"
        advice = "give one processor; logitkit.chain(first, second) makes one of several"
    elif is_processor(getattr(value, "processor", None)):
        given = f"a {type(value).__name__}, which is a hook for an engine's own list"
        advice = "give the processor that the hook was made from"
    else:
        given = f"a {type(value).__name__}"
    raise ConfigurationError(f"{name} is {given}; {advice}{note and f', {note}'}")


def check_gradient(name: str, logits: Tensor) -> None:
    """Refuse logits that require a gradient: a processor writes in place, so their gradient would be wrong.

    Raises:
        ConfigurationError: The logits require a gradient, and gradients are recorded.
    """
    if logits.requires_grad and torch.is_grad_enabled():
        raise ConfigurationError(
            f"{name} got logits that require a gradient, which it cannot give; call it under torch.no_grad(), or give "
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


def role_of(processor: Processor[Any]) -> Role | None:
    """Return the declared role of a processor, or None."""
    role = getattr(processor, "role", None)
    return role if isinstance(role, Role) else None


def reads_prompt(processor: Processor[Any]) -> bool:
    """Return whether a processor declares that it uses the tokens of prompts."""
    return bool(getattr(processor, "reads_prompt", False))


def reads_max_length(processor: Processor[Any]) -> bool:
    """Return whether a processor declares that it uses the maximum length of a row."""
    return bool(getattr(processor, "reads_max_length", False))


def batch_size_of(processor: Processor[Any]) -> int | None:
    """Return the number of rows that a processor is made for, or None for any number."""
    rows = getattr(processor, "batch_size", None)
    return rows if isinstance(rows, int) else None


def name_of(processor: Processor[Any]) -> str:
    """Return the name of a processor in errors."""
    return type(processor).__name__
