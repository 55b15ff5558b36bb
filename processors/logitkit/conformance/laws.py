"""The laws of the protocol: each runs a processor in two ways that must give the same results, and compares them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from logitkit.conformance.cases import Case
from logitkit.conformance.runs import (
    LawBroken,
    changed,
    check_same_logits,
    check_same_states,
    contents,
    longer,
    run,
    with_guidance,
)
from logitkit.protocol.context import concatenate_context, select_context
from logitkit.protocol.processor import Processor
from logitkit.protocol.state import concatenate, select

__all__ = ["LAWS", "Law", "shares_calls"]

# Raises `LawBroken`, or whatever the processor raises, if the processor breaks the law on a case.
Law = Callable[[Processor[Any], Case], None]


def _keeps_dtype_and_shape(processor: Processor[Any], case: Case) -> None:
    # `run` checks structure, dtypes and shapes at every call.
    run(processor, case.context(), case.committed(), list(case.logits()))


def _makes_no_nan(processor: Processor[Any], case: Case) -> None:
    """No probability can be computed from NaN or +inf; to force a token, all others are banned."""
    for step, logits in enumerate(run(processor, case.context(), case.committed(), list(case.logits())).logits):
        wrong = logits.isnan() | (logits == torch.inf)
        if wrong.any():
            row, column = (int(place) for place in wrong.nonzero()[0])
            shown = "NaN" if logits[row, column].isnan() else "+inf"
            raise LawBroken(f"after {step} tokens logit {column} of row {row} is {shown}")


def _leaves_arguments_unchanged(processor: Processor[Any], case: Case) -> None:
    context, itself = case.context(), contents(processor)
    with _kept("a method", context=[context.prompt, context.prompt_lengths, context.lengths]):
        state, logits = processor.init_state(context), case.logits()
        for step, tokens in enumerate(case.committed().unbind(1)):
            with _kept("advance", tokens=tokens, state=state):
                state = processor.advance(state, tokens)
            now = longer(context, case.committed()[:, : step + 1])
            now = with_guidance(processor, now, logits[step + 1])
            with _kept("process_logits", state=state, lengths=now.lengths, guidance_logits=now.guidance_logits):
                processor.process_logits(state, logits[step + 1].clone(), now)
    name = changed(itself, contents(processor))
    if name is not None:
        raise LawBroken(f"a method changes the processor's attribute {name.lstrip('.')}")


@contextmanager
def _kept(method: str, **arguments: Any) -> Iterator[None]:
    """Raise `LawBroken` if an argument, which holds tensors, is changed meanwhile."""
    before = {name: contents(argument) for name, argument in arguments.items()}
    yield
    for name, argument in arguments.items():
        if changed(before[name], contents(argument)) is not None:
            raise LawBroken(f"{method} writes to the {name}")


def _takes_both_shapes_of_tokens(processor: Processor[Any], case: Case) -> None:
    rows = len(case.prompts)
    state = start = processor.init_state(case.context())
    for tokens in case.committed().unbind(1):
        flat, column = processor.advance(state, tokens), processor.advance(state, tokens[:, None])
        check_same_states(flat, column, rows, f"after tokens of shape [{rows}] and of shape [{rows}, 1]")
        state = flat
    at_once = processor.advance(start, case.committed())
    where = f"after tokens one by one and after all at once, [{rows}, {case.steps}],"
    check_same_states(state, at_once, rows, where)


def _ignores_missing_tokens(processor: Processor[Any], case: Case) -> None:
    rows = len(case.prompts)
    state = processor.advance(processor.init_state(case.context()), case.committed())
    for none in (torch.full((rows,), -1), torch.full((rows, 2), -1)):
        where = f"before and after tokens that are all -1, of shape {list(none.shape)},"
        check_same_states(state, processor.advance(state, none), rows, where)
    gaps = torch.stack([torch.full_like(case.committed(), -1), case.committed()], 2).flatten(1)
    with_gaps = processor.advance(processor.init_state(case.context()), gaps)
    check_same_states(state, with_gaps, rows, "without and with -1 before each token")


def _replays(processor: Processor[Any], case: Case) -> None:
    """After preemption, an engine replays a request from its prompt and all its tokens at once."""
    logits = list(case.logits())
    first, again = (run(processor, case.context(), case.committed(), logits) for _ in range(2))
    check_same_logits(first.logits, again.logits, "in a run and in the same run again")
    state = processor.advance(processor.init_state(case.context()), case.committed())
    where = "after a run and after a replay of its tokens"
    check_same_states(first.state, state, len(case.prompts), where)
    _, replayed = processor.process_logits(
        state, logits[-1].clone(), with_guidance(processor, first.context, logits[-1])
    )
    check_same_logits(first.logits[-1:], [replayed], where, case.steps)


def _may_process_logits_again(processor: Processor[Any], case: Case) -> None:
    """Engines show logits more often than they commit tokens."""
    logits, context = list(case.logits()), case.context()
    state = processor.init_state(context)
    for step in range(case.steps + 1):
        if step:
            tokens = case.committed()[:, step - 1]
            state, context = processor.advance(state, tokens), longer(context, tokens)
        seen = with_guidance(processor, context, logits[step])
        first, *others = (processor.process_logits(state, logits[step].clone(), seen)[1] for _ in range(3))
        for other in others:
            check_same_logits([first], [other], "in a first call of process_logits and in another", step)


def _keeps_rows_apart(processor: Processor[Any], case: Case) -> None:
    """Beam search reorders, drops and repeats rows: selecting rows before or after a run gives the same."""
    rows, logits, tokens = torch.tensor(case.order), list(case.logits()), case.committed()
    whole = run(processor, case.context(), tokens, logits)
    picked_logits, picked_tokens = [step.index_select(0, rows) for step in logits], tokens.index_select(0, rows)
    picked = run(processor, select_context(case.context(), rows), picked_tokens, picked_logits)
    where = "with rows picked after and before the run"
    check_same_logits([step.index_select(0, rows) for step in whole.logits], picked.logits, where)
    check_same_states(select(whole.state, rows), picked.state, len(rows), where)
    half = case.steps // 2
    early = run(processor, case.context(), tokens[:, :half], logits[: half + 1])
    context, state = select_context(early.context, rows), select(early.state, rows)
    late = run(processor, context, picked_tokens[:, half:], picked_logits[half:], state)
    check_same_states(late.state, picked.state, len(rows), f"with rows picked after {half} tokens and before the run")


def _joins_batches(processor: Processor[Any], case: Case) -> None:
    """Requests enter a batch at different times, with prompts and outputs of different lengths."""
    logits, tokens = list(case.logits()), case.committed()
    half = case.steps // 2
    early, alone = [], []
    for row, prompt in enumerate(case.prompts):
        one = torch.tensor([row])
        context = select_context(case.context(), one)
        # Without the padding of other rows, so that trailing sizes of states are ragged.
        context = replace(context, prompt=context.prompt[:, : len(prompt)])
        early.append(run(processor, context, tokens[one, :half], [step[one] for step in logits[: half + 1]]))
        rest = [step[one] for step in logits[half:]]
        alone.append(run(processor, early[-1].context, tokens[one, half:], rest, early[-1].state))
    context, state = concatenate_context([one.context for one in early]), concatenate([one.state for one in early])
    joined = run(processor, context, tokens[:, half:], logits[half:], state)
    separate = [torch.cat(rows) for rows in zip(*(one.logits for one in alone), strict=True)]
    check_same_logits(separate, joined.logits, "alone and in a batch", half)
    check_same_states(concatenate([one.state for one in alone]), joined.state, len(alone), "alone and in a batch")


def _allows_no_rows(processor: Processor[Any], case: Case) -> None:
    """An engine has no rows when its last sequence has just ended."""
    none = torch.zeros(0, dtype=torch.int64)
    state = select(processor.init_state(case.context()), none)
    context = select_context(case.context(), none)
    for tokens in (none, none[:, None]):
        state = processor.advance(state, tokens)
    empty = torch.zeros(0, case.columns, dtype=case.dtype)
    _, logits = processor.process_logits(state, empty, with_guidance(processor, context, empty))
    if logits.shape != (0, case.columns):
        raise LawBroken(f"for no rows it returns logits of shape {list(logits.shape)}")


def shares_calls(other: Processor[Any], processor: Processor[Any], case: Case) -> None:
    """Two processors whose parameters are in their states may run each other's rows."""
    context, tokens, logits = case.context(), case.committed(), list(case.logits())
    alone = [run(one, context, tokens, logits) for one in (processor, other)]
    separate = [torch.cat(rows) for rows in zip(*(one.logits for one in alone), strict=True)]
    both = concatenate_context([context, context])
    state = concatenate([processor.init_state(context), other.init_state(context)])
    twice = [torch.cat([step, step]) for step in logits]
    for runs, name in ((processor, "the first"), (other, "the second")):
        joined = run(runs, both, torch.cat([tokens, tokens]), twice, state)
        where = f"with two processors for their own {len(case.prompts)} rows each and with {name} for all rows"
        check_same_logits(separate, joined.logits, where)


LAWS: dict[str, Law] = {
    "results keep their structure, dtype and shape": _keeps_dtype_and_shape,
    "no NaN or +inf is returned": _makes_no_nan,
    "arguments are left unchanged, except the logits": _leaves_arguments_unchanged,
    "tokens may be [B] or [B, T]": _takes_both_shapes_of_tokens,
    "-1 is not a token": _ignores_missing_tokens,
    "a replay gives the same result": _replays,
    "process_logits may be called again": _may_process_logits_again,
    "rows are independent": _keeps_rows_apart,
    "batches may be joined": _joins_batches,
    "there may be no rows": _allows_no_rows,
}
