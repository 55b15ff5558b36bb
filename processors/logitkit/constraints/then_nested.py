"""ThenNested: one constraint up to a marker, and after it one that nests without bound."""

from __future__ import annotations

from dataclasses import dataclass, field

from logitkit.compiler.bytes.byte_dfa import ByteDfa
from logitkit.compiler.bytes.concatenation import anything, until_marker
from logitkit.compiler.bytes.nested_concatenation import behind, only_the_empty_text
from logitkit.compiler.bytes.nested_dfa import NestedDfa
from logitkit.compiler.tokens.before_marker import before_text, before_token
from logitkit.compiler.tokens.compile import token_automaton
from logitkit.compiler.tokens.pushdown_compile import pushdown_automaton
from logitkit.compiler.tokens.pushdown_concatenation import then_pushdown
from logitkit.compiler.tokens.remainder_walk import tokens_of_bytes
from logitkit.compiler.tokens.token_automaton import TokenAutomaton
from logitkit.compiler.tokens.token_concatenation import until_token
from logitkit.constraints.texts import as_bytes
from logitkit.errors import ConfigurationError
from logitkit.limits import DEFAULT_LIMITS, Limits
from logitkit.runtime.constraint import Constraint
from logitkit.runtime.shared import shared_by
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
        name = f"the text around the marker {self.marker!r}"
        second, limits = self.second.automaton, self.limits
        bytes_of = None
        if isinstance(self.marker, int):
            first = part_automaton(self.first, self.vocabulary)
            # How many tokens are needed is worked out from what each state lists.
            before = before_token(first, self.marker, limits, falls_back=second.nesting.cost is None)
            if before is None:
                raise ConfigurationError(f"the tokens of the vocabulary spell no text that {name} matches")
        else:
            bytes_of = tokens_of_bytes(self.vocabulary.trie, self.marker_ids)
            if bytes_of is None:
                # Without a token for each byte, the rest of a token after the marker has to be followed through both parts.
                depth = max(second.nesting.brackets, 1)
                closing = bool(self.closing)
                return pushdown_automaton(
                    self.nested_dfa(), self.vocabulary, limits, name, max_depth=depth, closing=closing
                )
            letter = next(iter(self.vocabulary.special_names.letters(self.marker)), None)
            before = before_text(part_dfa(self.first), as_bytes(self.marker), letter, self.vocabulary, limits)
        return then_pushdown(before, second, limits, bytes_of)

    @property
    def flat_automaton(self) -> TokenAutomaton:
        """The automaton without a stack, if the second part nests to a limited depth."""
        if not self.automaton.has_stacks:
            return self.automaton
        parts = (part and part.automaton.content_key for part in (self.first, self.second))
        key = (ThenNested, "flat", *parts, self.marker, self.limits)
        parts_of = self.first, self.second, self.marker, self.vocabulary, self.limits
        return shared_by(self.vocabulary).automaton(key, lambda: finite_automaton(*parts_of), self.limits)

    @property
    def marker_ids(self) -> tuple[int, ...]:
        """The token ids that are markers of this constraint or of those after it."""
        behind = self.second.marker_ids if isinstance(self.second, ThenNested) else ()
        return (self.marker, *behind) if isinstance(self.marker, int) else behind


def finite_automaton(
    first: Constraint | None,
    second: Constraint | None,
    marker: str | bytes | int,
    vocabulary: Vocabulary,
    limits: Limits,
) -> TokenAutomaton:
    """Compile two finite constraints with a marker between them.

    Raises:
        ConfigurationError: No sequence of tokens satisfies them.
        PatternTooLarge: A limit is exceeded.
    """
    if not isinstance(marker, int):
        dfa = text_with_marker(first, marker, part_dfa(second), vocabulary, limits)
        return token_automaton(dfa, vocabulary, limits, f"the text around the marker {marker!r}")
    before, after = (part_automaton(part, vocabulary) for part in (first, second))
    made = until_token(before, marker, after, limits)
    if made is None:
        raise ConfigurationError(f"no sequence of tokens satisfies the constraints around the marker {marker!r}")
    return made


def part_automaton(part: Constraint | None, vocabulary: Vocabulary) -> TokenAutomaton:
    """Return the finite automaton over tokens of a constraint; None allows anything."""
    if part is not None:
        return part.flat_automaton
    return shared_by(vocabulary).automaton(
        (anything,), lambda: token_automaton(anything(), vocabulary, DEFAULT_LIMITS, "anything")
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
