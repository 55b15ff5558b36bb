"""Random grammars in Lark's syntax against Lark: how their terminals split a text.

An accepted text must be one that the judge of the lexer reads: Lark's contextual lexer for "contextual", and for the default if
it warns of nothing; the longest match for "longest". Texts of the first two must also be texts of Lark's Earley parser, which
splits a text in any way; it tries the options of an expression in order too. Texts that only the judge reads are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import lark
from hypothesis import assume

from logitkit.grammars.lark import LarkLexer
from tests.campaigns.campaign import Campaign, drawn
from tests.grammars.lark_lexers import LexerCase, Longest, lexer_cases, parsers, reads, splitter

# The Earley parser takes long.
MOST_PARSED = 5


def check(case: LexerCase, tried: Counter[str]) -> None:
    found = parsers(case.grammar)
    assume(found is not None)
    assert found is not None
    contextual, basic = found
    longest = Longest(contextual)
    judges: dict[LarkLexer | None, Callable[[str], bool]] = {
        "contextual": lambda text: reads(contextual, text),
        "longest": longest.reads,
        None: lambda text: reads(contextual, text),
    }
    earley = lark.Lark(case.grammar, parser="earley", lexer="dynamic_complete")
    for lexer, judge in judges.items():
        accepts = splitter(case.grammar, lexer)
        if accepts is None:
            tried[f"grammars refused or warned of, lexer={lexer}"] += 1
            continue
        tried[f"grammars, lexer={lexer}"] += 1
        parsed = 0
        for text in case.texts():
            tried["texts"] += 1
            if accepts(text):
                tried["texts accepted"] += 1
                assert judge(text), f"lexer={lexer} accepts {text!r}"
                if lexer != "longest" and parsed < MOST_PARSED:
                    parsed += 1
                    assert _is_split(earley, text), f"lexer={lexer} accepts {text!r}, Earley does not"
            elif judge(text):
                both = lexer != "longest" and reads(basic, text)
                tried[f"texts missed, lexer={lexer}" + " (of both lexers of Lark)" * both] += 1


def _is_split(parser: lark.Lark, text: str) -> bool:
    try:
        return reads(parser, text)
    except RuntimeError as error:
        # A fault of Lark: it cannot judge a text that several alternatives of the start rule match at once.
        assert "multiple start symbol items" in str(error)  # noqa: PT017
        return True


CAMPAIGN = Campaign(
    "lexers",
    "random grammars in Lark's syntax whose terminals begin alike, with Lark's lexers and with the longest match",
    drawn(lexer_cases(), 40, check),
)
