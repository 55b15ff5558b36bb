"""Which rules of a grammar may go on after a text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from logitkit.explaining.findings import Source
from logitkit.grammars.chart import Chart, Item, TooManyItems
from logitkit.grammars.rule_positions import RulePositions
from logitkit.grammars.rule_set import GrammarRule, RuleSet
from logitkit.patterns.charset import CharSet

__all__ = ["RuleParser", "rule_sources"]


class RuleParser:
    """Follows the beginnings of texts through rules.

    Args:
        bodies: The trees of the rules.
        start: The rule of the whole text.
    """

    def __init__(self, bodies: Sequence[Any], start: int) -> None:
        self.start = start
        self.rules = [RulePositions.of(body) for body in bodies]

    def waiting(self, written: str) -> Iterable[Item]:
        """Return which characters may come next after a text: a rule, a position in it, and the index at which it began.

        Raises:
            TooManyItems: The text can be read in too many ways.
        """
        return Chart(self.rules, self.start, [*map(ord, written)]).columns[-1].reads


def rule_sources(grammar: RuleSet, text: str, written: str, expected: CharSet) -> tuple[Source, ...]:
    """Return the rules of a grammar of which a character may come next, those that began last first.

    Conditions on the character after a terminal are left out of account, but `expected` takes account of them.

    Args:
        grammar: The grammar.
        text: Its text.
        written: The beginning of a text that belongs to it.
        expected: The characters that may come next; empty where only the end may.

    Example:
        >>> from logitkit.grammars.gbnf import read_gbnf
        >>> text = 'root ::= "(" digit ")"' + chr(10) + "digit ::= [0-9]"
        >>> rule_sources(read_gbnf(text), text, "(", CharSet.from_string("0123456789"))[0].text
        'digit ::= [0-9]'
    """
    parser = RuleParser([rule.body for rule in grammar.rules], grammar.start)
    begun: dict[int, int] = {}
    try:
        for rule, position, begin in parser.waiting(written):
            if parser.rules[rule].charsets[position] & expected:
                begun[rule] = max(begun.get(rule, 0), begin)
    except TooManyItems:
        return ()
    latest = sorted(begun, key=lambda rule: -begun[rule])
    return tuple(dict.fromkeys(_source(grammar.rules[rule], text) for rule in latest))


def _source(rule: GrammarRule, text: str) -> Source:
    # A long rule is shown by its first line.
    shown = text[rule.begin : rule.end].strip().partition("\n")[0].rstrip()
    begin = text.index(shown, rule.begin)
    return Source("rule", shown, span=(begin, begin + len(shown)), definition=text)
