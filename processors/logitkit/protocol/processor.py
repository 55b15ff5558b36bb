"""The protocol that every logits processor follows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeGuard, TypeVar, runtime_checkable

from torch import Tensor

from logitkit.errors import ConfigurationError
from logitkit.protocol.context import Context
from logitkit.protocol.kind import Role

__all__ = ["Processor", "Role"]

if TYPE_CHECKING:
    # `Processor` without an argument is `Processor[Any]`; typing has such defaults from Python 3.13 on.
    from typing_extensions import TypeVar as TypeVarWithDefault

    S = TypeVarWithDefault("S", default=Any)
else:
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
    - `reads_guidance: bool`: whether it reads the logits of a second pass, `Context.guidance_logits`. Engines that have none
      refuse it. In a chain, it comes first.
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

    def advance(self, state: S, tokens: Tensor) -> S:
        """Return the state after tokens that have become part of the text.

        Args:
            state: The state of B rows.
            tokens: [B] or [B, T] int64 token ids, -1 where a row has none.
        """

    def process_logits(self, state: S, logits: Tensor, context: Context) -> tuple[S, Tensor]:
        """Return the state and the processed logits; `logits`, [B, V] floating point, may be overwritten."""


# The members of the protocol. `isinstance` would derive them from its annotations at every call.
METHODS = ("init_state", "advance", "process_logits")


def is_processor(value: object) -> TypeGuard[Processor[Any]]:
    """Whether a value is a processor, and not a class.

    Example:
        >>> import logitkit as lk
        >>> is_processor(lk.TopK(5)), is_processor(lk.TopK), is_processor(len)
        (True, False, False)
    """
    return not isinstance(value, type) and all(callable(getattr(value, name, None)) for name in METHODS)


def looks_like_processor(value: object) -> bool:
    """Whether a value, or the instances of a class, have `init_state` or `process_logits`."""
    return callable(getattr(value, "init_state", None)) or callable(getattr(value, "process_logits", None))


def check_is_processor(value: object, name: str = "processor", note: str = "") -> None:
    """Raise an error if a value is not a processor.

    Args:
        value: The value to check.
        name: The argument's name, for the error.
        note: A remark on other allowed values, for the error.

    Raises:
        ConfigurationError: The value is not a processor; classes, lists and hooks of processors are not. If it lacks a method of
            a processor, the message names the method.
    """
    if is_processor(value):
        return
    advice = f"give a processor, such as logitkit.Regex(...){note and f', {note}'}"
    if isinstance(value, type):
        given = f"the class {value.__name__}"
        if looks_like_processor(value):
            advice = f"create an instance, {value.__name__}(...)"
        else:
            advice += (
                f"; of a type, logitkit.output_types.output_type_of({value.__name__}).constraint(vocabulary) makes one"
            )
    elif isinstance(value, list | tuple):
        given = f"a {type(value).__name__} of {len(value)}"
        advice = "give one processor; logitkit.chain(first, second) makes one of several"
    elif is_processor(getattr(value, "processor", None)):
        given = f"a {type(value).__name__}, which is a hook for an engine's own list"
        advice = "give the processor that the hook was made from"
    elif looks_like_processor(value):
        missing = [method for method in METHODS if not callable(getattr(value, method, None))]
        given = f"a {type(value).__name__} without {' and '.join(missing)}"
        advice = "a processor has init_state, advance and process_logits"
    else:
        given = f"of type {type(value).__name__}"
    raise ConfigurationError(f"{name} is {given}; {advice}")


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


def reads_guidance(processor: Processor[Any]) -> bool:
    """Return whether a processor declares that it reads the logits of a second pass."""
    return bool(getattr(processor, "reads_guidance", False))


def batch_size_of(processor: Processor[Any]) -> int | None:
    """Return the number of rows that a processor is made for, or None for any number."""
    rows = getattr(processor, "batch_size", None)
    return rows if isinstance(rows, int) else None


def name_of(processor: Processor[Any]) -> str:
    """Return the name of a processor in errors."""
    return type(processor).__name__
