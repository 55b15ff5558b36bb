"""Which parts of a pattern may come next after a text."""

from __future__ import annotations

from logitkit.explaining.byte_language import is_legal
from logitkit.explaining.findings import Source
from logitkit.explaining.rule_parser import RuleParser
from logitkit.languages.texts import RegexText
from logitkit.patterns.charset import CharSet
from logitkit.patterns.spans import parse_with_spans

__all__ = ["assertion_sources", "pattern_sources"]


def pattern_sources(pattern: str, written: str, expected: CharSet) -> tuple[Source, ...]:
    """Return the parts of a pattern of which one may come next, from left to right.

    Lookarounds, anchors and atomic groups are left out of account, but `expected` takes account of them.

    Args:
        pattern: The pattern.
        written: The beginning of a text that matches.
        expected: The characters that may come next.
    """
    found = {span for span, charset in _waiting(pattern, written) if charset & expected}
    return tuple(_source(pattern, span) for span in sorted(found))


def assertion_sources(pattern: str, written: str, refused: str) -> tuple[Source, ...]:
    """Return the lookarounds and anchors that refuse a character, or the end, which the rest of the pattern allows.

    Args:
        pattern: The pattern.
        written: The beginning of a text that matches.
        refused: The character that was refused after it; "": the end.
    """
    if refused and not any(ord(refused) in charset for _, charset in _waiting(pattern, written)):
        return ()
    _, assertions = parse_with_spans(pattern)
    text = (written + refused).encode()
    alone = [span for span in assertions if is_legal(RegexText(_without(pattern, span)), text, not refused)]
    return tuple(_source(pattern, span) for span in alone or (assertions if refused else ()))


def _waiting(pattern: str, written: str) -> list[tuple[tuple[int, int], CharSet]]:
    """Return the span and the characters of each position of a pattern that may follow a text."""
    tree, _ = parse_with_spans(pattern)
    parser = RuleParser([tree], 0)
    (rule,) = parser.rules
    return [(rule.spans[position], rule.charsets[position]) for _, position, _ in parser.waiting(written)]


def _source(pattern: str, span: tuple[int, int]) -> Source:
    return Source("pattern", pattern[slice(*span)], span=span, definition=pattern)


def _without(pattern: str, span: tuple[int, int]) -> str:
    return f"{pattern[: span[0]]}(?:){pattern[span[1] :]}"
