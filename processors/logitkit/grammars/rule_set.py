"""The rules of a grammar with what the author wrote: names and places in the text."""

from __future__ import annotations

from dataclasses import dataclass

from logitkit.patterns.syntax import Node

__all__ = ["GrammarRule", "RuleSet"]


@dataclass(frozen=True, slots=True)
class GrammarRule:
    """One rule.

    Args:
        name: Its name as written; a rule that the reader added has the name of the rule that it belongs to.
        body: Its tree; `Call(i)` calls rule `i` of the same set. See `logitkit.compiler.grammars.rules.Rules`.
        begin: Where its definition begins in the text, in characters.
        end: Where it ends.
        is_terminal: Whether it is a terminal of a lexer, rather than a rule.
    """

    name: str
    body: Node
    begin: int
    end: int
    is_terminal: bool = False


@dataclass(frozen=True, slots=True)
class RuleSet:
    """A grammar that has been read. It has not seen a vocabulary.

    Args:
        rules: The rules.
        start: The rule of the whole text.
        tokens: The special tokens that the symbol `Symbol.special_token(i)` of a tree stands for, by name or id.
        warnings: Doubts about the rules, such as those that are not used, in sentences.
    """

    rules: tuple[GrammarRule, ...]
    start: int
    tokens: tuple[str | int, ...] = ()
    warnings: tuple[str, ...] = ()
