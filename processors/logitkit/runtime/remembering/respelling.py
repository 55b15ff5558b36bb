"""Whether the end of an open value may change its text, into that of an equal value that has been written."""

from __future__ import annotations

from logitkit.runtime.remembering.byte_steps import ByteSteps
from logitkit.runtime.remembering.item_position import ItemPosition
from logitkit.runtime.remembering.open_values import OpenObject

__all__ = ["may_be_respelled"]


def may_be_respelled(at: ItemPosition, steps: ByteSteps) -> bool:
    """Whether a value that is open at a position may become, with its end, the text of another one that has been written."""
    if at.is_settled:
        return True
    number = at.number
    if at.may_end_number:
        legal = steps.legal(at.state, at.stack)
        if number.startswith(b"-0") or any(mark in number or mark in legal for mark in b".eE"):
            return True
    return any(isinstance(level, OpenObject) and _may_be_reordered(at, level) for level in at.levels)


def _may_be_reordered(at: ItemPosition, level: OpenObject) -> bool:
    """Whether an object may become one with the same members in another order."""
    members = frozenset(level.members)
    if len(dict(level.members)) < len(level.members) or (level.members and level.colon >= 0 and _repeats(at, level)):
        return True
    begun = at.text[level.begin :]
    return bool(members) and any(members <= other and not text.startswith(begun) for other, text in at.known.items())


def _repeats(at: ItemPosition, level: OpenObject) -> bool:
    name = at.text[level.member : level.colon]
    return any(name == other for other, _ in level.members)
