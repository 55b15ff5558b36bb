"""ThenNested: one constraint up to a marker, and after it one that nests without bound."""

from __future__ import annotations

from dataclasses import dataclass, field

from logitkit.compiler.bytes.byte_dfa import ByteDfa
from logitkit.compiler.bytes.concatenation import anything, until_marker
from logitkit.compiler.bytes.nested_concatenation import behind, beside, only_the_empty_text, start_beside
from logitkit.compiler.bytes.nested_dfa import NestedDfa
from logitkit.compiler.tokens.pushdown_compile import Leap, pushdown_automaton
from logitkit.compiler.tokens.token_automaton import TokenAutomaton
from logitkit.constraints.texts import as_bytes
from logitkit.errors import ConfigurationError
from logitkit.limits import DEFAULT_LIMITS, Limits
from logitkit.runtime.constraint import Constraint
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["ThenNested"]


@dataclass(frozen=True)
class ThenNested(Constraint):
    """Two constraints with a marker between them, of which the second nests without bound; create it with `then`.

    The `closing` of the second one applies to the whole text.
    """

    first: Constraint | None
    second: Constraint
    marker: str | bytes | int
    limits: Limits = field(default=DEFAULT_LIMITS, kw_only=True)
    vocabulary: Vocabulary = field(init=False, repr=False)
    closing: bool | int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "vocabulary", self.second.vocabulary)
        object.__setattr__(self, "closing", self.second.closing)
        self._compile_once(ThenNested, self.first, self.second, self.marker)

    def nested_dfa(self) -> NestedDfa:
        """Return the automaton over bytes.

        Raises:
            ConfigurationError: The marker is a token id.
        """
        until = text_with_marker(self.first, self.marker, only_the_empty_text(), self.vocabulary, self.limits)
        return behind(until, self.second.nested_dfa(), self.limits)

    def _compile(self) -> TokenAutomaton:
        leap = None
        if isinstance(self.marker, int):
            first = part_dfa(self.first)
            second = self.second.nested_dfa()
            dfa = beside(first, second, self.limits)
            leap = Leap(self.marker, len(first.step), first.accepting, start_beside(first, second))
        else:
            dfa = self.nested_dfa()
        return pushdown_automaton(
            dfa,
            self.vocabulary,
            self.limits,
            f"the text around the marker {self.marker!r}",
            max_depth=max(self.second.automaton.nesting.brackets, 1),
            closing=bool(self.closing),
            leap=leap,
        )


def part_dfa(part: Constraint | None) -> ByteDfa:
    """Return the automaton over bytes of a constraint; None allows anything."""
    return anything() if part is None else part.byte_dfa()


def text_with_marker(
    first: Constraint | None, marker: str | bytes | int, second: ByteDfa, vocabulary: Vocabulary, limits: Limits
) -> ByteDfa:
    """Return the automaton over bytes of a constraint, a marker, and the text of another automaton.

    Raises:
        ConfigurationError: The marker is a token id.
    """
    if isinstance(marker, int):
        raise ConfigurationError(
            f"the marker is the token id {marker}, so this is not a constraint over text alone; give a text as marker"
        )
    letter = next(iter(vocabulary.special_names.letters(marker)), None)
    return until_marker(part_dfa(first), as_bytes(marker), second, limits, letter)
