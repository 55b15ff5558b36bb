"""What a text must go on with: the tokens to which there is no alternative."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from logitkit.automata.automaton_state import AutomatonState
from logitkit.automata.bank import NEUTRAL
from logitkit.automata.byte_dfa import DEAD, FINISHED
from logitkit.automata.token_automaton import TokenAutomaton
from logitkit.chain import Chain
from logitkit.conflicts import eos_ids_of
from logitkit.constraints.constraint import AutomatonConstraint
from logitkit.context import Context
from logitkit.errors import BatchMismatch, ConfigurationError
from logitkit.penalties.dry import Dry
from logitkit.penalties.frequency import FrequencyPenalty
from logitkit.penalties.presence import PresencePenalty
from logitkit.penalties.repetition import RepetitionPenalty
from logitkit.processor import Processor, Role, process_checked, role_of
from logitkit.sampling.min_p import MinP
from logitkit.sampling.temperature import Temperature
from logitkit.sampling.top_k import TopK
from logitkit.sampling.top_n_sigma import TopNSigma
from logitkit.sampling.top_p import TopP
from logitkit.sampling.typical_p import TypicalP
from logitkit.sampling.xtc import Xtc
from logitkit.state import leaves
from logitkit.tokens.bias import LogitBias

__all__ = ["forced_run", "may_force"]

# They ban nothing, or never the last token: with one token to choose from, they have no say.
POWERLESS = (
    *(Dry, FrequencyPenalty, LogitBias, PresencePenalty, RepetitionPenalty),
    *(MinP, Temperature, TopK, TopNSigma, TopP, TypicalP, Xtc),
)


def forced_run(
    processor: Processor[Any], state: Any, *, context: Context | None = None, limit: int = 1024
) -> list[int]:
    r"""Return the tokens that come next whatever the logits are, for each is the only one that a processor allows.

    Any way of choosing tokens takes them, so they can be fed to a model at once, as a prompt is.

    Args:
        processor: Any processor. A finite automaton, alone or in a chain with penalties and samplers, is asked by its table.
            Others are tried, two calls a token: what they leave of rising logits and of falling ones must be the same single
            token. A processor of another kind whose bans depend on the logits otherwise cannot be seen through by that.
        state: Its state of one row.
        context: The context of that row; None: one without a prompt, and of the size of the processor's vocabulary.
        limit: Most tokens.

    Returns:
        The tokens, none where there is a choice. EOS is the last: nothing follows it.

    Raises:
        BatchMismatch: The state has other than one row.
        ConfigurationError: No context is given, and there is no vocabulary.

    Example:
        >>> import logitkit as lk
        >>> vocabulary = lk.Vocabulary([b"a", b"b", b"ab", b"c", None], eos_ids=[4])
        >>> regex = lk.Regex("[ab]cca?", vocabulary)
        >>> state = regex.init_state(lk.Context.of([[]], vocabulary_size=5))
        >>> forced_run(regex, state)
        []
        >>> forced_run(regex, regex.advance(state, torch.tensor([0])))
        [3, 3]

    Source: the fast-forward tokens of guidance, and the jump-forward decoding of SGLang.
    """
    members, states = _members(processor, state)
    rows = {len(tensor) for tensor in leaves(state)}
    if rows - {1}:
        raise BatchMismatch(
            f"forced_run got a state of {max(rows)} rows; give one row, as select(state, rows) returns it"
        )
    if any(hasattr(m, "is_finished") and bool(m.is_finished(s)) for m, s in zip(members, states, strict=True)):
        return []
    deciding = [(m, s) for m, s in zip(members, states, strict=True) if type(m) not in POWERLESS]
    if not deciding:
        return []
    (constraint, own), *others = deciding
    if isinstance(constraint, AutomatonConstraint) and not others:
        tokens = _by_table(constraint, own)
    else:
        tokens = _by_trying(processor, state, context or _context_of(members))
    ends = {i for m in (processor, *members) for i in eos_ids_of(m)}
    run: list[int] = []
    for token in tokens:
        if len(run) == limit:
            break
        run.append(token)
        if token in ends:
            break
    return run


def may_force(processor: Processor[Any]) -> bool:
    """Return whether `forced_run` is worth a call, and its answer certain.

    It is where all that bans says that it is a constraint: what a function bans may depend on the logits in ways that trying
    does not find out.
    """
    members, _ = _members(processor, None)
    deciding = [m for m in members if type(m) not in POWERLESS]
    return bool(deciding) and all(role_of(m) is Role.CONSTRAINT for m in deciding)


def _members(processor: Processor[Any], state: Any) -> tuple[tuple[Processor[Any], ...], tuple[Any, ...]]:
    return (processor.processors, state) if isinstance(processor, Chain) else ((processor,), (state,))


def _context_of(members: tuple[Processor[Any], ...]) -> Context:
    sizes = [m.vocabulary.size for m in members if hasattr(m, "vocabulary")]
    if not sizes:
        names = ", ".join(type(m).__name__ for m in members)
        raise ConfigurationError(f"{names} has no vocabulary; give the context of the row: context=...")
    return Context.of([[]], max(sizes))


def _by_table(constraint: AutomatonConstraint, state: AutomatonState) -> Iterator[int]:
    (slot,), (generation,), (current,) = (field.tolist() for field in state)
    if slot == NEUTRAL:
        return
    automaton: TokenAutomaton = constraint.bank.automaton(slot, generation)
    while current != FINISHED:
        token = _only_token(automaton, current)
        if token is None:
            return
        yield token
        current = automaton.next(current, token)


def _only_token(automaton: TokenAutomaton, state: int) -> int | None:
    if state == DEAD:
        # It ends, with any EOS.
        return automaton.eos_ids[0] if len(automaton.eos_ids) == 1 else None
    order, begin = automaton.by_class
    legal = np.flatnonzero(automaton.legal_classes(state))
    sizes = begin[legal + 1] - begin[legal]
    return int(order[begin[legal[sizes.argmax()]]]) if sizes.sum() == 1 else None


def _by_trying(processor: Processor[Any], state: Any, context: Context) -> Iterator[int]:
    rising = torch.linspace(0.0, 1.0, context.vocabulary_size, device=context.device)[None]
    while True:
        token = _left_of(processor, state, rising, context)
        if token is None or token != _left_of(processor, state, rising.flip(1), context):
            return
        yield token
        state = processor.advance(state, torch.tensor([token], device=context.device))
        context = context.at(context.lengths + 1)


def _left_of(processor: Processor[Any], state: Any, logits: Tensor, context: Context) -> int | None:
    _, processed = process_checked(processor, state, logits.clone(), context)
    left = (processed[0] > -torch.inf).nonzero()
    return int(left) if len(left) == 1 else None
