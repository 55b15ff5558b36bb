"""One section until a marker, another behind it."""

from __future__ import annotations

from dataclasses import dataclass, field

from logitkit.automata.byte_dfa import ByteDfa
from logitkit.automata.compile import token_automaton
from logitkit.automata.concatenation import anything, until_marker
from logitkit.automata.limits import DEFAULT_LIMITS, Limits, check_limits
from logitkit.automata.shared import shared_by
from logitkit.automata.token_automaton import TokenAutomaton
from logitkit.automata.token_concatenation import until_token
from logitkit.constraints.constraint import AutomatonConstraint
from logitkit.constraints.forced_prefix import check_part
from logitkit.constraints.pushdown_constraint import PushdownConstraint
from logitkit.constraints.texts import as_bytes, check_text
from logitkit.constraints.then_nested import ThenNested
from logitkit.errors import ConfigurationError
from logitkit.integers import as_integer
from logitkit.vocabulary import Vocabulary

__all__ = ["Then", "then"]


@dataclass(frozen=True)
class Then(AutomatonConstraint):
    """Two sections with a marker between them; make it with `then`."""

    first: AutomatonConstraint | PushdownConstraint | None
    second: AutomatonConstraint | PushdownConstraint | None
    marker: str | bytes | int
    limits: Limits = field(default=DEFAULT_LIMITS, kw_only=True)
    vocabulary: Vocabulary = field(init=False, repr=False)
    automaton: TokenAutomaton = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_limits(self.limits)
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
        parts = (None if p is None else p.automaton.content_key for p in (self.first, self.second))
        key = (Then, *parts, self.marker, self.limits)
        object.__setattr__(self, "automaton", shared_by(self.vocabulary).automaton(key, self._compile))

    def byte_dfa(self) -> ByteDfa:
        """Return the automaton over bytes.

        Raises:
            ConfigurationError: The marker is a token id.
        """
        if isinstance(self.marker, int):
            raise ConfigurationError(
                f"the marker is the token id {self.marker}, so this is no constraint over text alone; give a marker of text"
            )
        first, second = (anything() if p is None else p.byte_dfa() for p in (self.first, self.second))
        return until_marker(first, as_bytes(self.marker), second, self.limits)

    def _compile(self) -> TokenAutomaton:
        name = f"what stands around the marker {self.marker!r}"
        if not isinstance(self.marker, int):
            return token_automaton(self.byte_dfa(), self.vocabulary, self.limits, name)
        first, second = (self._of_tokens(part) for part in (self.first, self.second))
        both = until_token(first, self.marker, second, self.limits)
        if both is None:
            raise ConfigurationError(f"no sequence of tokens is {name}")
        return both

    def _of_tokens(self, part: AutomatonConstraint | PushdownConstraint | None) -> TokenAutomaton:
        if part is not None:
            return part.automaton
        return token_automaton(anything(), self.vocabulary, self.limits, "anything")


def checked_marker(marker: object, vocabulary: Vocabulary) -> str | bytes | int:
    """Return what a marker stands for.

    Raises:
        ConfigurationError: It is empty, or neither a text nor a token id behind which something can come.
    """
    if isinstance(marker, str | bytes):
        check_text("marker", marker)
        if not marker:
            raise ConfigurationError("marker is empty, so nothing would divide the text; give a text or a token id")
        return marker
    token = as_integer(marker)
    if token is None:
        raise ConfigurationError(f"marker is {marker!r}; allowed are str, bytes and token ids")
    if not 0 <= token < vocabulary.size:
        raise ConfigurationError(f"marker is {token}; allowed are token ids from 0 to {vocabulary.size - 1}")
    if token in vocabulary.eos_ids:
        raise ConfigurationError(
            f"marker is the EOS id {token}, behind which nothing can come; give another id, or a text"
        )
    return token


def then(
    first: AutomatonConstraint | PushdownConstraint | None,
    second: AutomatonConstraint | PushdownConstraint | None,
    marker: str | bytes | int,
    *,
    limits: Limits = DEFAULT_LIMITS,
) -> Then | ThenNested:
    """Hold the text to one constraint until a marker, and to another from there on.

    The marker is where it occurs first. It may begin and end inside tokens. EOS is illegal before it: text without an answer must
    not pass for one.

    Args:
        first: What comes before the marker, as a whole. None: anything, ids without text included.
        second: What comes behind the marker. None: anything, EOS and ids without text included.
        marker: A text (str, written in UTF-8, or bytes), or the id of a token. Where a tokenizer has a special token, such as
            `</think>`, give its id: it has no text.
        limits: Bounds on what compiling may cost.

    Returns:
        A constraint.

    Raises:
        ConfigurationError: Both sections are None, one is no constraint (with a marker of text: over text) or has another
            vocabulary, the marker is empty or no text or id, or no text is left.
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
    if isinstance(second, PushdownConstraint) and not second.is_finite:
        if first is not None:
            check_part("first", first, second.vocabulary)
        return ThenNested(first, second, checked_marker(marker, second.vocabulary), limits=limits)
    return Then(first, second, marker, limits=limits)
