"""Regex: the output matches a regular expression."""

from __future__ import annotations

from dataclasses import dataclass, field

from logitkit.compiler.bytes.byte_dfa import ByteDfa
from logitkit.compiler.bytes.nested_dfa import NestedDfa
from logitkit.compiler.language import byte_dfa_of, called_dfa_of, pattern_dfa
from logitkit.compiler.tokens.compile import pushdown_automaton, token_automaton
from logitkit.compiler.tokens.completion.dead_ends import may_have_dead_ends
from logitkit.compiler.tokens.records.repeated_record import record_automaton
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.errors import ConfigurationError, PatternTooLarge
from logitkit.limits import DEFAULT_LIMITS, Limits
from logitkit.parameters import Text
from logitkit.patterns.charset import SURROGATES
from logitkit.patterns.construction import inside
from logitkit.patterns.parser import parse
from logitkit.patterns.syntax import Characters, Node
from logitkit.protocol.kind import Kind
from logitkit.runtime.constraint import Constraint
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["Regex"]


@dataclass(frozen=True)
class Regex(Constraint):
    r"""Allow only texts that match a regular expression as a whole, as in `re.fullmatch`.

    The text begins after the prompt. EOS is allowed when the text so far matches.

    Args:
        pattern: A pattern in the syntax of Python's `re`.
        vocabulary: The tokens.
        limits: Bounds on the cost of compiling.

    Raises:
        PatternSyntaxError: The pattern is not valid, or not regular; the message shows where.
        PatternTooLarge: The automaton would exceed a limit.
        VocabularyError: The vocabulary has no EOS id.
        ConfigurationError: `limits` is not a `Limits`, or the tokens cannot spell any text that matches the pattern.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> vocabulary = lk.Vocabulary([b"0", b"1", b"-", b"10", None], eos_ids=[4])
        >>> regex = lk.Regex("[01]{2}", vocabulary)
        >>> context = lk.Context.of([[2]], vocabulary_size=5)
        >>> state = regex.advance(regex.init_state(context), torch.tensor([1]))
        >>> regex.process_logits(state, torch.zeros(1, 5), context)[1]
        tensor([[0., 0., -inf, -inf, -inf]])

    Source: Willard and Louf, Efficient Guided Generation for Large Language Models (2023), for the idea of an automaton over
        tokens.
    """

    kind = Kind("regex", {"pattern": Text(0, raw=False)}, main="pattern", order=60)

    pattern: str
    vocabulary: Vocabulary
    limits: Limits = field(default=DEFAULT_LIMITS, kw_only=True)

    def __post_init__(self) -> None:
        self._compile_once(Regex, self.pattern)

    def byte_dfa(self) -> ByteDfa:
        """Return the automaton over bytes."""
        return pattern_dfa(self.pattern, self.limits)

    def nested_dfa(self) -> NestedDfa:
        """Return the automaton over bytes, with calls if it is too large without them."""
        try:
            return super().nested_dfa()
        except PatternTooLarge:
            found = self._called_dfa()
            if found is None:
                raise
            return found

    @property
    def is_finite(self) -> bool:
        """Whether the automaton needs no stack."""
        return not self.automaton.has_stacks

    @property
    def flat_automaton(self) -> TokenAutomaton:
        """The automaton without a stack.

        Raises:
            PatternTooLarge: It exceeds a limit without calls.
        """
        return self._flat() if self.automaton.has_stacks else self.automaton

    def _compile(self) -> TokenAutomaton:
        try:
            return self._flat()
        except PatternTooLarge:
            dfa = self._called_dfa()
            # With tokens for all bytes, any character that has begun can be completed.
            if dfa is None or may_have_dead_ends(dfa, self.vocabulary):
                raise
        return pushdown_automaton(dfa, self.vocabulary, self.limits, self._name)

    def _flat(self) -> TokenAutomaton:
        tree, limits = parse(self.pattern), self.limits
        repeated = record_automaton(tree, self.vocabulary, limits)
        if repeated is not None:
            return repeated
        dfa = byte_dfa_of(tree, limits, self.pattern)
        if not dfa.accepting.any() and _has_halves(tree):
            raise ConfigurationError(
                f"{self._name} matches no text at all: half of a surrogate pair is not a character; write the whole one, "
                "such as \\U0001F600"
            )
        return token_automaton(dfa, self.vocabulary, limits, self._name)

    def _called_dfa(self) -> NestedDfa | None:
        return called_dfa_of(parse(self.pattern), self.limits, self.pattern)

    @property
    def _name(self) -> str:
        return f"the pattern {self.pattern!r}"


def _has_halves(tree: Node) -> bool:
    """Whether a tree has a set of surrogates only, which no text contains."""
    if isinstance(tree, Characters):
        return bool(tree.charset) and not tree.charset - SURROGATES
    return any(map(_has_halves, inside(tree)))
