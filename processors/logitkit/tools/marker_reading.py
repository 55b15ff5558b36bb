"""Reads markers in which ids and numbers of calls may stand, in text that grows."""

from __future__ import annotations

from typing import Literal

from logitkit.tools.formats.call_ids import ID, NUMBER, has_ids, pieces_of, run_of
from logitkit.tools.marked_text import Markers

__all__ = ["MarkerReading"]


class MarkerReading:
    """A marker as it stands in marked text.

    Args:
        marker: The marker of the format.
        markers: The special tokens that count only as tokens.
        id_length: The length of ids, as in `ToolFormat`.

    Example:
        >>> from logitkit.tools.formats import TOOL_FORMATS
        >>> reading = MarkerReading(":{number}|", Markers(TOOL_FORMATS["hermes"]), None)
        >>> reading.at("f:12|{", 1, False), reading.at("f:1", 1, False), reading.at("f:|", 1, False)
        ((5, None), None, False)
    """

    def __init__(self, marker: str, markers: Markers, id_length: int | None) -> None:
        self.pieces = [piece if piece in (ID, NUMBER) else markers.marked(piece) for piece in pieces_of(marker)]
        self.id_length = id_length
        self.varies = has_ids(marker)
        self.text = markers.marked(marker)

    def at(self, text: str, start: int, final: bool) -> tuple[int, str | None] | Literal[False] | None:
        """Whether the marker stands at a place: where it ends, with the id in it; None: not enough is known yet.

        Args:
            text: The text so far.
            start: The place.
            final: Whether nothing follows.
        """
        position, found = start, None
        for piece in self.pieces:
            if piece in (ID, NUMBER):
                end, allowed = run_of(piece, self.id_length, text, position)
                if end == len(text) and not final:
                    return None
                if not allowed:
                    return False
                found = text[position:end] if piece == ID else found
                position = end
                continue
            ahead = text[position : position + len(piece)]
            if ahead != piece:
                return None if not final and piece.startswith(ahead) else False
            position += len(piece)
        return position, found

    def after(
        self, text: str, start: int, stop: int, final: bool
    ) -> tuple[int, int, str | None] | Literal[False] | None:
        """Look for the marker from a place on: where it begins and ends, with the id in it.

        Args:
            text: The text so far.
            start: The place.
            stop: The marker begins before this place.
            final: Whether nothing follows.
        """
        first, position = self.pieces[0], start
        while (position := text.find(first, position)) >= 0 and position < stop:
            found = self.at(text, position, final)
            if found is None:
                return None
            if found is not False:
                return position, *found
            position += 1
        return None if not final and len(text) < stop else False
