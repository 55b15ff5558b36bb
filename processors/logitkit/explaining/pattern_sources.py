"""Which parts of a pattern may come next after a text, as an automaton over bytes reads it."""

from __future__ import annotations

from functools import lru_cache

from logitkit.compiler.bytes.nested_dfa import NestedDfa
from logitkit.errors import LogitkitError
from logitkit.explaining.findings import Source
from logitkit.explaining.rule_sources import RuleParser
from logitkit.languages.language import Language
from logitkit.languages.texts import RegexText
from logitkit.patterns.charset import CharSet
from logitkit.patterns.spans import parse_with_spans
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["assertion_sources", "automaton", "is_legal", "pattern_sources"]


def is_legal(language: Language, text: bytes, complete: bool) -> bool | None:
    """Whether a text belongs to a language, or, if it is not complete, is the beginning of a text that does.

    None: the language cannot be compiled alone.
    """
    dfa = automaton(language)
    found = [] if dfa is None else [*dfa.endings(text)]
    return None if dfa is None else len(found) == len(text) + 1 and (found[-1] or not complete)


@lru_cache(maxsize=256)
def automaton(language: Language) -> NestedDfa | None:
    """Return the automaton over bytes of a language; None if it cannot be compiled."""
    every_byte = Vocabulary([*(bytes([byte]) for byte in range(256)), None], eos_ids=[256])
    try:
        return language.constraint(every_byte).nested_dfa()
    except LogitkitError:
        return None


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
