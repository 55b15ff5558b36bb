"""The steps of the canonical order that a processor consists of: at most one of each, but any number of languages.

End rows without a legal token, as a chain does.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import torch
from torch import Tensor

from logitkit.composition.chain import Chain, members
from logitkit.configuration.registered import Registered, RegisteredKind
from logitkit.configuration.registry import KINDS
from logitkit.errors import ConfigurationError
from logitkit.protocol.calls import by_tensors, own_rows
from logitkit.protocol.context import Context
from logitkit.protocol.declared import step_of
from logitkit.protocol.processor import Processor, Role, batch_size_of, name_of
from logitkit.protocol.state import Fill
from logitkit.runtime.branching_state import Branching
from logitkit.runtime.constraint import Constraint
from logitkit.runtime.host_logits import is_empty
from logitkit.runtime.logit_arrays import as_array, drop_nan
from logitkit.runtime.tensor_logits import Places
from logitkit.tokens.id_lists import id_tensor, listed_rows, rising

__all__ = ["ORDER", "Ending", "EndingState", "LaterLanguage", "OwnStep", "StepKey", "class_of", "rank", "steps_of"]


class EndingState(NamedTuple):
    """The EOS ids of each row.

    Args:
        eos_ids: [B, N] int32, ascending, padded with -1 at the end. A row without any is never ended.
    """

    eos_ids: Annotated[Tensor, Fill(-1)]


@dataclass(frozen=True)
class Ending:
    """Give EOS the logit 0 in rows without a legal token.

    Args:
        eos_ids: The ids that end a row.
    """

    eos_ids: Sequence[int]

    role = Role.CONSTRAINT
    may_empty_rows = False

    @classmethod
    def neutral_state(cls, context: Context) -> EndingState:
        """Return the state of rows that are never ended."""
        return cls(()).init_state(context)

    def init_state(self, context: Context) -> EndingState:
        """Return the state of rows after their prompts."""
        return EndingState(id_tensor([rising(self.eos_ids)] * context.batch_size, context.device))

    def advance(self, state: EndingState, tokens: Tensor) -> EndingState:
        """Return the state, which does not change."""
        return state

    def process_logits(self, state: EndingState, logits: Tensor, context: Context) -> tuple[EndingState, Tensor]:
        """End the rows in which all logits are -inf or NaN; on the CPU in place."""
        logits = own_rows("Ending", state.eos_ids.shape[0], logits)
        if state.eos_ids.shape[1] == 0:
            return state, logits
        if by_tensors(logits):
            places = Places.of(state.eos_ids, logits.shape[1])
            ends = ~(logits > -torch.inf).any(1, keepdim=True) & places.some
            logits = torch.where(ends, -torch.inf, logits)
            kept = logits.gather(1, places.at)
            return state, logits.scatter_(1, places.at, torch.where(ends, 0.0, kept))
        array, never, zero = as_array(logits)
        for row, ids in listed_rows(state.eos_ids):
            drop_nan(array[row], never)
            if is_empty(array[row], never):
                array[row, ids] = zero
        return state, logits


class OwnStep(NamedTuple):
    """A step of registered processors, which rows with equal configurations take together.

    Args:
        kind: Their kind.
        parameters: Their parameters, in JSON; empty if the kind has all of them in its state.
        number: How many earlier steps of the same kind the request takes.
    """

    kind: RegisteredKind
    parameters: str
    number: int


class LaterLanguage(NamedTuple):
    """The step of a language that may nest, or that follows others in its request.

    Args:
        number: How many languages come before it.
        may_nest: Whether it shares a batch with languages that nest.
        branches: Whether its rows may be in several places at once.
        remembers: Whether its rows may remember the items of arrays.
    """

    number: int
    may_nest: bool
    branches: bool = False
    remembers: bool = False


# A step of shipped processors, which is a class of `ORDER` or a later language, or of registered ones.
StepKey = type | OwnStep | LaterLanguage

# The kind whose place in the canonical order later languages have.
LAST_LANGUAGE = "json_schema"


def rank(step: StepKey) -> tuple[Any, ...]:
    """Return the sort key of a step in the canonical order."""
    if isinstance(step, OwnStep):
        return *step.kind.rank, step.number, step.parameters
    if isinstance(step, LaterLanguage):
        return *KINDS[LAST_LANGUAGE].rank, *step
    return _RANKS[step]


def class_of(step: type | LaterLanguage) -> type:
    """Return the class whose processors take a step of shipped ones."""
    if not isinstance(step, LaterLanguage):
        return step
    if step.remembers:
        from logitkit.runtime.remembering.remembering_state import Remembering

        return Remembering
    return Branching if step.branches else Constraint


def _ranks() -> dict[type, tuple[Any, ...]]:
    # A chain ends rows after the last processor that may ban tokens, and all of these come before temperature.
    ranks: dict[type, tuple[Any, ...]] = {Ending: (Role.CONSTRAINT, math.inf)}
    for kind in KINDS.values():
        step = None if kind.made is None else step_of(kind.made)
        if step is not None:
            ranks.setdefault(step, kind.rank)
    return ranks


_RANKS = _ranks()

# The steps of shipped processors in the canonical order, as far as a request takes one language.
NESTED = (
    LaterLanguage(0, may_nest=True),
    LaterLanguage(0, may_nest=True, branches=True),
    LaterLanguage(0, may_nest=True, remembers=True),
)
ORDER: tuple[type | LaterLanguage, ...] = tuple(sorted([*_RANKS, *NESTED], key=rank))


def steps_of(processor: Processor[Any]) -> dict[StepKey, Processor[Any]]:
    """Return the steps that a processor consists of.

    Args:
        processor: A processor that `from_config` makes.

    Returns:
        The processor of each step, in the canonical order.

    Raises:
        ConfigurationError: The processors are not in the canonical order, a step comes twice, or a processor cannot be expressed
            as a configuration or is made for the rows of one batch.

    Example:
        >>> import logitkit as lk
        >>> list(steps_of(lk.chain(lk.RepetitionPenalty(1.1), lk.TopK(5))).values())
        [RepetitionPenalty(penalty=1.1, window=None, include_prompt=True), TopK(k=5, min_tokens_to_keep=1)]
    """
    links = members(processor)
    found: dict[StepKey, Processor[Any]] = {}
    for link in links:
        step = _own_step(link, found) if isinstance(link, Registered) else _shipped_step(link, found)
        if step is None or (isinstance(step, type) and step not in _RANKS):
            raise ConfigurationError(
                f"a {name_of(link)} cannot be expressed as a configuration, so it cannot be batched; register its class"
            )
        if batch_size_of(link) is not None:
            raise ConfigurationError(
                f"{name_of(link)} has a list of ids for each row of one batch; a request is one row, so pass one list of ids"
            )
        if found and rank(step) <= max(map(rank, found)):
            raise ConfigurationError(
                f"{name_of(link)} comes after {name_of(links[len(found) - 1])}, but requests that share a batch take each step "
                f"once at most, in the canonical order: {_names()}; leave out 'chain', or list its processors in this order"
            )
        found[step] = link
    if isinstance(processor, Chain) and processor.ending_ids:
        found[Ending] = Ending(processor.ending_ids)
    return dict(sorted(found.items(), key=lambda item: rank(item[0])))


def _shipped_step(link: Processor[Any], before: Collection[StepKey]) -> type | LaterLanguage | None:
    step = step_of(type(link))
    if step is not Constraint:
        return step
    assert isinstance(link, Constraint)
    languages = sum(step is Constraint or isinstance(step, LaterLanguage) for step in before)
    # A registered processor may come before the first language.
    last = max(map(rank, before), default=())
    if link.may_nest or languages or last > rank(Constraint):
        automaton = link.automaton
        return LaterLanguage(languages, link.may_nest, bool(automaton.layers), automaton.remembers is not None)
    return Constraint


def _own_step(link: Registered, before: Collection[StepKey]) -> OwnStep:
    kind = link.kind
    number = sum(isinstance(step, OwnStep) and step.kind is kind for step in before)
    if number and not kind.several:
        raise ConfigurationError(f"{kind.name!r} is given twice, but a configuration may hold it only once; remove one")
    return OwnStep(kind, "" if kind.parameters_in_state else link.parameters, number)


def _names() -> str:
    names = {_name_of(step): rank(step) for step in ORDER if step is not Ending}
    names |= {k.name: k.rank for k in KINDS.values() if isinstance(k, RegisteredKind)}
    return ", ".join(sorted(names, key=lambda name: names[name]))


def _name_of(step: type | LaterLanguage) -> str:
    if isinstance(step, LaterLanguage):
        return "more languages, or one that may nest"
    return str(getattr(step, "step_name", step.__name__))
