"""Random grammars in Lark's syntax whose rules are captured, with the preferred one of all ways to read a text, and with Lark."""

from __future__ import annotations

from collections import Counter

from logitkit.errors import GrammarError
from logitkit.grammars.captures import CapturingParser
from logitkit.grammars.lark import read_lark
from logitkit.limits import DEFAULT_LIMITS
from tests.campaigns.campaign import Campaign, drawn
from tests.grammars.capture_cases import (
    CaptureCase,
    Reading,
    Reentered,
    TooManyWays,
    best_reading,
    capture_cases,
    lark_reader,
)


def captured(parser: CapturingParser, text: str) -> list[tuple[str, list[int]]] | None:
    """Return the name and the places of each capture, or None for a text that the grammar lacks."""
    chart = parser.chart([*map(ord, text)])
    if len(text) not in chart.ends.get((parser.start, 0), ()):
        return None
    return [(name, places) for name, places in parser.captures(chart)]


def with_places(reading: list[Reading]) -> list[tuple[str, list[int]]]:
    return [(name, [*range(begin, end)]) for name, begin, end in reading]


def check(case: CaptureCase, tried: Counter[str]) -> None:
    try:
        parser = CapturingParser(read_lark(case.grammar(True), lexer="dynamic"), DEFAULT_LIMITS)
    except GrammarError as error:
        if "no finite text" not in error.reason:
            raise
        tried["grammars without a text"] += 1
        return
    tried["grammars"] += 1
    lark_reads = lark_reader(case)
    for text in case.texts:
        found = captured(parser, text)
        tried["texts"] += 1
        try:
            best, is_only_way = best_reading(case.rules, text.replace(" ", ""))
        except (Reentered, TooManyWays):
            tried["texts without a judge"] += 1
            continue
        tried["texts read"] += best is not None
        tried["texts that can be read in several ways"] += not is_only_way
        assert (found is None) == (best is None), f"{text!r} {'is' if best is not None else 'is not'} a text"
        if best is not None and " " not in text:
            assert found == with_places(best), f"{text!r} has the captures {with_places(best)}, and not {found}"
        if is_only_way and lark_reads is not None and (theirs := lark_reads(text)) is not None:
            tried["texts read by Lark"] += 1
            assert found == with_places(theirs), f"in {text!r}, Lark has {with_places(theirs)}, and not {found}"


CAMPAIGN = Campaign(
    "captures",
    "captures of random grammars in Lark's syntax, with all ways to read a text, and with Lark's LALR parser",
    drawn(capture_cases(), 60, check),
)
