"""Texts that grow at their end, as values: pieces, each with those before it.

The problem: a row's text is a value, so that rows can be copied. If each token made a new string of bytes, a text of 200,000
bytes would be copied 40,000 times.

By hand, if no pieces are joined, after `["a` and `b"`: the last piece is `b"`, ends at 5, and points to `["a`, which ends at 3.
The item from byte 1 on is `"ab"`: the last piece and a part of the one before it.

Invariants: pieces never change. Only the first one is empty, or stands for a text whose beginning has been forgotten.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["EMPTY", "Pieces"]

SHORT = 256


class Pieces(NamedTuple):
    """A text.

    Args:
        before: The text before its last piece; None: there is none, or it has been forgotten.
        last: The last piece.
        length: Where it ends, in bytes from the beginning.
    """

    before: Pieces | None
    last: bytes
    length: int

    def plus(self, text: bytes) -> Pieces:
        """Return the text with more at its end."""
        if not text:
            return self
        before, last, length = self
        # A piece takes a hundred bytes besides its text, so short ones are joined.
        if before is not None and len(last) < SHORT:
            return Pieces(before, last + text, length + len(text))
        return Pieces(self, text, length + len(text))

    def since(self, begin: int) -> bytes:
        """Return the bytes from a place on, which are mostly in the last piece."""
        skipped = begin - self.length + len(self.last)
        return self.last[skipped:] if skipped >= 0 else self.split(begin)[1]

    def split(self, begin: int) -> tuple[Pieces, bytes]:
        """Return the text before a place, and the bytes from there on."""
        found: list[bytes] = []
        at = self
        while at.before is not None and at.length - len(at.last) >= begin:
            found.append(at.last)
            at = at.before
        if at.length > begin:
            kept = len(at.last) - (at.length - begin)
            found.append(at.last[kept:])
            at = Pieces(at.before, at.last[:kept], begin)
        return at, b"".join(reversed(found))

    @property
    def text(self) -> bytes:
        """All bytes that are not forgotten."""
        found: list[bytes] = []
        at = self
        while at is not None:
            found.append(at.last)
            at = at.before  # type: ignore[assignment]
        return b"".join(reversed(found))


EMPTY = Pieces(None, b"", 0)
