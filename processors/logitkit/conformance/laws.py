"""The laws of the protocol: each runs a processor in two ways that must not matter, and says how they differ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from logitkit.conformance.cases import Case
from logitkit.conformance.runs import (
    changed,
    contents,
    different_logits,
    different_states,
    longer,
    run,
    unchanged,
)
from logitkit.protocol.context import concatenate_context, select_context
from logitkit.protocol.processor import Processor
from logitkit.protocol.state import concatenate, leaves, map_tensors, select

__all__ = ["LAWS", "Law", "shares_calls"]

# Returns how a processor breaks the law on a case, or None.
Law = Callable[[Processor[Any], Case], str | None]


def _keeps_dtype_and_shape(processor: Processor[Any], case: Case) -> str | None:
    # The checks of each call see to structure, dtypes and shapes.
    run(processor, case.context(), case.committed(), list(case.logits()))
    return None


def _makes_no_nan(processor: Processor[Any], case: Case) -> str | None:
    for step, logits in enumerate(run(processor, case.context(), case.committed(), list(case.logits())).logits):
        if logits.isnan().any():
            row, column = (int(place) for place in logits.isnan().nonzero()[0])
            return f"after {step} tokens logit {column} of row {row} is NaN"
    return None


def _leaves_arguments_unchanged(processor: Processor[Any], case: Case) -> str | None:
    context, itself = case.context(), contents(processor)
    given = contents((context.prompt, context.prompt_lengths, context.lengths))
    state, logits = processor.init_state(context), case.logits()
    for step, tokens in enumerate(case.committed().unbind(1)):
        before, committed = map_tensors(state, torch.clone), tokens.clone()
        after = processor.advance(state, committed)
        if not torch.equal(committed, tokens):
            return "advance writes to the tokens"
        if not all(map(unchanged, leaves(before), leaves(state))):
            return "advance writes to the state that it was given"
        before = map_tensors(after, torch.clone)
        processor.process_logits(after, logits[step + 1].clone(), longer(context, case.committed()[:, : step + 1]))
        if not all(map(unchanged, leaves(before), leaves(after))):
            return "process_logits writes to the state"
        state = after
    if changed(given, contents((context.prompt, context.prompt_lengths, context.lengths))) is not None:
        return "a method writes to the context"
    name = changed(itself, contents(processor))
    return None if name is None else f"a method changes the processor's attribute {name or 'itself'}"


def _takes_both_shapes_of_tokens(processor: Processor[Any], case: Case) -> str | None:
    rows = len(case.prompts)
    state = start = processor.init_state(case.context())
    for tokens in case.committed().unbind(1):
        flat, column = processor.advance(state, tokens), processor.advance(state, tokens[:, None])
        difference = different_states(flat, column, rows)
        if difference is not None:
            return f"after tokens of shape [{rows}] and of shape [{rows}, 1] {difference}"
        state = flat
    difference = different_states(state, processor.advance(start, case.committed()), rows)
    return difference and f"after tokens one by one and after all at once, [{rows}, {case.steps}], {difference}"


def _ignores_missing_tokens(processor: Processor[Any], case: Case) -> str | None:
    rows = len(case.prompts)
    state = processor.advance(processor.init_state(case.context()), case.committed())
    for none in (torch.full((rows,), -1), torch.full((rows, 2), -1)):
        difference = different_states(state, processor.advance(state, none), rows)
        if difference is not None:
            return f"before and after tokens that are all -1, of shape {list(none.shape)}, {difference}"
    gaps = torch.stack([torch.full_like(case.committed(), -1), case.committed()], 2).flatten(1)
    difference = different_states(state, processor.advance(processor.init_state(case.context()), gaps), rows)
    return difference and f"without and with -1 before each token {difference}"


def _replays(processor: Processor[Any], case: Case) -> str | None:
    """A request that comes back is replayed from its prompt and all its tokens at once."""
    logits, rows = list(case.logits()), len(case.prompts)
    first, again = (run(processor, case.context(), case.committed(), logits) for _ in range(2))
    for step, (one, other) in enumerate(zip(first.logits, again.logits, strict=True)):
        difference = different_logits(one, other)
        if difference is not None:
            return f"in a run and in the same run again, after {step} tokens, {difference}"
    state = processor.advance(processor.init_state(case.context()), case.committed())
    difference = different_states(first.state, state, rows)
    if difference is None:
        _, replayed = processor.process_logits(state, logits[-1].clone(), first.context)
        difference = different_logits(first.logits[-1], replayed)
    return difference and f"after a run and after a replay of its tokens {difference}"


def _may_process_logits_again(processor: Processor[Any], case: Case) -> str | None:
    """Engines show logits more often than they commit tokens."""
    logits, context = list(case.logits()), case.context()
    state = processor.init_state(context)
    for step in range(case.steps + 1):
        if step:
            tokens = case.committed()[:, step - 1]
            state, context = processor.advance(state, tokens), longer(context, tokens)
        first, *others = (processor.process_logits(state, logits[step].clone(), context)[1] for _ in range(3))
        for other in others:
            difference = different_logits(first, other)
            if difference is not None:
                return f"in a first call of process_logits and in another, after {step} tokens, {difference}"
    return None


def _keeps_rows_apart(processor: Processor[Any], case: Case) -> str | None:
    """Beams reorder rows, and drop and repeat them: to pick rows before a run or after it must not matter."""
    rows, logits, tokens = torch.tensor(case.order), list(case.logits()), case.committed()
    whole = run(processor, case.context(), tokens, logits)
    picked_logits, picked_tokens = [step.index_select(0, rows) for step in logits], tokens.index_select(0, rows)
    picked = run(processor, select_context(case.context(), rows), picked_tokens, picked_logits)
    for step, (one, other) in enumerate(zip(whole.logits, picked.logits, strict=True)):
        difference = different_logits(one.index_select(0, rows), other)
        if difference is not None:
            return f"with rows picked after and before the run, after {step} tokens, {difference}"
    difference = different_states(select(whole.state, rows), picked.state, len(rows))
    if difference is not None:
        return f"with rows picked after and before the run {difference}"
    half = case.steps // 2
    early = run(processor, case.context(), tokens[:, :half], logits[: half + 1])
    late = run(
        processor,
        select_context(early.context, rows),
        picked_tokens[:, half:],
        picked_logits[half:],
        select(early.state, rows),
    )
    difference = different_states(late.state, picked.state, len(rows))
    return difference and f"with rows picked after {half} tokens and before the run {difference}"


def _joins_batches(processor: Processor[Any], case: Case) -> str | None:
    """Requests enter a batch at different times, with prompts and outputs of different lengths."""
    logits, tokens = list(case.logits()), case.committed()
    half = case.steps // 2
    contexts, states, alone = [], [], []
    for row in range(len(case.prompts)):
        one = torch.tensor([row])
        # With no prompt but its own, so that trailing sizes of states are ragged.
        context = select_context(case.context(), one)
        context = replace(context, prompt=context.prompt[:, : len(case.prompts[row])])
        early = run(processor, context, tokens[one, :half], [step[one] for step in logits[: half + 1]])
        contexts.append(early.context)
        states.append(early.state)
        alone.append(
            run(processor, early.context, tokens[one, half:], [step[one] for step in logits[half:]], early.state)
        )
    joined = run(processor, concatenate_context(contexts), tokens[:, half:], logits[half:], concatenate(states))
    for row, single in enumerate(alone):
        one = torch.tensor([row])
        for step, (mine, beside) in enumerate(zip(single.logits, joined.logits, strict=True)):
            difference = different_logits(mine, beside[one])
            if difference is not None:
                return f"alone and in a batch, after {half + step} tokens, {difference.replace('row 0', f'row {row}')}"
        difference = different_states(single.state, select(joined.state, one), 1)
        if difference is not None:
            return f"alone and in a batch {difference.replace('row 0', f'row {row}')}"
    return None


def _allows_no_rows(processor: Processor[Any], case: Case) -> str | None:
    """In an engine whose last sequence has just ended there are none."""
    none = torch.zeros(0, dtype=torch.int64)
    state = select(processor.init_state(case.context()), none)
    context = select_context(case.context(), none)
    for tokens in (none, none[:, None]):
        state = processor.advance(state, tokens)
    _, logits = processor.process_logits(state, torch.zeros(0, case.columns, dtype=case.dtype), context)
    return None if logits.shape == (0, case.columns) else f"for no rows it returns logits of shape {list(logits.shape)}"


def shares_calls(other: Processor[Any], processor: Processor[Any], case: Case) -> str | None:
    """Two processors whose parameters are in their states may run each other's rows."""
    context, tokens, logits = case.context(), case.committed(), list(case.logits())
    alone = [run(one, context, tokens, logits) for one in (processor, other)]
    both, rows = concatenate_context([context, context]), len(case.prompts)
    state = concatenate([processor.init_state(context), other.init_state(context)])
    twice = [torch.cat([step, step]) for step in logits]
    for runs, whose in ((processor, "the first"), (other, "the second")):
        joined = run(runs, both, torch.cat([tokens, tokens]), twice, state)
        for number, single in enumerate(alone):
            for step, (mine, beside) in enumerate(zip(single.logits, joined.logits, strict=True)):
                difference = different_logits(mine, beside[number * rows : (number + 1) * rows])
                if difference is not None:
                    return (
                        f"rows of the {'second' if number else 'first'} processor run by itself and by {whose}, after {step} "
                        f"tokens: {difference}"
                    )
    return None


LAWS: dict[str, Law] = {
    "results keep their structure, dtype and shape": _keeps_dtype_and_shape,
    "no NaN is returned": _makes_no_nan,
    "arguments are left unchanged, except the logits": _leaves_arguments_unchanged,
    "tokens may be [B] or [B, T]": _takes_both_shapes_of_tokens,
    "-1 is not a token": _ignores_missing_tokens,
    "a replay gives the same result": _replays,
    "process_logits may be called again": _may_process_logits_again,
    "rows are independent": _keeps_rows_apart,
    "batches may be joined": _joins_batches,
    "there may be no rows": _allows_no_rows,
}
