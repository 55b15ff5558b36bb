"""Which parts of a pattern may come next after a text."""

from __future__ import annotations

from typing import Any

from logitkit.compiler.characters.positions import EMPTY, Part, PositionBuilder
from logitkit.errors import LogitkitError
from logitkit.explaining.byte_language import automaton, is_legal
from logitkit.explaining.findings import Source
from logitkit.languages.texts import RegexText
from logitkit.limits import Limits
from logitkit.patterns.charset import CharSet
from logitkit.patterns.spans import PlacedCharacters, parse_with_spans
from logitkit.patterns.syntax import Alternate, Anchor, Atomic, Characters, Look

__all__ = ["assertion_sources", "pattern_sources"]

# With more counted copies, a counted part is taken for one that repeats without limit.
LIMITS = Limits(work=200_000)


def pattern_sources(pattern: str, written: str, expected: CharSet) -> tuple[Source, ...]:
    """Return the parts of a pattern of which one may come next, from left to right.

    Lookarounds, anchors and atomic groups are left out of account, but `expected` takes account of them.

    Args:
        pattern: The pattern.
        written: The beginning of a text that matches.
        expected: The characters that may come next.
    """
    spans, following, charsets = _positions(pattern, written)
    found = {spans[place] for place in following if charsets[place] & expected}
    return tuple(_source(pattern, span) for span in sorted(found))


def assertion_sources(pattern: str, written: str, refused: str) -> tuple[Source, ...]:
    """Return the lookarounds and anchors that refuse a character, or the end, which the rest of the pattern allows.

    Args:
        pattern: The pattern.
        written: The beginning of a text that matches.
        refused: The character that was refused after it; "": the end.
    """
    _, following, charsets = _positions(pattern, written)
    if refused and not any(ord(refused) in charsets[place] for place in following):
        return ()
    _, assertions = parse_with_spans(pattern)
    alone = [span for span in assertions if _is_legal(_without(pattern, span), written + refused, not refused)]
    return tuple(_source(pattern, span) for span in alone or (assertions if refused else ()))


def _positions(pattern: str, written: str) -> tuple[list[tuple[int, int]], set[int], list[CharSet]]:
    """Return the span and the characters of each position of a pattern, and those that may follow a text."""
    tree, _ = parse_with_spans(pattern)
    builder = _SpanBuilder(LIMITS)
    try:
        whole = builder.part(tree)
    except LogitkitError:
        builder = _SpanBuilder(Limits(), uncounted=True)
        whole = builder.part(tree)
    following = set(whole.first)
    for character in map(ord, written):
        read = [place for place in following if character in builder.charsets[place]]
        following = {after for place in read for chunk in builder.follow[place] for after in chunk}
    return builder.spans, following, builder.charsets


def _source(pattern: str, span: tuple[int, int]) -> Source:
    return Source("pattern", pattern[slice(*span)], span=span, definition=pattern)


def _is_legal(pattern: str, text: str, complete: bool) -> bool:
    dfa = automaton(RegexText(pattern))
    return dfa is not None and is_legal(dfa, text.encode(), complete)


def _without(pattern: str, span: tuple[int, int]) -> str:
    return f"{pattern[: span[0]]}(?:){pattern[span[1] :]}"


class _SpanBuilder(PositionBuilder):
    def __init__(self, limits: Limits, uncounted: bool = False) -> None:
        super().__init__(limits)
        self.uncounted = uncounted
        self.spans: list[tuple[int, int]] = []

    def part(self, tree: Any) -> Part:
        match tree:
            case PlacedCharacters(charset, span):
                self.spans.append(span)
                return super().part(Characters(charset))
            case Look() | Anchor():
                return EMPTY
            case Atomic(node):
                return self.part(node)
            case Alternate(options):
                # Not factored, since parts with different spans are not equal.
                return self.alternate(list(options))
        return super().part(tree)

    def repeat(self, node: Any, minimum: int, maximum: int | None) -> Part:
        if self.uncounted and (minimum > 1 or (maximum or 0) > 1):
            minimum, maximum = min(minimum, 1), None
        return super().repeat(node, minimum, maximum)
