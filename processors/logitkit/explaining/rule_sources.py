"""Which rules of a grammar may go on after a text."""

from __future__ import annotations

from logitkit.explaining.findings import Source
from logitkit.grammars.rule_parser import RuleParser, TooManyItems
from logitkit.grammars.rule_set import GrammarRule, RuleSet
from logitkit.patterns.charset import CharSet

__all__ = ["rule_sources"]


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
