"""The parts of a turn that was read: calls, text and reasoning, and the events of a stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

__all__ = ["ArgumentsDelta", "CallDone", "CallStarted", "ReasoningDelta", "TextDelta", "ToolCall", "Turn", "TurnEvent"]


@dataclass(frozen=True)
class ToolCall:
    """A call of a tool.

    Args:
        name: The name of the tool.
        arguments: Its arguments.
        span: Its position: the first token or character, and the one after the last. Positions count token ids, or characters
            of a text.
        id: The id that the model gave it, in formats with ids; else None.
    """

    name: str
    arguments: Mapping[str, Any]
    span: tuple[int, int] = (0, 0)
    id: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Turn:
    """A turn of the model.

    Args:
        calls: The calls, in order.
        text: The text outside of calls and reasoning.
        reasoning: The reasoning; None: there was none.
        rest: The text that could not be read, from the beginning of the call or marker where reading stopped.
        broken_at: The position of `rest`; None: everything could be read.
        problem: Why it could not be read.
        outside_at: The position of the first token or character that the constraint does not allow; None: there is none, or a
            text was given and the constraint counts its tokens or cannot be compiled.
        complete: Whether the turn could be read, the constraint allows all of it, and it may end here.
        ambiguous: Whether calls may be missing, because a text was given in which no special token of the
            format is written.
    """

    calls: tuple[ToolCall, ...]
    text: str
    reasoning: str | None = None
    rest: str = ""
    broken_at: int | None = None
    problem: str | None = None
    outside_at: int | None = None
    complete: bool = True
    ambiguous: bool = False


@dataclass(frozen=True)
class TextDelta:
    """New text outside of reasoning and calls."""

    text: str


@dataclass(frozen=True)
class ReasoningDelta:
    """New text of the reasoning."""

    text: str


@dataclass(frozen=True)
class CallStarted:
    """A call has begun; its name is known."""

    index: int
    name: str


@dataclass(frozen=True)
class ArgumentsDelta:
    """New text of the arguments, and all of their text so far."""

    index: int
    text: str
    so_far: str


@dataclass(frozen=True)
class CallDone:
    """A call is complete."""

    index: int
    call: ToolCall


TurnEvent: TypeAlias = TextDelta | ReasoningDelta | CallStarted | ArgumentsDelta | CallDone
