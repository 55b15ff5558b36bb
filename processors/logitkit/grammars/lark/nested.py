r"""Grammars inside of a grammar: `%lark {...}` in a rule, or `@name` for one that is given by name.

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


MAX_NAMED = 16
"""The maximum number of grammars given by name that stand in each other."""


class NestedGrammars:
    """The nested grammars of a draft, which are read when they are needed.

    Args:
        draft: The definitions.
        read: Reads the text of a grammar, given the names of those that it is in.
        limits: Bounds on the work.
        around: The names of the grammars that the draft is in, and its own, from the outermost on.
    """

    def __init__(
        self,
        draft: Draft,
        read: Callable[[str, tuple[str, ...]], RuleSet],
        limits: Limits,
        around: tuple[str, ...] = (),
    ) -> None:
        self.draft, self.limits, self.around = draft, limits, around
        self._read = read
        self._known: dict[int, RuleSet] = {}

    def rule_set(self, number: int) -> RuleSet:
        """Return the rules of the nested grammar that a definition is.

        Raises:
            GrammarError: It cannot be read; the place is that in the outer grammar.
            PatternTooLarge: A limit is exceeded.
        """
        if number not in self._known:
            source, at = self.draft.definitions[number].source, self._at(number)
            names = self.around if source is None else (*self.around, source)
            if source in self.around or len(names) > MAX_NAMED:
                says = "contains itself" if source in self.around else f"is more than {MAX_NAMED} grammars deep"
                reason = f"the grammar {source} {says} ({' -> '.join(names)}); only rules may be recursive"
                raise GrammarError(reason, self.draft.grammar, at)
            try:
                self._known[number] = self._read(self.draft.definitions[number].name, names)
            except GrammarError as error:
                if source is not None:
                    place = f", line {error.line}, column {error.column}" if error.position is not None else ""
                    raise GrammarError(f"in {source}{place}: {error.reason}", self.draft.grammar, at) from None
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
        found, source = self.rule_set(number), self.draft.definitions[number].source
        if source is None:
            offset = self._begin(number)
            places = [(rule.begin + offset, rule.end + offset) for rule in found.rules]
        else:
            # Its rules are not in the text of the outer grammar.
            at = self._at(number)
            places = [(at, at + len(source))] * len(found.rules)
        calls = range(first, first + len(found.rules))
        return [
            replace(
                rule,
                body=renumbered(rule.body, calls, (), special_tokens),
                begin=begin,
                end=end,
            )
            for rule, (begin, end) in zip(found.rules, places, strict=True)
        ]

    def _at(self, number: int) -> int:
        """Return where `%lark` stands."""
        return self.draft.definitions[number].begin

    def _begin(self, number: int) -> int:
        """Return where the text of a nested grammar begins."""
        return self.draft.grammar.index("{", self._at(number)) + 1
