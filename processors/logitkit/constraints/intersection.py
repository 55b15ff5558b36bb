"""Intersection: several constraints at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import groupby
from typing import Any

from logitkit.compiler.bytes.byte_dfa import ByteDfa
from logitkit.compiler.bytes.byte_intersection import intersect_bytes
from logitkit.compiler.tokens.intersection import intersect
from logitkit.compiler.tokens.token_automaton import TokenAutomaton
from logitkit.errors import ConfigurationError
from logitkit.limits import DEFAULT_LIMITS, Limits
from logitkit.protocol.declared import only_masks
from logitkit.protocol.processor import Processor
from logitkit.runtime.constraint import Constraint
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["Intersection", "intersected"]


@dataclass(frozen=True)
class Intersection(Constraint):
    """Allow only texts that all of several constraints allow; `chain` creates it from adjacent constraints.

    If each constraint masked the logits by itself, generation could get stuck where they allow different tokens. The product of
    their automata allows only tokens after which the text can be completed for all of them.

    Args:
        parts: At least one constraint, all with equal vocabularies.
        limits: Bounds on the product.

    Raises:
        ConfigurationError: The vocabularies differ, a part is not a finite automaton, or no text is allowed by all constraints.
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

    parts: tuple[Constraint, ...]
    limits: Limits = field(default=DEFAULT_LIMITS, kw_only=True)
    vocabulary: Vocabulary = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.parts:
            raise ConfigurationError("an intersection has no parts; give at least one constraint")
        vocabulary = self.parts[0].vocabulary
        if any(part.vocabulary != vocabulary for part in self.parts[1:]):
            raise ConfigurationError(
                "the constraints of a chain have different vocabularies; create them with the same one"
            )
        endless = next((part for part in self.parts if not part.has_finite_automaton), None)
        if endless is not None:
            raise ConfigurationError(
                f"a part of an intersection must be a finite automaton, and this {type(endless).__name__} nests without limit, "
                "closes its text within a number of tokens, or is too large without a stack; put the constraints in a chain "
                "instead"
            )
        object.__setattr__(self, "vocabulary", vocabulary)
        self._compile_once(Intersection, tuple(self._automata()))

    def byte_dfa(self) -> ByteDfa:
        """Return the automaton over bytes.

        Raises:
            ConfigurationError: A part is a constraint over token ids.
        """
        return reduce(lambda a, b: intersect_bytes(a, b, self.limits), (part.byte_dfa() for part in self.parts))

    def own_ids(self) -> tuple[int, ...]:
        """Return the token ids that mean themselves in this constraint, not their text."""
        return tuple(token for part in self.parts for token in part.own_ids())

    def _automata(self) -> dict[str, TokenAutomaton]:
        """Return the automata of the parts by content key; equal constraints count once."""
        return {part.flat_automaton.content_key: part.flat_automaton for part in self.parts}

    def _compile(self) -> TokenAutomaton:
        def product(a: TokenAutomaton, b: TokenAutomaton) -> TokenAutomaton:
            both = intersect(a, b, self.limits)
            if both is None:
                names = ", ".join(type(part).__name__ for part in self.parts)
                raise ConfigurationError(f"no text is allowed by all constraints of the chain ({names})")
            return both

        return reduce(product, self._automata().values())


def intersected(processors: Sequence[Processor[Any]], limits: Limits) -> list[Processor[Any]]:
    """Replace the finite automata in each run of constraints with their intersection, in place of the first one."""
    joined: list[Processor[Any]] = []
    for constrains, run in groupby(processors, only_masks):
        members = list(run)
        automata = [p for p in members if isinstance(p, Constraint) and p.is_finite]
        if len(automata) > 1:
            automata = [p for p in automata if p.has_finite_automaton]
        if not constrains or len(automata) < 2:
            joined.extend(members)
            continue
        parts = (q for p in automata for q in (p.parts if isinstance(p, Intersection) else (p,)))
        both = Intersection(tuple(parts), limits=limits)
        # These processors only mask, so their order does not matter.
        joined.extend(both if p is automata[0] else p for p in members if p is automata[0] or p not in automata[1:])
    return joined
