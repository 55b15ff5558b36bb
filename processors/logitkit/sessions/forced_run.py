"""Forced tokens: the continuation of a text for as long as only one token is legal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from logitkit.compiler.bytes.byte_dfa import DEAD, FINISHED
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.composition.chain import Chain, members
from logitkit.composition.conflicts import eos_ids_of
from logitkit.errors import BatchMismatch, ConfigurationError
from logitkit.parameters.numbers import LARGEST
from logitkit.parameters.scalars import checked_integer
from logitkit.protocol.calls import advance_checked, process_checked
from logitkit.protocol.context import Context
from logitkit.protocol.declared import may_empty_rows
from logitkit.protocol.processor import Processor, Role, name_of, reads_guidance, role_of
from logitkit.protocol.state import leaves
from logitkit.runtime.automaton_registry import NEUTRAL
from logitkit.runtime.automaton_state import AutomatonState
from logitkit.runtime.constraint import Constraint
from logitkit.runtime.constraint_state import ConstraintState

__all__ = ["forced_run", "may_force"]


def forced_run(
    processor: Processor[Any], state: Any, *, context: Context | None = None, limit: int = 1024
) -> list[int]:
    r"""Return the next tokens for as long as the processor allows exactly one, whatever the logits are.

    Every sampling method would choose them, so a model can process them all at once, like a prompt.

    Args:
        processor: Any processor. For a finite automaton, alone or in a chain with penalties and samplers, the table gives the
            answer. Others are tested with two calls per token: rising and falling logits must leave the same single token. The
            test cannot detect bans that depend on the logits in some other way.
        state: The processor's state, with one row.
        context: The context of that row. None: a row without a prompt, with the size of the processor's vocabulary.
        limit: The maximum number of tokens.

    Returns:
        The tokens; empty if there is a choice. EOS comes last, since nothing follows it.

    Raises:
        BatchMismatch: The state does not have exactly one row.
        ConfigurationError: The limit is not an integer from 0; or no context is given, and the processor has no vocabulary.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> vocabulary = lk.Vocabulary([b"a", b"b", b"ab", b"c", None], eos_ids=[4])
        >>> regex = lk.Regex("[ab]cca?", vocabulary)
        >>> state = regex.init_state(lk.Context.of([[]], vocabulary_size=5))
        >>> lk.forced_run(regex, state)
        []
        >>> lk.forced_run(regex, regex.advance(state, torch.tensor([0])))
        [3, 3]

    Source: the fast-forward tokens of guidance, and the jump-forward decoding of SGLang.
    """
    checked_integer("limit", limit, 0, LARGEST)
    parts = members(processor)
    states = state if isinstance(processor, Chain) else (state,)
    rows = {len(tensor) for tensor in leaves(state)}
    if rows - {1}:
        raise BatchMismatch(
            f"forced_run got a state of {max(rows)} rows; give one row, as select(state, rows) returns it"
        )
    if any(hasattr(p, "is_finished") and bool(p.is_finished(s)) for p, s in zip(parts, states, strict=True)):
        return []
    deciding = [(p, s) for p, s in zip(parts, states, strict=True) if _decides(p)]
    if not deciding:
        return []
    (constraint, own), *others = deciding
    finite = isinstance(own, ConstraintState) and not own.stack.shape[1]
    if isinstance(constraint, Constraint) and finite and not others:
        tokens = _by_table(constraint, own.at)
    else:
        tokens = _by_trying(processor, state, context or _context_of(parts))
    ends = {i for p in (processor, *parts) for i in eos_ids_of(p)}
    run: list[int] = []
    for token in islice(tokens, limit):
        run.append(token)
        if token in ends:
            break
    return run


def may_force(processor: Processor[Any]) -> bool:
    """Return whether calling `forced_run` is useful and its answer reliable.

    Every member that bans tokens must declare itself a constraint: the bans of a function may depend on the logits in ways that
    the test does not detect.
    """
    deciding = [p for p in members(processor) if _decides(p)]
    return bool(deciding) and all(role_of(p) is Role.CONSTRAINT for p in deciding)


def _decides(processor: Processor[Any]) -> bool:
    """Whether a processor may ban the last token; those that only weigh tokens have no say where there is only one."""
    return may_empty_rows(processor) or role_of(processor) is Role.CONSTRAINT


def _context_of(parts: tuple[Processor[Any], ...]) -> Context:
    sizes = [p.vocabulary.size for p in parts if hasattr(p, "vocabulary")]
    if not sizes:
        names = ", ".join(map(name_of, parts))
        raise ConfigurationError(f"{names} has no vocabulary; give the context of the row: context=...")
    return Context.of([[]], max(sizes))


def _by_table(constraint: Constraint, state: AutomatonState) -> Iterator[int]:
    (slot,), (generation,), (current,) = (field.tolist() for field in state)
    if slot == NEUTRAL:
        return
    automaton: TokenAutomaton = constraint.registry.automaton(slot, generation)
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
        state = advance_checked(processor, state, torch.tensor([token], device=context.device))
        context = context.at(context.lengths + 1)


def _left_of(processor: Processor[Any], state: Any, logits: Tensor, context: Context) -> int | None:
    if reads_guidance(processor):
        # The logits of a second pass may weigh tokens otherwise, but they ban none.
        context = replace(context, guidance_logits=logits)
    processed = process_checked(processor, state, logits.clone(), context)
    left = (processed[0] > -torch.inf).nonzero()
    return int(left) if len(left) == 1 else None
