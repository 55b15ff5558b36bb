"""The text is one of a list."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from logitkit.automata.compile import token_automaton
from logitkit.automata.limits import DEFAULT_LIMITS, Limits, check_limits
from logitkit.automata.shared import shared_by
from logitkit.automata.token_automaton import TokenAutomaton
from logitkit.automata.word_list import word_list_dfa
from logitkit.constraints.constraint import AutomatonConstraint, check_has_eos
from logitkit.errors import ConfigurationError
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
        if isinstance(self.options, str | bytes):
            raise ConfigurationError(f"options is the single text {self.options!r}; give a list of texts")
        if not isinstance(self.options, Iterable):
            raise ConfigurationError(f"options is {self.options!r}; give a list of texts")
        object.__setattr__(self, "options", tuple(self.options))
        if not self.options:
            raise ConfigurationError("options is empty; give at least one text")
        texts = tuple(dict.fromkeys(_encode(i, option) for i, option in enumerate(self.options)))

        def compile_() -> TokenAutomaton:
            return token_automaton(word_list_dfa(texts, self.limits), self.vocabulary, self.limits, "the choice")

        automaton = shared_by(self.vocabulary).automaton((Choice, texts, self.limits), compile_)
        object.__setattr__(self, "automaton", automaton)


def _encode(index: int, option: object) -> bytes:
    if isinstance(option, bytes):
        return option
    if not isinstance(option, str):
        raise ConfigurationError(
            f"options[{index}] is {option!r} of type {type(option).__name__}; allowed are str and bytes"
        )
    try:
        return option.encode()
    except UnicodeEncodeError as error:
        raise ConfigurationError(
            f"options[{index}] has a lone surrogate at position {error.start}, which no text in UTF-8 can hold"
        ) from None
