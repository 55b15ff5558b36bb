"""The arrays, objects and numbers that are open in a text."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from logitkit.compiler.tokens.tables.packed_stacks import Packed
from logitkit.runtime.remembering.json_text import DIGITS
from logitkit.runtime.remembering.known_objects import Member
from logitkit.runtime.remembering.used_items import UsedItems

__all__ = ["ItemPlace", "Level", "OpenArray", "OpenNumber", "OpenObject", "UsedMatch", "UsedMatches"]

MINUS, ZERO, POINT, EXPONENT = b"-", b"0", b".", b"eE"


class UsedMatch(NamedTuple):
    """The used items of an open array that begin with its current item, or names of an object.

    Args:
        level: The index of the array or object among those that are open.
        low: Where they begin in `UsedItems.used_up`.
        high: Where they end.
    """

    level: int
    low: int
    high: int


# Those of all that have some, the outermost first.
UsedMatches: TypeAlias = tuple[UsedMatch, ...]


class ItemPlace(NamedTuple):
    """Where an item may begin.

    Args:
        state: The state of the automaton.
        stack: The stack then.
    """

    state: int
    stack: Packed


class OpenArray(NamedTuple):
    """An array that is open.

    Args:
        items: Its items, if they must differ; None: they need not.
        place: Where its current item begins, or its first one if all are of one kind; None if its items need not differ.
        begin: Where this is in the text; -1 if the item has not begun.
        ended: Whether the current item is complete.
    """

    items: UsedItems | None
    place: ItemPlace | None = None
    begin: int = -1
    ended: bool = False


class OpenObject(NamedTuple):
    """An object that is open.

    Args:
        items: The names of its members, if they must differ; None: they need not.
        place: Where its current name begins; None if its names need not differ.
        first: Where it begins in the text.
        before: The matches before it begins.
        begin: Where its current member begins, and the name of this; -1 if it has not begun.
        ended: Whether the name is complete.
        colon: Where the colon of this member stands; -1 if it is not written.
        members: The members that are complete, if it is a part of an item that must differ from others.
    """

    items: UsedItems | None
    place: ItemPlace | None
    first: int
    before: UsedMatches
    begin: int = -1
    ended: bool = False
    colon: int = -1
    members: tuple[Member, ...] = ()


Level: TypeAlias = OpenArray | OpenObject


class OpenNumber(NamedTuple):
    """A number that may go on.

    Args:
        begin: Where it begins in the text.
        before: The matches before it begins.
        is_begun: Whether it has more than a sign.
        is_zero: Whether it has no digit but zeros before its exponent.
        has_point: Whether it has a point.
        has_exponent: Whether its exponent has begun.
        is_settled: Whether its text is all that can become of it, although more of it may follow.
    """

    begin: int
    before: UsedMatches
    is_begun: bool = False
    is_zero: bool = True
    has_point: bool = False
    has_exponent: bool = False
    is_settled: bool = False

    def after(self, byte: int) -> OpenNumber:
        """Return the number with one more byte."""
        if byte in DIGITS and not self.is_zero:
            return self
        return OpenNumber(
            self.begin,
            self.before,
            self.is_begun or byte not in MINUS,
            self.is_zero and (self.has_exponent or byte not in DIGITS or byte in ZERO),
            self.has_point or byte in POINT,
            self.has_exponent or byte in EXPONENT,
            self.is_settled,
        )

    @property
    def is_integer(self) -> bool:
        """Whether its text has one spelling, as far as it is written: no point, exponent, or zero in front."""
        return not (self.has_point or self.has_exponent or self.is_zero)

    @property
    def kind(self) -> tuple[bool, ...]:
        """All that says, together with the state, whether the value is settled."""
        return self[2:6]
