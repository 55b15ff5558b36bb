"""Read the declarations in the class of a processor, with safe defaults for those that are missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from logitkit.protocol.context import Context
from logitkit.protocol.kind import Role
from logitkit.protocol.processor import METHODS, Processor, role_of

__all__ = [
    "counts_until_end",
    "declares",
    "ends_empty_rows",
    "follows_text",
    "is_foreign",
    "may_empty_rows",
    "neutral_state",
    "only_masks",
    "step_of",
    "truncates",
]


def _owner(kind: type, has: Callable[[Mapping[str, Any]], bool]) -> type | None:
    """Return the class that makes a declaration for another class, if the declaration is still valid.

    A declaration is valid for the class that makes it and for derived classes, until one of them overrides a method of the
    protocol, which may change anything.

    Args:
        kind: The class that may inherit the declaration.
        has: Whether the attributes of a class contain it.
    """
    for owner in kind.__mro__:
        own = vars(owner)
        if has(own):
            return owner
        if any(method in own for method in METHODS):
            return None
    return None


@cache
def _class_declares(kind: Any, name: str) -> bool:
    return _owner(kind, lambda own: name in own) is not None


def declares(processor: Processor[Any], name: str) -> bool:
    """Whether the class of a processor declares an attribute."""
    return _class_declares(type(processor), name)


def _declared(processor: Processor[Any], name: str, default: bool) -> bool:
    return bool(getattr(processor, name)) if declares(processor, name) else default


def is_foreign(processor: Processor[Any]) -> bool:
    """Whether it is unknown if a processor may leave a row without a token: its class does not declare `may_empty_rows`."""
    return not declares(processor, "may_empty_rows")


def may_empty_rows(processor: Processor[Any]) -> bool:
    """Whether a processor may mask the last tokens that are left in a row."""
    return _declared(processor, "may_empty_rows", True)


def ends_empty_rows(processor: Processor[Any]) -> bool:
    """Whether a processor ends every row that it leaves without a token, with EOS at logit 0."""
    return _declared(processor, "ends_empty_rows", False)


def only_masks(processor: Processor[Any]) -> bool:
    """Whether the order of several such processors makes no difference."""
    return role_of(processor) is Role.CONSTRAINT and bool(getattr(processor, "only_masks", True))


def truncates(processor: Processor[Any]) -> bool:
    """Whether a processor keeps only a few tokens by their logits, so that no constraint may follow it."""
    return bool(getattr(processor, "truncates", role_of(processor) is Role.TRUNCATION))


def follows_text(processor: Processor[Any]) -> bool:
    """Whether EOS ends the text that a processor tracks, so that it is not shown a forced EOS; others count tokens."""
    return role_of(processor) is Role.CONSTRAINT and hasattr(processor, "vocabulary")


def counts_until_end(processor: Processor[Any]) -> bool:
    """Whether a processor counts tokens until its row ends, by `advance_until_end`."""
    return hasattr(processor, "advance_until_end")


def step_of(kind: type) -> type | None:
    """Return the class that can process rows of a class together, whatever their parameters, or None if there is none.

    It is the class that declares `neutral_state`, or a kind with neutral arguments.
    """
    return _owner(kind, lambda own: "neutral_state" in own or ("kind" in own and own["kind"].neutral is not None))


def neutral_state(step: Any, context: Context) -> Any:
    """Return the neutral state for a class returned by `step_of`: it leaves the logits unchanged, bit for bit."""
    return step.neutral_state(context) if hasattr(step, "neutral_state") else _neutral(step).init_state(context)


@cache
def _neutral(step: Any) -> Any:
    return step(**step.kind.neutral)
