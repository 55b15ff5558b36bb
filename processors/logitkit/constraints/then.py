"""Then: one constraint up to a marker, another one after it."""

from __future__ import annotations

from dataclasses import dataclass, field

from logitkit.compiler.bytes.byte_dfa import ByteDfa
from logitkit.compiler.bytes.concatenation import anything, until_marker
from logitkit.compiler.bytes.nested_concatenation import concatenate_nested, only_the_empty_text
from logitkit.compiler.bytes.nested_dfa import NestedDfa, check_counts_nothing
from logitkit.compiler.tokens.compile import pushdown_automaton, token_automaton
from logitkit.compiler.tokens.linking.token_concatenation import concatenated, until_token
from logitkit.compiler.tokens.markers.before_marker import before_text
from logitkit.compiler.tokens.markers.suffix_walk import tokens_of_bytes
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.constraints.forced_prefix import check_part
from logitkit.constraints.texts import as_bytes
from logitkit.errors import ConfigurationError
from logitkit.limits import DEFAULT_LIMITS, Limits
from logitkit.parameters import Either, Nested, Null, Text, TokenId
from logitkit.protocol.kind import Kind
from logitkit.runtime.constraint import Constraint
from logitkit.runtime.shared import shared_by
from logitkit.vocabulary.marker import as_marker, check_goes_on
from logitkit.vocabulary.text_with_names import TextWithNames
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["Then", "then"]


SECTION = Either((Nested(), Null()))


def then(
    first: Constraint | None,
    second: Constraint | None,
    marker: str | bytes | int,
    *,
    limits: Limits = DEFAULT_LIMITS,
) -> Then:
    """Apply one constraint up to a marker, such as `</think>`, and another one after it.

    The first occurrence of the marker counts. It may begin and end inside tokens. EOS is not allowed before the marker, so every
    finished text has an answer.

    Args:
        first: The constraint on the whole text before the marker. None: anything, including ids without text.
        second: The constraint on the text after the marker. None: anything, including EOS and ids without text.
        marker: Text (str, encoded as UTF-8, or bytes), or a token id. The name of a special token, such as `</think>`, means that
            token, and also the name spelled in ordinary tokens; other text may stand around it. A token id means that token only.
        limits: Bounds on the cost of compiling.

    Returns:
        A constraint.

    Raises:
        ConfigurationError: Both constraints are None; one is not a constraint, or not one over text although the marker is text;
            their vocabularies differ; the marker is empty, is or contains EOS, is neither text nor a token id, or contains more
            than eight names of special tokens; no text satisfies them; or no text fits in the `closing` of the second.
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
    return Then(first, second, marker, limits=limits)


@dataclass(frozen=True)
class Then(Constraint):
    """Two constraints with a marker between them; create it with `then`.

    The `closing` of the second one applies to the whole text.
    """

    kind = Kind("then", {"first": SECTION, "second": SECTION, "marker": Either((TokenId(), Text()))}, order=110)

    first: Constraint | None
    second: Constraint | None
    marker: str | bytes | int
    limits: Limits = field(default=DEFAULT_LIMITS, kw_only=True)
    vocabulary: Vocabulary = field(init=False, repr=False)
    closing: bool | int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        given = [(name, part) for name, part in (("first", self.first), ("second", self.second)) if part is not None]
        if not given:
            raise ConfigurationError(
                "first and second are both None, which constrains nothing; give at least one of them"
            )
        for name, part in given:
            check_part(name, part, last=name == "second")
            check_part(name, part, given[0][1].vocabulary, last=name == "second")
        object.__setattr__(self, "vocabulary", given[0][1].vocabulary)
        object.__setattr__(self, "closing", False if self.second is None else self.second.closing)
        object.__setattr__(self, "marker", checked_marker(self.marker, self.vocabulary))
        self._compile_once(Then, self.first, self.second, self.marker)
        if self.closing:
            self._check_closing(self.closing, f"both constraints with the marker {self.marker!r}")

    def nested_dfa(self) -> NestedDfa:
        """Return the automaton over bytes.

        Raises:
            ConfigurationError: The marker is a token id.
        """
        until = self._until(only_the_empty_text())
        second = NestedDfa.of(anything()) if self.second is None else self.second.nested_dfa()
        check_counts_nothing(second)
        return concatenate_nested(until, second, self.limits)

    def _until(self, second: ByteDfa) -> ByteDfa:
        """Return the automaton over bytes of the first part, the marker, and the text of another automaton."""
        if isinstance(self.marker, int):
            raise ConfigurationError(
                f"the marker is the token id {self.marker}, so this is not a constraint over text alone; give a text as marker"
            )
        return until_marker(_bytes_of(self.first), self._named, second, self.limits)

    @property
    def _named(self) -> TextWithNames:
        """The marker, with the names in it."""
        assert not isinstance(self.marker, int)
        return self.vocabulary.special_names.named(as_bytes(self.marker))

    @property
    def _name(self) -> str:
        return f"the text around the marker {self.marker!r}"

    def own_ids(self) -> tuple[int, ...]:
        """Return the token ids that mean themselves in this constraint, not their text: markers."""
        inside = [token for part in (self.first, self.second) if part is not None for token in part.own_ids()]
        return (self.marker, *inside) if isinstance(self.marker, int) else (*inside,)

    def _compile(self) -> TokenAutomaton:
        if self.second is None or not self.second.automaton.has_stacks:
            return self._finite()
        second, limits = self.second.automaton, self.limits
        if isinstance(self.marker, int):
            return self._until_token(self.marker, second)
        bytes_of = tokens_of_bytes(self.vocabulary.trie, self.own_ids())
        if bytes_of is None:
            # Without a token for each byte, the rest of a token after the marker has to be followed through both parts.
            depth, closing = max(second.nesting.brackets, 1), bool(self.closing)
            whole = self.nested_dfa()
            return pushdown_automaton(
                whole, self.vocabulary, limits, self._name, max_depth=depth, complete_within=closing
            )
        before = before_text(_bytes_of(self.first), self._named, self.vocabulary, limits)
        return concatenated(before, second, limits, bytes_of)

    @property
    def flat_automaton(self) -> TokenAutomaton:
        """The automaton without a stack, if the second part nests to a limited depth."""
        is_finite = self.second is None or self.second.has_finite_automaton
        if not self.automaton.has_stacks or not is_finite:
            return self.automaton
        parts = (part and part.automaton.content_key for part in (self.first, self.second))
        key = (Then, "flat", *parts, self.marker, self.limits)
        return shared_by(self.vocabulary).automaton(key, self._finite, self.limits)

    def _finite(self) -> TokenAutomaton:
        """Compile two finite parts with the marker between them."""
        if not isinstance(self.marker, int):
            return token_automaton(self._until(_bytes_of(self.second)), self.vocabulary, self.limits, self._name)
        return self._until_token(self.marker, self._tokens_of(self.second))

    def _until_token(self, marker: int, second: TokenAutomaton) -> TokenAutomaton:
        made = until_token(self._tokens_of(self.first), marker, second, self.limits)
        if made is None:
            raise ConfigurationError(
                f"no sequence of tokens satisfies the constraints around the marker {self.marker!r}"
            )
        return made

    def _tokens_of(self, part: Constraint | None) -> TokenAutomaton:
        """Return the finite automaton over tokens of a part."""
        if part is not None:
            return part.flat_automaton
        shared = shared_by(self.vocabulary)
        return shared.automaton(
            (anything,), lambda: token_automaton(anything(), self.vocabulary, DEFAULT_LIMITS, "anything")
        )


def _bytes_of(part: Constraint | None) -> ByteDfa:
    """Return the automaton over bytes of a part; None allows anything."""
    return anything() if part is None else part.byte_dfa()


def checked_marker(marker: object, vocabulary: Vocabulary) -> str | bytes | int:
    """Return a marker as a text or a token id.

    Raises:
        ConfigurationError: The marker is empty, contains too many names of special tokens, is or contains EOS, or is neither a
            text nor a token id.
    """
    found = as_marker("marker", marker, vocabulary)
    check_goes_on("marker", found, vocabulary, "the text")
    return marker if isinstance(marker, str) else found
