"""Random terminals that begin with lookaheads, against Python's `re`.

Every accepted text must be one of which `re` finds the terminal at the beginning. If terminals may split a text in any way, the
two agree on every text. A lexer may miss some, which are counted.
"""

from __future__ import annotations

from collections import Counter

from logitkit.grammars.lark import LarkLexer
from tests.campaigns.campaign import Campaign, drawn
from tests.grammars.lark_lexers import splitter
from tests.grammars.lookahead_cases import LookaheadCase, lookahead_cases

LEXERS: tuple[LarkLexer, ...] = ("longest", "contextual", "dynamic")


def check(case: LookaheadCase, tried: Counter[str]) -> None:
    for lexer in LEXERS:
        accepts = splitter(case.grammar, lexer)
        if accepts is None:
            tried[f"terminals refused, lexer={lexer}"] += 1
            continue
        tried[f"terminals, lexer={lexer}"] += 1
        for text in case.texts():
            tried["texts"] += 1
            if accepts(text):
                tried["texts accepted"] += 1
                assert case.reads(text, lexer), f"lexer={lexer} accepts {text!r}"
            elif case.reads(text, lexer):
                assert lexer != "dynamic", f"lexer={lexer} misses {text!r}"
                tried[f"texts missed, lexer={lexer}"] += 1


CAMPAIGN = Campaign(
    "lookaheads",
    "random terminals of Lark's syntax that begin with lookaheads, with Python's re",
    drawn(lookahead_cases(), 20, check),
)
