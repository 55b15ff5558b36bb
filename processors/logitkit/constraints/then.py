"""Then: one constraint up to a marker, another one after it."""

from __future__ import annotations

from dataclasses import dataclass, field

from logitkit.compiler.bytes.byte_dfa import ByteDfa
from logitkit.compiler.tokens.token_automaton import TokenAutomaton
from logitkit.constraints.forced_prefix import check_part
from logitkit.constraints.then_nested import ThenNested, finite_automaton, part_dfa, text_with_marker
from logitkit.errors import ConfigurationError
from logitkit.limits import DEFAULT_LIMITS, Limits
from logitkit.parameters import Either, Nested, Null, Text, TokenId
from logitkit.protocol.kind import Kind
from logitkit.runtime.constraint import Constraint
from logitkit.vocabulary.marker import as_marker, token_of
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["Then", "then"]


SECTION = Either((Nested(), Null()))


def then(
    first: Constraint | None,
    second: Constraint | None,
    marker: str | bytes | int,
    *,
    limits: Limits = DEFAULT_LIMITS,
) -> Then | ThenNested:
    """Apply one constraint up to a marker, such as `</think>`, and another one after it.

    The first occurrence of the marker counts. It may begin and end inside tokens. EOS is not allowed before the marker, so every
    finished text has an answer.

    Args:
        first: The constraint on the whole text before the marker. None: anything, including ids without text.
        second: The constraint on the text after the marker. None: anything, including EOS and ids without text.
        marker: Text (str, encoded as UTF-8, or bytes), or a token id. The name of a special token, such as `</think>`, means that
            token, and also the name spelled in ordinary tokens. A token id means that token only.
        limits: Bounds on the cost of compiling.

    Returns:
        A constraint.

    Raises:
        ConfigurationError: Both constraints are None; one is not a constraint, or not one over text although the marker is text;
            their vocabularies differ; the marker is empty, is EOS, is neither text nor a token id, or contains the name of a
            special token and other text; or no text satisfies them.
        PatternTooLarge: The automaton would exceed a limit.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> vocabulary = lk.Vocabulary([b"hm", b".", b".4", b"4", None], eos_ids=[4])
        >>> answer = lk.then(None, lk.Regex("4", vocabulary), ".")
        >>> context = lk.Context.of([[]], vocabulary_size=5)
        >>> state = answer.init_state(context)
        >>> answer.process_logits(state, torch.zeros(1, 5), context)[1]
        tensor([[0., 0., 0., 0., -inf]])
        >>> state = answer.advance(state, torch.tensor([1]))
        >>> answer.process_logits(state, torch.zeros(1, 5), context)[1]
        tensor([[-inf, -inf, -inf, 0., -inf]])
    """
    if isinstance(second, Constraint) and second.automaton.has_stacks:
        if first is not None:
            check_part("first", first, second.vocabulary)
        return ThenNested(first, second, checked_marker(marker, second.vocabulary), limits=limits)
    return Then(first, second, marker, limits=limits)


@dataclass(frozen=True)
class Then(Constraint):
    """Two constraints with a marker between them; create it with `then`."""

    kind = Kind("then", {"first": SECTION, "second": SECTION, "marker": Either((TokenId(), Text()))}, order=110)
    # A configuration whose second constraint needs a stack makes a `ThenNested`.
    configured = staticmethod(then)

    first: Constraint | None
    second: Constraint | None
    marker: str | bytes | int
    limits: Limits = field(default=DEFAULT_LIMITS, kw_only=True)
    vocabulary: Vocabulary = field(init=False, repr=False)

    def __post_init__(self) -> None:
        given = [(name, part) for name, part in (("first", self.first), ("second", self.second)) if part is not None]
        if not given:
            raise ConfigurationError(
                "first and second are both None, which constrains nothing; give at least one of them"
            )
        for name, part in given:
            check_part(name, part)
            check_part(name, part, given[0][1].vocabulary)
        object.__setattr__(self, "vocabulary", given[0][1].vocabulary)
        object.__setattr__(self, "marker", checked_marker(self.marker, self.vocabulary))
        self._compile_once(Then, self.first, self.second, self.marker)

    def byte_dfa(self) -> ByteDfa:
        """Return the automaton over bytes.

        Raises:
            ConfigurationError: The marker is a token id.
        """
        return text_with_marker(self.first, self.marker, part_dfa(self.second), self.vocabulary, self.limits)

    def _compile(self) -> TokenAutomaton:
        return finite_automaton(self.first, self.second, self.marker, self.vocabulary, self.limits)


ThenNested.kind = Then.kind


def checked_marker(marker: object, vocabulary: Vocabulary) -> str | bytes | int:
    """Return a marker as a text or a token id.

    Raises:
        ConfigurationError: The marker is empty, contains the name of a special token and other text, is EOS, or is neither a text
            nor a token id.
    """
    found = as_marker("marker", marker, vocabulary)
    token = token_of(found, vocabulary)
    if token in vocabulary.eos_ids:
        named = f"the EOS id {token}" if isinstance(found, int) else f"{marker!r}, the name of an EOS token"
        raise ConfigurationError(f"marker is {named}, which ends the text; give another marker")
    return marker if isinstance(marker, str) else found
