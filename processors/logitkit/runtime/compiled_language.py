"""The base class of whatever has a compiled language: its automata, and what is compiled from them together with other text."""

from __future__ import annotations

from collections.abc import Hashable

from logitkit.compiler.bytes.byte_dfa import ByteDfa
from logitkit.compiler.bytes.nested_dfa import NestedDfa, check_counts_nothing
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.errors import ConfigurationError, VocabularyError
from logitkit.limits import Limits, check_limits
from logitkit.runtime.registry_user import RegistryUser
from logitkit.runtime.shared import shared_by
from logitkit.vocabulary.marker import check_vocabulary
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["CompiledLanguage", "check_has_eos"]


class CompiledLanguage(RegistryUser):
    """A language over tokens. Subclasses set `automaton` when they are created."""

    automaton: TokenAutomaton
    limits: Limits
    # The token limit of the output. False: none. True: as many tokens as the context allows.
    closing: bool | int = False

    @property
    def is_finite(self) -> bool:
        """Whether there is a finite automaton, which may be too large: nesting is limited, and no tokens or items are counted."""
        return self.automaton.nesting.is_flat and self.closing is False and self.automaton.remembers is None

    @property
    def has_finite_automaton(self) -> bool:
        """Whether `flat_automaton` is finite; it is compiled for that.

        Raises:
            LogitkitError: It exceeds a limit.
        """
        return self.is_finite and not self.flat_automaton.has_stacks

    @property
    def flat_automaton(self) -> TokenAutomaton:
        """The automaton without a stack, of a constraint that is finite; with one if it shares parts, so that they are called."""
        return self.automaton

    def nested_dfa(self) -> NestedDfa:
        """Compile and return the automaton over bytes, to which other text can be prepended."""
        return NestedDfa.of(self.byte_dfa())

    def byte_dfa(self) -> ByteDfa:
        """Compile and return the automaton over bytes, from which combinations with other text are compiled.

        Raises:
            ConfigurationError: The constraint is defined over token ids, nests without limit, or counts tokens.
        """
        self._check_over_text()
        dfa = self.nested_dfa()
        if dfa.frames:
            raise ConfigurationError(
                f"the texts of this {type(self).__name__} nest without limit, so nothing can follow them; put it last"
            )
        check_counts_nothing(dfa)
        return ByteDfa(
            dfa.step, dfa.byte_class, dfa.accepting, dfa.start, free=dfa.free, special_tokens=dfa.special_tokens
        )

    def own_ids(self) -> tuple[int, ...]:
        """Return the token ids that mean themselves in this constraint, not their text.

        Raises:
            ConfigurationError: The constraint is defined over token ids altogether.
        """
        self._check_over_text()
        return ()

    def _check_over_text(self) -> None:
        kind = type(self)
        if kind.byte_dfa is CompiledLanguage.byte_dfa and kind.nested_dfa is CompiledLanguage.nested_dfa:
            raise ConfigurationError(
                f"{kind.__name__} is a constraint over token ids, not over text, so it cannot follow or precede text; give "
                "one over text, such as Regex or Choice"
            )

    def _compile(self) -> TokenAutomaton:
        """Return the automaton, for `_compile_once`."""
        raise NotImplementedError

    def _compile_once(self, *key: Hashable) -> None:
        """Set `automaton`, which all constraints with an equal vocabulary and key share.

        Args:
            key: Everything that the automaton depends on besides the vocabulary and the limits. A constraint counts by the
                content of its automaton.

        Raises:
            ConfigurationError: `limits` is not a `Limits`.
            PatternTooLarge: A limit is exceeded.
            VocabularyError: The vocabulary has no EOS id.
        """
        check_has_eos(self.vocabulary)
        check_limits(self.limits)
        parts = (part.automaton.content_key if isinstance(part, CompiledLanguage) else part for part in key)
        automaton = shared_by(self.vocabulary).automaton((*parts, self.limits), self._compile, self.limits)
        object.__setattr__(self, "automaton", automaton)
        if automaton.remembers is not None:
            from logitkit.runtime.remembering.byte_steps import bind

            bind(automaton, self.vocabulary)

    def _check_closing(self, closing: bool | int, language: str, takes: str = "takes") -> None:
        """Raise `ConfigurationError` if the shortest text of the language takes more tokens than `closing` allows."""
        needed = int(self.automaton.cost[self.automaton.start])
        if closing is not True and 0 < closing < needed:
            raise ConfigurationError(
                f"closing is {closing}, but the shortest text of {language} {takes} {needed} tokens; give at least {needed}"
            )


def check_has_eos(vocabulary: Vocabulary) -> None:
    """Raise `VocabularyError` if no constrained text could end with this vocabulary."""
    check_vocabulary(vocabulary)
    if not vocabulary.eos_ids:
        raise VocabularyError("the vocabulary has no EOS id, so no constrained text could end; pass eos_ids=[...]")
