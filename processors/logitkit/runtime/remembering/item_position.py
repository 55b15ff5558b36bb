"""One text, byte by byte: which arrays and objects are open, and which items may not come again.

The problem: a token may end an item, begin the next one, and open an array inside of it. So tokens are read by their bytes.

By hand, in an array whose items must differ, after `["a","b` and with the tokens for all bytes:

    open       an array, whose current item `"b` begins at byte 5; used up is `"a"`
    `"`        completes `"b"`, which is used up from now on
    `,` `"`    begins the next item
    `b` `"`    would complete `"b"` again: illegal

Invariants: `text` begins with the bracket of the outermost array that remembers its items, or with an item. It has no white
space outside of strings, and its complete values are spelled as in `spelling`. A position never changes.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile
from types import MappingProxyType
from typing import NamedTuple

from logitkit.compiler.bytes.byte_dfa import FIRST_STATE
from logitkit.compiler.tokens.tables.packed_stacks import Packed
from logitkit.runtime.remembering.byte_steps import ByteSteps
from logitkit.runtime.remembering.json_text import (
    AFTER_NUMBER,
    BACKSLASH,
    CLOSING,
    COLON,
    COMMA,
    DIGITS,
    OPENING,
    QUOTE,
    SPACE,
    JsonMode,
    number_at_end,
)
from logitkit.runtime.remembering.open_values import Level, OpenArray, OpenObject
from logitkit.runtime.remembering.settled_numbers import settled_number, with_end
from logitkit.runtime.remembering.spelling import Member, SpelledObjects, spelled_number, spelled_object
from logitkit.runtime.remembering.used_items import END, UsedItems

__all__ = ["ItemPosition"]

LITERALS = (b"true", b"false", b"null")
# The bytes that end a number in an array.
ENDS = frozenset(b",]")
NO_OBJECTS: SpelledObjects = MappingProxyType({})


class ItemPosition(NamedTuple):
    """The position after some bytes.

    Args:
        state: The state of the automaton, with its count.
        stack: The frames of its open brackets.
        mode: Whether the position is in a string.
        text: The text.
        levels: The arrays and objects that are open, outermost first.
        known: The objects that have been written.
        is_settled: Whether the number at the end of the text is all that can become of it, although more of it may follow.
    """

    state: int
    stack: Packed
    mode: JsonMode = JsonMode.OUTSIDE
    text: bytes = b""
    levels: tuple[Level, ...] = ()
    known: SpelledObjects = NO_OBJECTS
    is_settled: bool = False

    @classmethod
    def in_array(cls, steps: ByteSteps, state: int, stack: Packed) -> ItemPosition:
        """Return the position after the bracket of an array whose items must differ, in the state after it."""
        array = OpenArray(UsedItems(varied=steps.is_varied(state)), state=state, stack=stack)
        return cls(state, stack, text=b"[", levels=(array,))

    def after(self, byte: int, steps: ByteSteps) -> ItemPosition | None:
        """Return the position after one more byte; None if that is illegal, or would repeat an item in the end."""
        state, stack = steps.after(self.state, self.stack, byte)
        if state < FIRST_STATE:
            return None
        # `_replace` takes several times as long.
        moved = ItemPosition(state, stack, self.mode, self.text, self.levels, self.known)
        if self.mode is JsonMode.ESCAPED:
            return moved.written(byte, JsonMode.STRING)
        if self.mode is JsonMode.STRING:
            mode = JsonMode.ESCAPED if byte == BACKSLASH else JsonMode.OUTSIDE if byte == QUOTE else JsonMode.STRING
            found = moved.written(byte, mode)
            return found.with_item(steps, self) if found is not None and mode is JsonMode.OUTSIDE else found
        if byte in AFTER_NUMBER and self.may_end_number:
            ended = moved.with_number(steps, self)
            if ended is None:
                return None
            moved = ended
        if byte in SPACE:
            return moved
        if byte == COMMA:
            return moved.after_comma(steps)
        if byte == COLON:
            *outer, level = moved.levels
            assert isinstance(level, OpenObject)
            return moved._replace(levels=(*outer, level._replace(colon=len(moved.text)))).written(byte)
        if byte in CLOSING:
            return moved.after_bracket(byte, steps, self)
        return moved.with_value(byte, steps, self)

    @property
    def begins_value(self) -> bool:
        """Whether a value or a name may begin here."""
        return self.mode is JsonMode.OUTSIDE and self.text[-1:] in b"[{,:"

    @property
    def number(self) -> bytes:
        """The number at the end of the text, which may be incomplete; empty if there is none."""
        return number_at_end(self.text) if self.mode is JsonMode.OUTSIDE else b""

    @property
    def may_end_number(self) -> bool:
        """Whether the text ends in a number that may be complete."""
        return self.mode is JsonMode.OUTSIDE and bool(self.text) and self.text[-1] in DIGITS

    def changes_by(self, byte: int, steps: ByteSteps) -> bool:
        """Whether a byte may follow, and the text is another one after it."""
        after = self.after(byte, steps)
        return after is not None and after.text != self.text

    @property
    def innermost(self) -> Level | None:
        """The innermost array or object that is open."""
        return self.levels[-1] if self.levels else None

    def may_be_followed_by(self, byte: int, steps: ByteSteps) -> bool:
        """Whether no array that is open forbids a byte that the automaton allows."""
        return not self._remembers or self.after(byte, steps) is not None

    @property
    def _remembers(self) -> bool:
        """Whether an array is open whose items must differ."""
        return any(isinstance(level, OpenArray) and level.items is not None for level in self.levels)

    def written(self, byte: int, mode: JsonMode = JsonMode.OUTSIDE) -> ItemPosition | None:
        """Return the position with one more byte of text, unless an item would be used up."""
        text = self.text + bytes((byte,))
        found = ItemPosition(self.state, self.stack, mode, text, self.levels, self.known)
        return found if found.is_free() else None

    def is_free(self) -> bool:
        """Whether no item has a beginning that is used up."""
        for level in self.levels:
            if isinstance(level, OpenArray) and level.items is not None and level.begin >= 0 and not level.ended:
                length = len(self.text) - level.begin
                if length >= level.items.shortest and self.text[level.begin :] in level.items.used_up:
                    return False
        return True

    def with_value(self, byte: int, steps: ByteSteps, before: ItemPosition) -> ItemPosition | None:
        """Return the position after a byte that begins a value, or goes on in a number or a word such as `null`."""
        if before.is_settled:
            return self._replace(is_settled=True)
        levels, level = self.levels, self.innermost
        if isinstance(level, OpenArray) and level.begin < 0:
            level = OpenArray(level.items, len(self.text), False, level.state, level.stack)
            levels = (*levels[:-1], level)
        mode = JsonMode.STRING if byte == QUOTE else JsonMode.OUTSIDE
        found = self._replace(levels=levels).written(byte, mode)
        if found is None or mode is JsonMode.STRING:
            return found
        if byte in OPENING:
            begin = len(found.text)
            remembers = byte == OPENING[0] and steps.remembers(found.state)
            opened: Level = (
                OpenObject(begin - 1, begin)
                if byte == OPENING[1]
                else OpenArray(
                    UsedItems(varied=steps.is_varied(found.state)) if remembers else None,
                    state=found.state,
                    stack=found.stack,
                )
            )
            return found._replace(levels=(*found.levels, opened))
        if found.number:
            return found.with_settled_number(steps)
        return found.with_item(steps, before) if found.text.endswith(LITERALS) else found

    def with_settled_number(self, steps: ByteSteps) -> ItemPosition | None:
        """Return the position with the number at its end complete if it is settled, unless it leads nowhere."""
        number = self.number
        spelled = settled_number(number, self.state, self.stack, steps)
        if spelled is None:
            # Besides numbers that begin with the sign, -0 may follow, which is 0.
            is_left = number != b"-" or any(self.may_be_followed_by(after, steps) for after in steps.legal(*self[:2]))
            return self if is_left else None
        found = self._replace(text=self.text[: -len(number)] + spelled, is_settled=True)
        if spelled == number or not self._remembers:
            return found
        state, stack = with_end(self.state, self.stack, steps)
        ended = found._replace(state=state, stack=stack)
        may_end = any(ended.after(byte, steps) is not None for byte in b",]}" if byte in steps.legal(state, stack))
        return found if may_end else None

    def after_comma(self, steps: ByteSteps) -> ItemPosition | None:
        """Return the position after the comma of an array or an object."""
        *outer, level = self.levels
        if isinstance(level, OpenObject):
            members = (*level.members, self._member(level))
            level = OpenObject(level.begin, len(self.text) + 1, members=members)
        else:
            items = level.items
            if items is not None and items.varied and (self.state, self.stack) != (level.state, level.stack):
                # Which beginnings lead nowhere depends on the items that are possible in the next place.
                items = UsedItems(varied=True).with_items(items.items, following_from(steps, self.state, self.stack))
            if items is not None and items.is_exhausted:
                return None
            level = OpenArray(items, state=self.state, stack=self.stack)
        found = self._replace(text=self.text + b",", levels=(*outer, level))
        return found if found.is_free() else None

    def after_bracket(self, byte: int, steps: ByteSteps, before: ItemPosition) -> ItemPosition | None:
        """Return the position after a closing bracket."""
        *outer, level = self.levels
        text, known = self.text + bytes((byte,)), self.known
        if isinstance(level, OpenObject):
            members = level.members if level.colon < 0 else (*level.members, self._member(level))
            if members:
                spelled, key = spelled_object(text[level.begin :], members, known)
                text = text[: level.begin] + spelled
                known = known if key is None else {**known, key: spelled}
        found = self._replace(text=text, levels=tuple(outer), known=known)
        return found.with_item(steps, before) if found.is_free() else None

    def _member(self, level: OpenObject) -> Member:
        return self.text[level.member : level.colon], self.text[level.colon + 1 :]

    def with_number(self, steps: ByteSteps, before: ItemPosition) -> ItemPosition | None:
        """Return the position with the number at the end of the text complete."""
        number = self.number
        found = self._replace(text=self.text[: -len(number)] + spelled_number(number))
        return found.with_item(steps, before, END) if found.is_free() else None

    def with_item(self, steps: ByteSteps, before: ItemPosition, end: bytes = b"") -> ItemPosition | None:
        """Return the position with a value complete: if it is an item, it may not come again.

        Args:
            steps: The steps of the automaton.
            before: The position before its last byte, or before the byte after a number.
            end: `END` after a number.
        """
        level = self.innermost
        if not isinstance(level, OpenArray) or level.ended:
            return self
        items = level.items
        if items is not None:
            item = self.text[level.begin :] + end
            if item in items.used_up:
                return None
            if item[-1:] != b"]" and items.leaves_others(item, len(steps.legal(before.state, before.stack))):
                items = items.with_item(item, None)
            else:
                items = items.with_item(item, following_from(steps, level.state, level.stack))
        return self._replace(levels=(*self.levels[:-1], OpenArray(items, level.begin, True, level.state, level.stack)))


def following_from(steps: ByteSteps, state: int, stack: Packed) -> Callable[[bytes], frozenset[bytes] | None]:
    """Return a function that says what may follow a beginning of an item: bytes, and `END`; None if it begins no item.

    Args:
        steps: The steps of the automaton.
        state: The state before the item.
        stack: The stack before it.
    """
    # The positions along the last beginning.
    read, last = [ItemPosition(state, stack)], b""

    def following(begin: bytes) -> frozenset[bytes] | None:
        key = state, stack, begin
        found = steps.following.get(key)
        if found is None:
            at = position(begin)
            if at is None:
                # An item of another kind.
                return None
            # The last token of an item is tried many times.
            found = steps.following.keep(key, _following(at, begin, steps), 200 + len(stack) + len(begin))
        return found

    def position(begin: bytes) -> ItemPosition | None:
        nonlocal last
        if not last.startswith(begin):
            same = takewhile(lambda pair: pair[0] == pair[1], zip(last, begin, strict=False))
            del read[1 + sum(1 for _ in same) :]
            last = begin
        while len(read) <= len(begin):
            after = read[-1].after(begin[len(read) - 1], steps)
            if after is None:
                return None
            read.append(after)
        return read[len(begin)]

    return following


def _following(at: ItemPosition, begin: bytes, steps: ByteSteps) -> frozenset[bytes]:
    """Return what may follow a beginning of an item, given the position after it."""
    legal = steps.legal(at.state, at.stack)
    if at.mode is JsonMode.OUTSIDE:
        legal = legal.translate(None, SPACE)
        if at.number:
            # More of a settled number adds nothing.
            legal = bytes([byte for byte in legal if byte in AFTER_NUMBER or at.changes_by(byte, steps)])
        if not at.levels:
            # A number may be complete here, or an item has not begun.
            ends = bool(begin) and not ENDS.isdisjoint(legal)
            found = {bytes((byte,)) for byte in legal if byte not in ENDS}
            return frozenset({*found, END} if ends else found)
    return frozenset(bytes((byte,)) for byte in legal if at.may_be_followed_by(byte, steps))
