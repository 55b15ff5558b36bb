"""The marked text of a turn while it grows, and how far it has been read."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["TurnText"]


class TurnText:
    """Text that is read from its beginning, while more is added at its end.

    What a marker may begin with is held back until it is clear whether it is the marker.

    Example:
        >>> text = TurnText()
        >>> text.add([("see <to", 0, 7)])
        >>> text.upto("<tool>")
        ('see ', False)
        >>> text.add([("ol>", 7, 10)])
        >>> text.upto("<tool>")
        ('', True)
    """

    def __init__(self) -> None:
        self.so_far = ""
        # Where the next part to read begins.
        self.at = 0
        # Whether nothing follows.
        self.final = False
        self._places: list[tuple[int, int]] = []

    def add(self, pieces: Iterable[tuple[str, int, int]]) -> None:
        """Add characters, each with its first position in what was generated and the one after its last."""
        found = list(pieces)
        self.so_far += "".join(text for text, _, _ in found)
        self._places.extend((first, last) for text, first, last in found for _ in text)

    @property
    def is_read(self) -> bool:
        """Whether all of it has been read."""
        return self.at == len(self.so_far)

    def first(self, place: int) -> int:
        """Return the position in what was generated of the character at a place, or of the end."""
        if place < len(self._places):
            return self._places[place][0]
        return self._places[-1][1] if self._places else 0

    def span(self, begin: int) -> tuple[int, int]:
        """Return the positions of the text from a place on that has been read."""
        return self._places[begin][0], self._places[self.at - 1][1]

    def follows(self, expected: str) -> bool | None:
        """Whether a text follows; None: not enough is known yet."""
        ahead = self.so_far[self.at : self.at + len(expected)]
        if ahead == expected:
            return True
        return None if not self.final and expected.startswith(ahead) else False

    def skip(self, expected: str) -> bool | None:
        """Whether a text follows, as `follows` says; if it does, go on after it."""
        found = self.follows(expected)
        if found:
            self.at += len(expected)
        return found

    def upto(self, marker: str) -> tuple[str, bool]:
        """Return what can be read before a marker, and whether the marker follows; this goes on to it, not over it."""
        found = self.so_far.find(marker, self.at) if marker else -1
        stop = found
        if found < 0:
            stop = len(self.so_far) - (0 if self.final else self._begun(marker))
        read, self.at = self.so_far[self.at : stop], stop
        return read, found >= 0

    def _begun(self, marker: str) -> int:
        """Return how many of the last characters that are not read begin a marker."""
        most = min(len(marker) - 1, len(self.so_far) - self.at)
        return next((size for size in range(most, 0, -1) if self.so_far.endswith(marker[:size])), 0)
