"""The base class of constraints that are described in another form than a language, and compiled from one."""

from __future__ import annotations

from typing import ClassVar

from logitkit.compiler.bytes.nested_dfa import NestedDfa
from logitkit.errors import PatternTooLarge
from logitkit.languages.constraint import LanguageConstraint
from logitkit.languages.language import Language
from logitkit.limits import Limits
from logitkit.runtime.constraint import Constraint
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["DescribedByLanguage"]


class DescribedByLanguage(Constraint):
    """A constraint with a language. Subclasses set `language` when they are created, and then call `_compile_language`."""

    # The user's own value, for errors.
    described_as: ClassVar[str]

    language: Language
    vocabulary: Vocabulary
    max_depth: int
    limits: Limits

    def _compile_language(self) -> None:
        """Set `automaton`."""
        try:
            object.__setattr__(self, "automaton", self._constraint.automaton)
        except PatternTooLarge as error:
            raise PatternTooLarge(str(error).replace("the language", self.described_as)) from None

    @property
    def _constraint(self) -> LanguageConstraint:
        return self.language.constraint(
            self.vocabulary, max_depth=self.max_depth, closing=self.closing, limits=self.limits
        )

    @property
    def may_nest(self) -> bool:
        """Whether its rows can share a batch with those of constraints that nest: those of all languages can."""
        return True

    def own_ids(self) -> tuple[int, ...]:
        """Return the token ids that mean themselves in the language, not their text."""
        return self._constraint.own_ids()

    def nested_dfa(self) -> NestedDfa:
        """Compile and return the automaton over bytes."""
        return self._constraint.nested_dfa()
