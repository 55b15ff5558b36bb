"""Several constraints at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce

from logitkit.automata.byte_dfa import ByteDfa
from logitkit.automata.byte_intersection import intersect_bytes
from logitkit.automata.intersection import intersect
from logitkit.automata.limits import DEFAULT_LIMITS, Limits, check_limits
from logitkit.automata.shared import shared_by
from logitkit.automata.token_automaton import TokenAutomaton
from logitkit.constraints.constraint import AutomatonConstraint
from logitkit.constraints.pushdown_constraint import PushdownConstraint
from logitkit.errors import ConfigurationError
from logitkit.vocabulary import Vocabulary

__all__ = ["Intersection"]


@dataclass(frozen=True)
class Intersection(AutomatonConstraint):
    """Allow only what all of some constraints allow; `chain` makes it of neighbouring constraints.

    Masks one after another would leave a row with nothing where each constraint allows another token. The product of the automata
    knows which tokens can still be completed for all.

    Args:
        parts: At least one constraint; all over equal vocabularies.
        limits: Bounds on the product.

    Raises:
        ConfigurationError: The vocabularies differ, or no text is allowed by all.
        PatternTooLarge: The product would exceed a limit.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> vocabulary = lk.Vocabulary([b"a", b"b", None], eos_ids=[2])
        >>> both = lk.chain(lk.Regex("a*b*", vocabulary), lk.Regex(".*ba?", vocabulary))
        >>> context = lk.Context.of([[]], vocabulary_size=3)
        >>> both.process_logits(both.init_state(context), torch.zeros(1, 3), context)[1]
        tensor([[0., 0., -inf]])
    """

    parts: tuple[AutomatonConstraint | PushdownConstraint, ...]
    limits: Limits = field(default=DEFAULT_LIMITS, kw_only=True)
    vocabulary: Vocabulary = field(init=False, repr=False)
    automaton: TokenAutomaton = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_limits(self.limits)
        if not self.parts:
            raise ConfigurationError("an intersection has no parts; give at least one constraint")
        vocabulary = self.parts[0].vocabulary
        if any(part.vocabulary != vocabulary for part in self.parts[1:]):
            raise ConfigurationError("the constraints of a chain have different vocabularies; make them with one")
        object.__setattr__(self, "vocabulary", vocabulary)
        # What is asked for twice is so once.
        automata = [*{part.automaton.content_key: part.automaton for part in self.parts}.values()]
        key = (Intersection, tuple(a.content_key for a in automata), self.limits)
        object.__setattr__(self, "automaton", shared_by(vocabulary).automaton(key, lambda: self._product(automata)))

    def byte_dfa(self) -> ByteDfa:
        """Return the automaton over bytes.

        Raises:
            ConfigurationError: A part is a constraint over token ids.
        """
        return reduce(lambda a, b: intersect_bytes(a, b, self.limits), (part.byte_dfa() for part in self.parts))

    def _product(self, automata: list[TokenAutomaton]) -> TokenAutomaton:
        def product(a: TokenAutomaton, b: TokenAutomaton) -> TokenAutomaton:
            both = intersect(a, b, self.limits)
            if both is None:
                names = ", ".join(type(part).__name__ for part in self.parts)
                raise ConfigurationError(f"no text is allowed by all constraints of the chain ({names})")
            return both

        return reduce(product, automata)
