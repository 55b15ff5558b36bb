"""The tokens of a vocabulary as parts of JSON texts: which begin with a text, and which may write more than one item.

By hand: inside of a string, `","` ends the string and begins another one after a comma. So it *crosses*, and what it begins with
is `"`. Outside of strings, the same bytes are a string that is a comma, and then nothing: it does not cross.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bounded_cache import BoundedCache
from logitkit.runtime.constraint_row import NO_IDS
from logitkit.runtime.remembering.json_text import (
    BACKSLASH,
    CLOSING,
    COMMA,
    ESCAPED,
    OPENING,
    OUTSIDE,
    QUOTE,
    SPACE,
    STRING,
    JsonMode,
)
from logitkit.runtime.remembering.used_items import END
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["ItemTokens", "Shape"]

REMEMBERED_BYTES = 2**22

# A part of a number with a sign, a point or an exponent, or with a zero in front.
RESPELLED = re.compile(rb"(0|[0-9]*[-.eE])[-+.0-9eE]*([,\]} \n\r\t]|\Z)")


class Shape(NamedTuple):
    """The commas, brackets and white space of a token outside of strings.

    Args:
        begins: How many bytes follow the first comma or opening bracket; -1: there is none.
        is_whole: Whether a value may begin and end in the token.
        ends: Whether a value that began before it may end in it, at a comma or a closing bracket.
        has_space: Whether it has white space.
        has_bracket: Whether it has a bracket.
        only_opens: Whether no comma and no closing bracket is among these.
    """

    begins: int
    is_whole: bool
    ends: bool
    has_space: bool
    has_bracket: bool
    only_opens: bool


class ItemTokens:
    """The tokens of a vocabulary in which all bytes of a text are tokens.

    Args:
        vocabulary: The vocabulary.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        special, trie = {*vocabulary.special.values(), *vocabulary.eos_ids}, vocabulary.trie
        # Special tokens are not text, even if their names have brackets, as `[TOOL_CALLS]`.
        self.texts = tuple([None if token in special else text for token, text in enumerate(vocabulary.tokens)])
        self.byte_ids = tuple(
            [
                next((token for _, token in trie.tokens_at(bytes([byte])) if token not in special), -1)
                for byte in range(256)
            ]
        )
        self._order = trie.tokens
        self.longest = trie.depth - 1
        self._known: BoundedCache[bytes, NDArray[np.int64]] = BoundedCache(REMEMBERED_BYTES)
        self._openers: dict[bytes, NDArray[np.int64]] = {}
        # At most six for each token.
        self._shapes: dict[tuple[int, JsonMode, bool], Shape] = {}

    @cached_property
    def _sorted(self) -> list[bytes]:
        texts = self.texts
        return [texts[token] or b"" for token in self._order.tolist()]

    def shaped(self, mode: JsonMode) -> NDArray[np.int64]:
        """Return the ids of tokens whose shape matters where they begin in a mode, ascending: for others, it is empty."""
        return self._outside if mode is OUTSIDE else self._quoted

    def openers(self, brackets: bytes) -> NDArray[np.int64]:
        """Return the ids of tokens in which several items or members may begin, ascending: a bracket, and then a comma."""
        found = self._openers.get(brackets)
        if found is None:
            opens = re.compile(b"[%s].*," % re.escape(brackets), re.DOTALL).search
            ids = [i for i, text in enumerate(self.texts) if text and opens(text)]
            found = self._openers[brackets] = np.array(ids, np.int64)
        return found

    @cached_property
    def numeric(self) -> NDArray[np.int64]:
        """The ids of tokens in which a number may have another spelling than its shortest, ascending: with a mark, or a zero."""
        return np.array([i for i, text in enumerate(self.texts) if text and RESPELLED.match(text)], np.int64)

    @cached_property
    def _outside(self) -> NDArray[np.int64]:
        marks = b'",:[]{} \t\n\r'
        # `translate` finds out in one call whether a text has one of several bytes.
        return np.array(
            [i for i, text in enumerate(self.texts) if text and len(text.translate(None, marks)) < len(text)], np.int64
        )

    @cached_property
    def _quoted(self) -> NDArray[np.int64]:
        return np.array([i for i, text in enumerate(self.texts) if text and b'"' in text], np.int64)

    def beginning_with(self, text: bytes) -> NDArray[np.int64]:
        """Return the ids of tokens that begin with a text, [N]."""
        if len(text) > self.longest:
            return NO_IDS
        found = self._known.get(text)
        if found is None:
            first = bisect_left(self._sorted, text)
            last = bisect_left(self._sorted, text + b"\xff" * (1 + self.longest), first)
            found = self._known.keep(text, self._order[first:last].astype(np.int64), 8 * (last - first) + 100)
        return found

    def going_on(self, text: bytes) -> NDArray[np.int64]:
        """Return the ids of tokens that begin with a text, or with one and a comma or bracket if it is a number with `END`."""
        if not text.endswith(END):
            return self.beginning_with(text)
        if len(text) > self.longest:
            return NO_IDS
        found = self._known.get(text)
        if found is None:
            ends = [self.beginning_with(text[:-1] + end) for end in (b",", b"]")]
            found = np.concatenate(ends)
            self._known.keep(text, found, 8 * len(found) + 100)
        return found

    def shape(self, token: int, mode: JsonMode, begins_value: bool) -> Shape:
        """Return the shape of a token.

        Args:
            token: Its id.
            mode: The mode in which it begins.
            begins_value: Whether a value may begin with it: not in the middle of a number, for example.
        """
        key = token, mode, begins_value
        found = self._shapes.get(key)
        if found is None:
            found = self._shapes[key] = _shape(self.texts[token] or b"", mode, begins_value)
        return found


def _shape(text: bytes, mode: JsonMode, begins_value: bool) -> Shape:
    """Return the shape of a text that begins in a mode, and where a value may begin or not."""
    begins = -1
    # Whether a value has begun in the token, since the last comma.
    has_begun = begins_value
    is_whole = ends = has_space = has_bracket = False
    for at, byte in enumerate(text):
        has_bracket |= mode is OUTSIDE and (byte in CLOSING or byte in OPENING)
        if mode is ESCAPED:
            mode = STRING
        elif mode is STRING:
            mode = ESCAPED if byte == BACKSLASH else OUTSIDE if byte == QUOTE else mode
        elif byte in SPACE:
            has_space = True
        elif byte == COMMA or byte in CLOSING:
            ends = True
            is_whole |= has_begun
            has_begun &= byte != COMMA
            begins = len(text) - at - 1 if byte == COMMA and begins < 0 else begins
        else:
            has_begun = True
            begins = len(text) - at - 1 if byte in OPENING and begins < 0 else begins
            mode = STRING if byte == QUOTE else mode
    return Shape(begins, is_whole, ends, has_space, has_bracket, not ends)
