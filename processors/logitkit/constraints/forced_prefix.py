"""ForcedPrefix: the output begins with a given text, such as the last tokens that were cut off a prompt."""

from __future__ import annotations

from dataclasses import dataclass, field

from logitkit.compiler.bytes.byte_dfa import ByteDfa
from logitkit.compiler.bytes.concatenation import after_text, anything
from logitkit.compiler.tokens.compile import token_automaton
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.constraints.texts import as_bytes, check_text
from logitkit.errors import ConfigurationError
from logitkit.limits import DEFAULT_LIMITS, Limits, check_limits
from logitkit.parameters import Either, Nested, Null, Text
from logitkit.protocol.kind import Kind
from logitkit.runtime.compiled_language import check_has_eos
from logitkit.runtime.constraint import Constraint
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["ForcedPrefix"]


@dataclass(frozen=True)
class ForcedPrefix(Constraint):
    """Allow only texts that begin with a given text, in any tokenization; a token may extend past its end.

    Together with `heal_prompt`, it continues a prompt that ends where a longer token would have been used.

    Args:
        text: The beginning of the output, as str (encoded as UTF-8) or bytes; it may be empty.
        vocabulary: The tokens.
        then: The constraint on the rest, over text (`Regex`, `Choice`, ...) and with an equal vocabulary. None: anything,
            including EOS and ids without text, which are not legal before the text is complete.
        limits: Bounds on the cost of compiling.

    Raises:
        ConfigurationError: `text` is not a text; `then` is not a constraint over text, or has another vocabulary; `limits` is not
            a `Limits`; or the tokens cannot spell the text.
        PatternTooLarge: The automaton would exceed a limit.
        VocabularyError: The vocabulary has no EOS id.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> vocabulary = lk.Vocabulary([b":", b"://", b"a", None], eos_ids=[3])
        >>> prefix = lk.ForcedPrefix(":", vocabulary)
        >>> context = lk.Context.of([[2]], vocabulary_size=4)
        >>> prefix.process_logits(prefix.init_state(context), torch.zeros(1, 4), context)[1]
        tensor([[0., 0., -inf, -inf]])

    Source: Lundberg, The Art of Prompt Design: Prompt Boundaries and Token Healing (2023), for the use.
    """

    kind = Kind("forced_prefix", {"text": Text(0), "then": Either((Nested(), Null()))}, main="text", order=100)

    text: str | bytes
    vocabulary: Vocabulary
    then: Constraint | None = None
    limits: Limits = field(default=DEFAULT_LIMITS, kw_only=True)

    def __post_init__(self) -> None:
        check_has_eos(self.vocabulary)
        check_limits(self.limits)
        check_text("text", self.text)
        if self.then is not None:
            check_part("then", self.then, self.vocabulary)
        text, then = as_bytes(self.text), self.then
        if then is not None and not text:
            object.__setattr__(self, "automaton", then.flat_automaton)
        else:
            self._compile_once(ForcedPrefix, text, then)

    def byte_dfa(self) -> ByteDfa:
        """Return the automaton over bytes."""
        rest = anything() if self.then is None else self.then.byte_dfa()
        return after_text(as_bytes(self.text), rest, self.limits)

    def own_ids(self) -> tuple[int, ...]:
        """Return the token ids that mean themselves in this constraint, not their text."""
        return () if self.then is None else self.then.own_ids()

    def _compile(self) -> TokenAutomaton:
        return token_automaton(self.byte_dfa(), self.vocabulary, self.limits, f"the prefix {self.text!r}")


def check_part(name: str, given: object, vocabulary: Vocabulary | None = None, last: bool = False) -> None:
    """Raise `ConfigurationError` if a value is not a constraint, has another vocabulary, or nests although it is not the last."""
    if isinstance(given, Constraint) and given.automaton.remembers is not None:
        raise ConfigurationError(
            f"{name} is a {type(given).__name__} with arrays whose items must differ ('uniqueItems'), or objects whose names "
            "must ('minProperties', any_order, member_order='any'), which a row remembers, so it cannot be a part of another "
            "constraint; write the whole text as one language, as in languages.sequence(any_text(until='</think>'), "
            "json_schema(S)), or leave out the keyword or option"
        )
    if isinstance(given, Constraint) and not last and not given.has_finite_automaton:
        raise ConfigurationError(
            f"{name} is a {type(given).__name__} whose texts nest without bound, which counts tokens or parts of texts (such as "
            "characters or lines), or which is too large without a stack, so it can only come last; write then(first, it, "
            "marker), where first may be Regex('', vocabulary)"
        )
    if not isinstance(given, Constraint):
        raise ConfigurationError(
            f"{name} is {given!r}; give a constraint, such as Regex or Choice, or None for anything"
        )
    if given.automaton.layers:
        raise ConfigurationError(
            f"{name} is a {type(given).__name__} that is not deterministic, which cannot be a part of another constraint; put it "
            "in a chain with others instead, or write a grammar of the whole text"
        )
    if vocabulary is not None and given.vocabulary != vocabulary:
        raise ConfigurationError(f"the constraint in {name} has another vocabulary; create both with the same one")
