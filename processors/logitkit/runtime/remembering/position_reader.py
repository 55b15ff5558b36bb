"""Reads the bytes of a token from a position on.

The problem: a token may end an item, begin the next one, and open an array inside of it. So tokens are read by their bytes.

By hand, in an array whose items must differ, after `["a","b` and with the tokens for all bytes:

    open       an array, whose current item `"b` begins at byte 5; used up is `"a"`
    `"`        completes `"b"`, which is used up from now on
    `,` `"`    begins the next item
    `b` `"`    would complete `"b"` again: illegal

Most bytes stand in strings that no used item begins with. They are not compared with anything, and the state of the automaton
between them is found only where it matters.

Invariants: the automaton allows all bytes. If `read` returns False, the reader is not used any more.
"""

from __future__ import annotations

import re

from logitkit.compiler.bytes.byte_dfa import FIRST_STATE
from logitkit.compiler.tokens.tables.packed_stacks import Packed
from logitkit.runtime.remembering.byte_steps import ByteSteps
from logitkit.runtime.remembering.following_items import following_from, may_be_followed_by
from logitkit.runtime.remembering.item_position import ItemPosition
from logitkit.runtime.remembering.json_text import (
    AFTER_NUMBER,
    BACKSLASH,
    BEGINS_NUMBER,
    CLOSING,
    COLON,
    COMMA,
    ESCAPED,
    OPENING,
    OUTSIDE,
    QUOTE,
    SPACE,
    STRING,
)
from logitkit.runtime.remembering.known_objects import Member
from logitkit.runtime.remembering.moving_position import MovingPosition
from logitkit.runtime.remembering.open_values import (
    ItemPlace,
    Level,
    OpenArray,
    OpenNumber,
    OpenObject,
    UsedMatch,
    UsedMatches,
)
from logitkit.runtime.remembering.settled_numbers import is_settled, settled_number, with_end
from logitkit.runtime.remembering.spelling import spelled_number, spelled_object
from logitkit.runtime.remembering.text_pieces import Pieces
from logitkit.runtime.remembering.used_items import END, UsedItems

__all__ = ["PositionReader"]

END_BYTE, CLOSING_ARRAY = END[0], CLOSING[:1]
# The last byte of the words, which has another one before it in `null`.
ENDS_WORD = b"el"
LETTER_L = ENDS_WORD[1:]

_leave_string = re.compile(rb'["\\]').search


class PositionReader(MovingPosition):
    """Reads bytes from a position on.

    Args:
        at: The position that it begins at.
        steps: The steps of the automaton.
    """

    __slots__ = ("read_bytes",)

    def __init__(self, at: ItemPosition, steps: ByteSteps) -> None:
        super().__init__(at, steps)
        self.read_bytes = 0

    def read(self, text: bytes, end: tuple[int, Packed] | None = None) -> bool:
        """Read bytes up to the end of the outermost array, and return whether they repeat no item.

        `read_bytes` says how many these are.

        Args:
            text: The bytes, which the automaton allows.
            end: The state and the stack after them, if they are known.
        """
        self._text, self._end = text, end
        at, length = 0, len(text)
        while at < length:
            byte = text[at]
            if self._mode is OUTSIDE:
                if not self._outside(byte, at):
                    return False
                at += 1
                if not self._levels:
                    break
            elif self._mode is ESCAPED:
                self._mode = STRING
                if not self._write(text[at : at + 1]):
                    return False
                at += 1
            else:
                found = _leave_string(text, at)
                stop = found.start() if found else length
                if stop > at and not self._write(text[at:stop]):
                    return False
                at = stop
                if found is not None:
                    self._mode = ESCAPED if text[at] == BACKSLASH else OUTSIDE
                    if not self._write(text[at : at + 1]) or (self._mode is OUTSIDE and not self._complete(at)):
                        return False
                    at += 1
        self.read_bytes = at
        return True

    def _outside(self, byte: int, at: int) -> bool:
        """Read a byte outside of strings."""
        if self._number is not None and byte in AFTER_NUMBER and not self._end_number(at):
            return False
        if byte in SPACE:
            return True
        if byte == COMMA:
            return self._comma(at)
        if byte == COLON:
            level = self._levels[-1]
            assert isinstance(level, OpenObject)
            self._levels[-1] = level._replace(colon=self._length)
            return self._write(b":")
        if byte in CLOSING:
            return self._close(byte, at)
        return self._value(byte, at)

    def _value(self, byte: int, at: int) -> bool:
        """Read a byte that begins a value, or goes on in a number or a word such as `null`."""
        number = self._number
        if number is not None and number.is_settled:
            return True
        level = self._levels[-1] if self._levels else None
        if level is not None and level.begin < 0:
            items = level.items
            self._levels[-1] = (
                OpenArray(items, level.place, self._length)
                if isinstance(level, OpenArray)
                else level._replace(begin=self._length)
            )
            if items is not None and items.used_up:
                self._matches = (*self._matches, UsedMatch(len(self._levels) - 1, 0, len(items.used_up)))
        before, last = self._matches, self._last
        if not self._write(bytes((byte,))):
            return False
        if byte == QUOTE:
            self._mode = STRING
            return True
        if byte in OPENING:
            self._open(byte, at, before)
            return True
        if number is None and byte in BEGINS_NUMBER:
            number = OpenNumber(self._length - 1, before)
        if number is not None:
            return self._goes_on(number.after(byte), at)
        return byte not in ENDS_WORD or (byte in LETTER_L and last != LETTER_L) or self._complete(at)

    def _open(self, byte: int, at: int, before: UsedMatches) -> None:
        """Open an array or an object, after its bracket."""
        items: UsedItems | None = None
        place: ItemPlace | None = None
        if byte in self._steps.brackets:
            state, stack = self._state_at(at + 1)
            if self._steps.remembers(state):
                items = UsedItems.none(varied=self._steps.is_varied(state))
                place = ItemPlace(state, stack)
        is_array = byte == OPENING[0]
        self._levels.append(OpenArray(items, place) if is_array else OpenObject(items, place, self._length - 1, before))

    def _goes_on(self, number: OpenNumber, at: int) -> bool:
        """Go on in a number; if it is settled, its text is complete."""
        self._number, steps = number, self._steps
        state, stack = self._state_at(at + 1)
        if not is_settled(number, state, stack, steps):
            if number.is_begun:
                return True
            return self._may_be_negative(state, stack)
        self._number = number._replace(is_settled=True)
        text = self._since(number.begin)
        spelled = settled_number(text, number)
        if spelled == text:
            return True
        remembers = self.position(state, stack).remembers
        if not self._rewrite(number.begin, number.before, spelled):
            return False
        if not remembers:
            return True
        state, stack = with_end(state, stack, steps)
        ended = self.position(state, stack)
        return any(self._after(ended, byte) is not None for byte in b",]}" if byte in steps.legal(state, stack))

    def _may_be_negative(self, state: int, stack: Packed) -> bool:
        """Whether a number with a sign may follow: besides those that begin with it, there is -0, which is 0."""
        legal = self._steps.legal(state, stack)
        used = [(self._levels[level], low, high) for level, low, high in self._matches]
        for byte in legal.translate(None, b"0"):
            if not any(
                level.items is not None and level.items.uses_up(low, high, self._length - level.begin, byte)
                for level, low, high in used
            ):
                return True
        position = self.position(state, stack)
        return any(may_be_followed_by(position, byte, self._after) for byte in legal)

    def _comma(self, at: int) -> bool:
        """Read the comma of an array or an object."""
        level = self._levels[-1]
        items, place = level.items, level.place
        if items is not None:
            if items.varied:
                before, place = place, ItemPlace(*self._state_at(at + 1))
                if place != before:
                    # Which beginnings lead nowhere depends on the items or names that are possible in the next place.
                    items = items.again(following_from(self._steps, place, self._after), self._steps.tokens.going_on)
            if items.is_exhausted:
                return False
        if isinstance(level, OpenObject):
            members = (*level.members, self._member(level)) if self._is_in_item() else ()
            self._levels[-1] = OpenObject(items, place, level.first, level.before, members=members)
        else:
            self._levels[-1] = OpenArray(items, place)
        if not self._write(b","):
            return False
        if len(self._levels) == 1:
            # The items or names before are known.
            self._begun = bytearray()
            self._pieces = Pieces(None, b",", self._length)
        return True

    def _close(self, byte: int, at: int) -> bool:
        """Read a closing bracket."""
        is_in_item = self._is_in_item()
        level = self._levels.pop()
        bracket = bytes((byte,))
        if not isinstance(level, OpenObject) or level.colon < 0 or not is_in_item:
            return self._write(bracket) and self._complete(at)
        members = (*level.members, self._member(level))
        text = self._since(level.first) + bracket
        spelled, key = spelled_object(text, members, self._known)
        if key is not None:
            self._known = self._known.plus(key, tuple([name for name, _ in members]), spelled)
        if spelled == text:
            return self._write(bracket) and self._complete(at)
        return self._rewrite(level.first, level.before, spelled) and self._complete(at)

    def _is_in_item(self) -> bool:
        """Whether the innermost array or object is inside of an item that must differ from others."""
        return any(isinstance(level, OpenArray) and level.items is not None for level in self._levels[:-1])

    def _member(self, level: OpenObject) -> Member:
        text = self._since(level.begin)
        colon = level.colon - level.begin
        return text[:colon], text[colon + 1 :]

    def _end_number(self, at: int) -> bool:
        """Complete the number at the end of the text, before a byte after it."""
        number = self._number
        assert number is not None
        self._number = None
        text = self._since(number.begin)
        spelled = spelled_number(text)
        if spelled != text and not self._rewrite(number.begin, number.before, spelled):
            return False
        level = self._levels[-1] if self._levels else None
        return not isinstance(level, OpenArray) or self._complete_item(at, level, spelled + END)

    def _complete(self, at: int) -> bool:
        """Complete a name, or a value other than a number, at its last byte: if it is an item, it may not come again."""
        level = self._levels[-1] if self._levels else None
        if level is None or (isinstance(level, OpenObject) and (level.items is None or level.ended)):
            return True
        return self._complete_item(at, level, b"" if level.items is None else self._since(level.begin))

    def _after(self, at: ItemPosition, byte: int) -> ItemPosition | None:
        """Return the position after one more byte; None if that is illegal, or would repeat an item in the end."""
        end = self._steps.after(at.state, at.stack, byte)
        if end[0] < FIRST_STATE:
            return None
        reader = PositionReader(at, self._steps)
        return reader.position(*end) if reader.read(bytes((byte,)), end) else None

    def _complete_item(self, at: int, level: Level, item: bytes) -> bool:
        """Complete an item or a name.

        Args:
            at: The place of its last byte, or of the byte after a number.
            level: Its array or object.
            item: Its text, with `END` after a number.
        """
        items, steps, matches = level.items, self._steps, self._matches
        if items is not None:
            assert level.place is not None
            if matches and matches[-1].level == len(self._levels) - 1:
                _, low, high = matches[-1]
                if item[-1] == END_BYTE and items.uses_up(low, high, len(item) - 1, END_BYTE):
                    return False
                self._matches = matches[:-1]
            is_alone = item[-1] not in CLOSING_ARRAY and items.leaves_others(
                item, len(steps.legal(*self._state_at(at)))
            )
            items = items.with_item(
                item, None if is_alone else following_from(steps, level.place, self._after), steps.tokens.going_on
            )
        self._levels[-1] = (
            OpenArray(items, level.place, level.begin, ended=True)
            if isinstance(level, OpenArray)
            else level._replace(items=items, ended=True)
        )
        return True
