"""The rules of a grammar with what the author wrote: names and places in the text."""

from __future__ import annotations

from dataclasses import dataclass, replace

from logitkit.compiler.bytes.limit_signs import is_limit
from logitkit.compiler.grammars.limited_rules import without_signs
from logitkit.patterns.syntax import Node

__all__ = ["GrammarRule", "RuleMarker", "RuleSet"]


@dataclass(frozen=True, slots=True, eq=False)
class RuleMarker:
    """The marker that ends a terminal, as `suffix="..."` and `stop="..."` say.

    Args:
        body: The tree of the text before the marker.
        max_chars: The largest number of characters of this text.
        end: The tree of the marker.
        name: The name under which the marker is captured.
        is_hidden: Whether no capture shows the marker. Otherwise, only that of its own rule does not.
    """

    body: Node
    max_chars: int | None
    end: Node
    name: str | None
    is_hidden: bool


@dataclass(frozen=True, slots=True)
class GrammarRule:
    """One rule.

    Args:
        name: Its name as written; a rule that the reader added has the name of the rule that it belongs to.
        body: Its tree; `Call(i)` calls rule `i` of the same set. See `logitkit.compiler.grammars.rules.Rules`.
        begin: Where its definition begins in the text, in characters.
        end: Where it ends.
        is_terminal: Whether it is a terminal of a lexer, rather than a rule.
        capture: The name under which its text is captured.
        marker: The marker at the end of a terminal.
    """

    name: str
    body: Node
    begin: int
    end: int
    is_terminal: bool = False
    capture: str | None = None
    marker: RuleMarker | None = None


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

    @property
    def limits_tokens(self) -> bool:
        """Whether a rule has a limit of tokens."""
        return any(map(is_limit, self.tokens))

    def without_limits(self) -> RuleSet:
        """Return the rules for readers of texts, which do not count tokens: a rule may end wherever its limit may end it."""
        if not self.limits_tokens:
            return self
        rules = [replace(rule, body=without_signs(rule.body, self.tokens)) for rule in self.rules]
        return replace(self, rules=tuple(rules))
