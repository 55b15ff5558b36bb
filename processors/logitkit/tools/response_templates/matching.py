"""Finds anchors in texts, in time that is bounded by a number of steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from logitkit.errors import ConfigurationError
from logitkit.tools.response_templates.anchors import (
    Ahead,
    CharacterRun,
    FieldAnchor,
    FixedText,
    Piece,
    ResponseEnd,
    ResponseStart,
)

__all__ = ["AnchorMatch", "Matcher"]

# The pieces and characters that are compared for one response template: seven times as many as any of 136 took.
MOST_STEPS = 1_000_000


class AnchorMatch(NamedTuple):
    """Where an anchor stands.

    Args:
        begin: Its first character.
        end: The character after it.
        groups: The texts of its groups.
    """

    begin: int
    end: int
    groups: dict[str, str]


class Matcher:
    """Finds anchors, and counts the steps.

    Example:
        >>> from logitkit.tools.response_templates.anchors import pattern_anchor
        >>> Matcher().search(pattern_anchor(r"<f=(?P<name>[^>]+)>", "open"), "see <f=ping>", 0)
        AnchorMatch(begin=4, end=12, groups={'name': 'ping'})
    """

    def __init__(self) -> None:
        self.steps = 0

    def search(self, anchor: FieldAnchor, text: str, start: int) -> AnchorMatch | None:
        """Return the first place of an anchor from a position on, as `re` finds it.

        Raises:
            ConfigurationError: It takes too many steps.
        """
        # Ways that cannot match from here on are left out, because a text of theirs does not follow.
        ways = [way for way in anchor.ways if all(text.find(needed, start) >= 0 for needed in _needed(way))]
        tried = [start] * len(ways)
        for begin in range(start, len(text) + 1 if ways else start):
            for number, way in enumerate(ways):
                self._count(1)
                # A text that does not stand here rules out most places at once.
                if begin < tried[number] or not _may_begin(way, text, begin):
                    continue
                found = self._match(way, text, begin)
                if found is not None:
                    return found
                if way and isinstance(way[0], CharacterRun) and way[0].most is None:
                    # From inside of the run, fewer ends of it would be tried.
                    tried[number] = begin + 1 + self._length(way[0], text, begin)
        return None

    def _match(self, way: tuple[Piece, ...], text: str, begin: int) -> AnchorMatch | None:
        ends = self._ends(way, 0, text, begin, set())
        if ends is None:
            return None
        groups: dict[str, str] = {}
        for piece, at, stop in zip(way, (begin, *ends), ends, strict=False):
            if isinstance(piece, CharacterRun) and piece.group is not None:
                groups[piece.group] = groups.get(piece.group, "") + text[at:stop]
        return AnchorMatch(begin, ends[-1] if ends else begin, groups)

    def _ends(
        self, way: tuple[Piece, ...], number: int, text: str, at: int, failed: set[tuple[int, int]]
    ) -> tuple[int, ...] | None:
        """Return where the pieces from one on end; None if they do not match. A piece fails at a place only once."""
        if number == len(way):
            return ()
        if (number, at) in failed:
            return None
        self._count(1)
        for stop in self._stops(way[number], text, at):
            rest = self._ends(way, number + 1, text, stop, failed)
            if rest is not None:
                return (stop, *rest)
        failed.add((number, at))
        return None

    def _stops(self, piece: Piece, text: str, at: int) -> list[int]:
        """Return where a piece may end, the first choice first."""
        match piece:
            case FixedText(expected):
                return [at + len(expected)] if text.startswith(expected, at) else []
            case ResponseStart():
                return [at] if at == 0 else []
            case ResponseEnd(or_line):
                return [at] if at == len(text) or (or_line and text[at:] == "\n") else []
            case Ahead(ways):
                return [at] if any(self._ends(way, 0, text, at, set()) is not None for way in ways) else []
            case CharacterRun(least=least, is_lazy=is_lazy):
                stop = at + self._length(piece, text, at)
                found = [*range(at + least, stop + 1)]
                return found if is_lazy else found[::-1]

    def _length(self, run: CharacterRun, text: str, at: int) -> int:
        """Return how many characters of a run stand at a position."""
        stop, last = at, len(text) if run.most is None else min(len(text), at + run.most)
        while stop < last and ord(text[stop]) in run.characters:
            stop += 1
        self._count(stop - at)
        return stop - at

    def _count(self, steps: int) -> None:
        self.steps += steps
        if self.steps > MOST_STEPS:
            raise ConfigurationError(
                f"the patterns of the response template take more than {MOST_STEPS} steps on sample calls; simplify them"
            )


def _needed(way: tuple[Piece, ...]) -> Iterator[str]:
    """Yield the texts that stand in what a way matches, or follow."""
    for piece in way:
        if isinstance(piece, FixedText):
            yield piece.text
        elif isinstance(piece, Ahead) and len(piece.ways) == 1:
            yield from _needed(piece.ways[0])


def _may_begin(way: tuple[Piece, ...], text: str, begin: int) -> bool:
    return not way or not isinstance(way[0], FixedText) or text.startswith(way[0].text, begin)
