"""The text is one of a list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from logitkit.automata.byte_dfa import ByteDfa
from logitkit.automata.compile import token_automaton
from logitkit.automata.limits import DEFAULT_LIMITS, Limits, check_limits
from logitkit.automata.shared import shared_by
from logitkit.automata.token_automaton import TokenAutomaton
from logitkit.automata.word_list import word_list_dfa
from logitkit.constraints.constraint import AutomatonConstraint, check_has_eos
from logitkit.constraints.texts import as_bytes, check_texts
from logitkit.vocabulary import Vocabulary

__all__ = ["Choice"]


@dataclass(frozen=True)
class Choice(AutomatonConstraint):
    """Allow only the given texts, in any tokenisation.

    Args:
        options: At least one text, as str (written in UTF-8) or bytes. Where one begins another, EOS decides.
        vocabulary: The tokens.
        limits: Bounds on what compiling may cost.

    Raises:
        ConfigurationError: There are no options, one is no text, `limits` are no `Limits`, or the tokens can spell none of them.
        PatternTooLarge: The automaton would exceed a limit.
        VocabularyError: The vocabulary has no EOS id.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> vocabulary = lk.Vocabulary([b"y", b"n", b"o", b"no", None], eos_ids=[4])
        >>> choice = lk.Choice(["y", "no"], vocabulary)
        >>> context = lk.Context.of([[]], vocabulary_size=5)
        >>> choice.process_logits(choice.init_state(context), torch.zeros(1, 5), context)[1]
        tensor([[0., 0., -inf, 0., -inf]])
    """

    options: Sequence[str | bytes]
    vocabulary: Vocabulary
    limits: Limits = field(default=DEFAULT_LIMITS, kw_only=True)
    automaton: TokenAutomaton = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_has_eos(self.vocabulary)
        check_limits(self.limits)
        object.__setattr__(self, "options", check_texts("options", self.options))
        automaton = shared_by(self.vocabulary).automaton((Choice, self._texts(), self.limits), self._compile)
        object.__setattr__(self, "automaton", automaton)

    def byte_dfa(self) -> ByteDfa:
        """Return the automaton over bytes."""
        return word_list_dfa(self._texts(), self.limits)

    def _texts(self) -> tuple[bytes, ...]:
        return tuple(dict.fromkeys(map(as_bytes, self.options)))

    def _compile(self) -> TokenAutomaton:
        return token_automaton(self.byte_dfa(), self.vocabulary, self.limits, "the choice")
