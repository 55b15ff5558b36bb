"""Intersection: several constraints at once."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from logitkit.compiler.bytes.byte_dfa import ByteDfa
from logitkit.compiler.bytes.byte_intersection import intersect_bytes
from logitkit.compiler.tokens.completion.min_tokens_to_finish import counting_tokens
from logitkit.compiler.tokens.linking.intersection import intersect
from logitkit.compiler.tokens.tables.mask_key import NO_LIMIT
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.errors import ConfigurationError, PatternTooLarge, UnsupportedSchema
from logitkit.lazy import lazy
from logitkit.limits import DEFAULT_LIMITS, Limits
from logitkit.protocol.context import Context
from logitkit.protocol.declared import only_masks
from logitkit.protocol.processor import Processor
from logitkit.runtime.byte_form import with_vocabulary
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
    closing: bool | int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.parts:
            raise ConfigurationError("an intersection has no parts; give at least one constraint")
        vocabulary = self.parts[0].vocabulary
        if any(part.vocabulary != vocabulary for part in self.parts[1:]):
            raise ConfigurationError(
                "the constraints of a chain have different vocabularies; create them with the same one"
            )
        object.__setattr__(self, "vocabulary", vocabulary)
        limits = [part.closing for part in self.parts if part.closing is not False]
        object.__setattr__(self, "closing", True in limits or min(limits, default=False))
        self._compile_once(Intersection, tuple(self._automata), bool(limits))
        for limit in limits:
            self._check_closing(limit, "all constraints of the chain together")

    def byte_dfa(self) -> ByteDfa:
        """Return the automaton over bytes.

        Raises:
            ConfigurationError: A part is a constraint over token ids.
        """
        return reduce(lambda a, b: intersect_bytes(a, b, self.limits), (part.byte_dfa() for part in self.parts))

    def own_ids(self) -> tuple[int, ...]:
        """Return the token ids that mean themselves in this constraint, not their text."""
        return tuple(token for part in self.parts for token in part.own_ids())

    @lazy
    def _automata(self) -> dict[str, TokenAutomaton]:
        """The automata of the parts by content key, without their limits of tokens; equal constraints count once."""
        found = {}
        for part in self.parts:
            automaton = _finite_automaton(part)
            if automaton is None:
                raise ConfigurationError(
                    f"a part of an intersection must be a finite automaton, and this {type(part).__name__} nests without limit, "
                    "or is too large without a stack; put the constraints in a chain instead"
                )
            found[automaton.content_key] = automaton
        return found

    def _compile(self) -> TokenAutomaton:
        def product(a: TokenAutomaton, b: TokenAutomaton) -> TokenAutomaton:
            both = intersect(a, b, self.limits)
            if both is None:
                names = ", ".join(type(part).__name__ for part in self.parts)
                raise ConfigurationError(f"no text is allowed by all constraints of the chain ({names})")
            return both

        both = reduce(product, self._automata.values())
        return both if self.closing is False else counting_tokens(both, self.limits)

    def tokens_left(self, context: Context) -> Tensor:
        """Return [B] int64, the tokens that each row may still have: the least that any part allows."""
        least = super().tokens_left(context)
        for part in self.parts:
            own = part.tokens_left(context)
            least = torch.where(least == NO_LIMIT, own, torch.where(own == NO_LIMIT, least, torch.minimum(least, own)))
        return least


def _finite_automaton(part: Constraint) -> TokenAutomaton | None:
    """Return the finite automaton of a constraint, without its limit of tokens; None if it has none."""
    if not part.automaton.nesting.is_flat:
        return None
    if part.closing is not False:
        with warnings.catch_warnings():
            # The constraint gave its warnings when it was created.
            warnings.simplefilter("ignore")
            part = with_vocabulary(part, part.vocabulary)
    return part.flat_automaton if part.has_finite_automaton else None


def _joins(part: Constraint) -> bool:
    """Whether a constraint becomes a part of an intersection."""
    try:
        return _finite_automaton(part) is not None
    except (PatternTooLarge, UnsupportedSchema):
        # Long strings that are counted, for example: they have a state for each length otherwise.
        if part.closing is False:
            raise
        return False


def intersected(processors: Sequence[Processor[Any]], limits: Limits) -> list[Processor[Any]]:
    """Replace the finite automata in each run of constraints with their intersection, in place of the first one."""
    joined: list[Processor[Any]] = []
    for constrains, run in groupby(processors, only_masks):
        members = list(run)
        flat = [p for p in members if isinstance(p, Constraint) and p.automaton.nesting.is_flat]
        automata = [p for p in flat if _joins(p)] if constrains and len(flat) > 1 else []
        both, replaced = _intersection_of(automata, limits)
        if both is not None:
            # These processors only mask, so their order does not matter.
            first = members.index(replaced[0])
            members = [*members[:first], both, *members[first + 1 :]]
        joined.extend(p for p in members if p not in replaced)
    return joined


def _intersection_of(automata: list[Constraint], limits: Limits) -> tuple[Intersection | None, list[Constraint]]:
    """Return the intersection of constraints, and those that it replaces; None if there are fewer than two."""
    if len(automata) < 2:
        return None, []
    parts = (q for p in automata for q in (p.parts if isinstance(p, Intersection) else (p,)))
    try:
        return Intersection(tuple(parts), limits=limits), automata
    except PatternTooLarge:
        uncounted = [p for p in automata if p.closing is False]
        if len(uncounted) == len(automata):
            raise
        # A row lists all classes where tokens are counted. Apart, the masks are small, but a row may get stuck between them.
        return _intersection_of(uncounted, limits)
