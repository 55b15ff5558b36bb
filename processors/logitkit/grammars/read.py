"""Reads a grammar in the syntax that the caller names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from logitkit.errors import ConfigurationError
from logitkit.grammars.gbnf import read_gbnf
from logitkit.grammars.lark import LarkLexer, read_lark
from logitkit.grammars.named import NamedGrammar
from logitkit.grammars.rule_set import RuleSet
from logitkit.limits import Limits

__all__ = ["GrammarSyntax", "LarkLexer", "read_grammar"]

GrammarSyntax = Literal["gbnf", "lark"]


def read_grammar(
    text: str,
    syntax: GrammarSyntax,
    start: str | None,
    lexer: LarkLexer | None,
    limits: Limits,
    named: Sequence[NamedGrammar] = (),
) -> RuleSet:
    """Read a grammar.

    Args:
        text: The grammar.
        syntax: Its syntax.
        start: The rule of the whole text. None: `root` in GBNF, `start` in Lark.
        lexer: How terminals of Lark split a text. None: the default of `read_lark`.
        limits: Bounds on the work of reading.
        named: The grammars that one in Lark's syntax may refer to.

    Raises:
        ConfigurationError: An argument is not allowed.
        GrammarError: The grammar is not valid; the message shows where.
        PatternTooLarge: A limit is exceeded.

    Example:
        >>> from logitkit.limits import DEFAULT_LIMITS
        >>> read_grammar('root ::= "a"', "gbnf", None, None, DEFAULT_LIMITS).rules[0].name
        'root'
    """
    for name, given in (("text", text), ("start", "" if start is None else start)):
        if not isinstance(given, str):
            raise ConfigurationError(f"{name} is of type {type(given).__name__}; give a str")
    if syntax not in ("gbnf", "lark"):
        raise ConfigurationError(f"syntax is {syntax!r}; allowed are 'gbnf' and 'lark'")
    if lexer not in (None, *get_args(LarkLexer)):
        raise ConfigurationError(f"lexer is {lexer!r}; allowed are 'longest', 'contextual' and 'dynamic'")
    if syntax == "lark":
        return read_lark(text, start, lexer, limits, named)
    if lexer is not None:
        raise ConfigurationError(f"lexer is {lexer!r}, but only syntax='lark' has a lexer; leave it out")
    if named:
        raise ConfigurationError(
            "grammars are given by name, but only syntax='lark' refers to some; leave grammars out"
        )
    return read_gbnf(text, start, limits)
