"""Parse a pattern and keep where each of its parts stands; the parser itself keeps no places, because compiling needs none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from logitkit.patterns.charset import CharSet
from logitkit.patterns.groups import read_quantifier
from logitkit.patterns.parser import Parser
from logitkit.patterns.syntax import Anchor, Characters, Look

__all__ = ["PlacedCharacters", "parse_with_spans"]


@dataclass(frozen=True, slots=True)
class PlacedCharacters:
    """One character of a set, and the span of the pattern that describes it, with its quantifier.

    It is not `Characters`, because parts of that class are merged.
    """

    charset: CharSet
    span: tuple[int, int]


def parse_with_spans(pattern: str) -> tuple[Any, list[tuple[int, int]]]:
    """Return the syntax tree with `PlacedCharacters` in place of `Characters`, and the spans of anchors and lookarounds.

    Raises:
        PatternSyntaxError: The pattern is not valid, or not regular.

    Example:
        >>> tree, assertions = parse_with_spans("(?!0)[0-9]{2}$")
        >>> tree.parts[1].node.span, assertions
        ((5, 13), [(0, 5), (13, 14)])
    """
    parser = _SpanParser(pattern)
    return parser.run(), parser.assertions


class _SpanParser(Parser):
    def __init__(self, pattern: str) -> None:
        super().__init__(pattern)
        self.assertions: list[tuple[int, int]] = []

    def _read_syntax(self) -> None:
        begin, parts = self.at, self.group.parts
        before = len(parts)
        super()._read_syntax()
        if len(self.group.parts) <= (before if self.group.parts is parts else 0):
            return
        added: Any = self.group.parts[-1]
        if isinstance(added, Characters):
            self._place(begin)
        elif isinstance(added, Anchor | Look):
            self.assertions.append((added.position, self.at))

    def _read_plain(self) -> None:
        before = len(self.group.parts)
        super()._read_plain()
        for back in range(1, len(self.group.parts) - before + 1):
            self._place(self.at - back, back)

    def _place(self, begin: int, back: int = 1) -> None:
        parts: list[Any] = self.group.parts
        end = self.at if back == 1 else begin + 1
        parts[-back] = PlacedCharacters(parts[-back].charset, (begin, end))

    def _read_quantifier(self) -> None:
        parts: list[Any] = self.group.parts
        quantifier = read_quantifier(self.pattern, self.at)
        if quantifier is not None and self.group.last == "item" and _ends_at(parts[-1], self.at):
            parts[-1] = PlacedCharacters(parts[-1].charset, (parts[-1].span[0], quantifier.after))
        super()._read_quantifier()


def _ends_at(part: Any, at: int) -> bool:
    """Whether a part is a character that ends here, and not a group around one."""
    return isinstance(part, PlacedCharacters) and part.span[1] == at
