"""Choice: the output is one of a list of texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from logitkit.compiler.bytes.byte_dfa import ByteDfa
from logitkit.compiler.bytes.word_list import word_list_dfa
from logitkit.compiler.tokens.compile import token_automaton
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.constraints.texts import as_bytes, check_texts
from logitkit.limits import DEFAULT_LIMITS, Limits
from logitkit.parameters import ListOf, Text
from logitkit.protocol.kind import Kind
from logitkit.runtime.constraint import Constraint
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["Choice"]


@dataclass(frozen=True)
class Choice(Constraint):
    """Allow only the texts of a list, in any tokenization.

    Args:
        options: At least one text, as str (encoded as UTF-8) or bytes. If an option is the beginning of another, EOS may
            follow it.
        vocabulary: The tokens.
        limits: Bounds on the cost of compiling.

    Raises:
        ConfigurationError: There are no options, one is not a text, `limits` is not a `Limits`, or the tokens cannot spell any
            option.
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

    kind = Kind("choice", {"options": ListOf(Text(0))}, main="options", order=70)

    options: Sequence[str | bytes]
    vocabulary: Vocabulary
    limits: Limits = field(default=DEFAULT_LIMITS, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", check_texts("options", self.options))
        self._compile_once(Choice, self._texts())

    def byte_dfa(self) -> ByteDfa:
        """Return the automaton over bytes."""
        return word_list_dfa(self._texts(), self.limits)

    def _texts(self) -> tuple[bytes, ...]:
        return tuple(dict.fromkeys(map(as_bytes, self.options)))

    def _compile(self) -> TokenAutomaton:
        return token_automaton(self.byte_dfa(), self.vocabulary, self.limits, "the choice")
