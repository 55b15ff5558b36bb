"""The arrays and objects that are open in a text."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from logitkit.compiler.tokens.tables.packed_stacks import Packed
from logitkit.runtime.remembering.spelling import Member
from logitkit.runtime.remembering.used_items import UsedItems

__all__ = ["Level", "OpenArray", "OpenObject"]


class OpenArray(NamedTuple):
    """An array that is open.

    Args:
        items: Its items, if they must differ; None: they need not.
        begin: Where its current item begins in the text; -1 if none has begun.
        ended: Whether the current item is complete.
        state: The state of the automaton after the bracket or comma before the current item.
        stack: The stack then.
    """

    items: UsedItems | None
    begin: int = -1
    ended: bool = False
    state: int = 0
    stack: Packed = b""


class OpenObject(NamedTuple):
    """An object that is open.

    Args:
        begin: Where it begins in the text.
        member: Where its current member begins.
        colon: Where the colon of this member stands; -1 if it is not written.
        members: The members that are complete.
    """

    begin: int
    member: int
    colon: int = -1
    members: tuple[Member, ...] = ()


Level: TypeAlias = OpenArray | OpenObject
