r"""Grammars inside of a grammar: `%lark {...}` in a rule.

A nested grammar has names, terminals and ignored texts of its own, and its text is one value of the rule that it stands in:

    start: item %lark {
        start: item
        item: "b"
    } item
    item: "a"

has the text `aba`. The terminals of the two grammars do not compete.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from logitkit.compiler.grammars.rules import deriving
from logitkit.compiler.nested_grammars.nested_grammar import renumbered
from logitkit.errors import GrammarError
from logitkit.grammars.lark.draft import Draft
from logitkit.grammars.rule_set import GrammarRule, RuleSet
from logitkit.limits import Limits
from logitkit.patterns.syntax import Empty

__all__ = ["NestedGrammars"]


class NestedGrammars:
    """The nested grammars of a draft, which are read when they are needed.

    Args:
        draft: The definitions.
        read: Reads the text of a grammar.
        limits: Bounds on the work.
    """

    def __init__(self, draft: Draft, read: Callable[[str], RuleSet], limits: Limits) -> None:
        self.draft, self.limits = draft, limits
        self._read = read
        self._known: dict[int, RuleSet] = {}

    def rule_set(self, number: int) -> RuleSet:
        """Return the rules of the nested grammar that a definition is.

        Raises:
            GrammarError: It cannot be read; the place is that in the outer grammar.
            PatternTooLarge: A limit is exceeded.
        """
        if number not in self._known:
            try:
                self._known[number] = self._read(self.draft.definitions[number].name)
            except GrammarError as error:
                at = self._begin(number) + error.position if error.position is not None else self._at(number)
                raise GrammarError(f"in this nested grammar: {error.reason}", self.draft.grammar, at) from None
        return self._known[number]

    def may_be_empty(self, number: int) -> bool:
        """Whether a nested grammar has the empty text."""
        rules = self.rule_set(number)
        bodies = [rule.body for rule in rules.rules]
        return deriving(bodies, lambda leaf: isinstance(leaf, Empty), self.limits)[rules.start]

    def rules(self, number: int, first: int, special_tokens: list[int]) -> list[GrammarRule]:
        """Return the rules of a nested grammar as rules of the outer one.

        Args:
            number: The definition that it is.
            first: The number of the first of these rules.
            special_tokens: The number of each of its special tokens in the outer grammar.
        """
        found, offset = self.rule_set(number), self._begin(number)
        calls = range(first, first + len(found.rules))
        return [
            replace(
                rule,
                body=renumbered(rule.body, calls, (), special_tokens),
                begin=rule.begin + offset,
                end=rule.end + offset,
            )
            for rule in found.rules
        ]

    def _at(self, number: int) -> int:
        """Return where `%lark` stands."""
        return self.draft.definitions[number].begin

    def _begin(self, number: int) -> int:
        """Return where the text of a nested grammar begins."""
        return self.draft.grammar.index("{", self._at(number)) + 1
