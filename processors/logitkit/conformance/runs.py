"""Run a processor on a case, and compare states and logits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from random import Random
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from logitkit.conformance.cases import Case
from logitkit.protocol.calls import advance_checked, count_tokens, init_checked, process_checked
from logitkit.protocol.context import Context
from logitkit.protocol.processor import Processor, is_processor, reads_guidance
from logitkit.protocol.state import concatenate, walk

__all__ = [
    "LawBroken",
    "Run",
    "changed",
    "check_same_logits",
    "check_same_states",
    "contents",
    "legal_tokens",
    "longer",
    "run",
    "with_guidance",
]

# The largest allowed difference between two results: torch may add in another order for another number of rows.
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


class LawBroken(Exception):
    """A processor breaks a law; the message says how."""


class Run(NamedTuple):
    """The result of a run.

    Args:
        state: The state after all tokens.
        logits: The processed logits before the first token and after each, each [B, V].
        context: The context after all tokens.
    """

    state: Any
    logits: list[Tensor]
    context: Context


def run(
    processor: Processor[Any], context: Context, tokens: Tensor, logits: Sequence[Tensor], state: Any = None
) -> Run:
    """Run a processor token by token, from the prompt or from a state.

    Args:
        processor: The processor.
        context: The rows, before the first token.
        tokens: [B, T] int64.
        logits: T + 1 tensors of [B, V]; they are not changed.
        state: The state to start from. None: the state after the prompt.

    Raises:
        ProcessorError: A result breaks the protocol.
    """
    state = init_checked(processor, context) if state is None else state
    found = [process_checked(processor, state, logits[0].clone(), with_guidance(processor, context, logits[0]))]
    for step in range(tokens.shape[1]):
        state = advance_checked(processor, state, tokens[:, step])
        context = longer(context, tokens[:, step])
        seen = with_guidance(processor, context, logits[step + 1])
        found.append(process_checked(processor, state, logits[step + 1].clone(), seen))
    return Run(state, found, context)


def with_guidance(processor: Processor[Any], context: Context, logits: Tensor) -> Context:
    """Return the context of a step, in which the logits of a second pass are the given ones, [B, V], in reverse."""
    return replace(context, guidance_logits=logits.flip(1)) if reads_guidance(processor) else context


def longer(context: Context, tokens: Tensor) -> Context:
    """Return the context after tokens, [B] or [B, T]."""
    return context.at(context.lengths + count_tokens(tokens))


def legal_tokens(processor: Processor[Any], numbers: Random, case: Case, steps: int) -> list[list[int]]:
    """Draw up to `steps` tokens for each row of a case, each allowed by the processor; fewer if the processor fails."""
    lines: list[list[int]] = [[] for _ in case.prompts]
    context = case.context()
    try:
        state = init_checked(processor, context)
        for _ in range(steps):
            ones = torch.ones(len(lines), case.columns)
            allowed = process_checked(processor, state, ones, with_guidance(processor, context, ones)) > -torch.inf
            tokens = [_drawn_of(row.nonzero().flatten(), numbers) for row in allowed]
            for line, token in zip(lines, tokens, strict=True):
                line.append(token)
            committed = torch.tensor(tokens)
            state, context = advance_checked(processor, state, committed), longer(context, committed)
    except Exception:  # noqa: BLE001, S110 - a law makes the same calls, and reports the error with its case
        pass
    return lines


def _drawn_of(ids: Tensor, numbers: Random) -> int:
    return int(ids[numbers.randrange(len(ids))]) if len(ids) else -1


def check_same_states(one: Any, other: Any, rows: int, where: str) -> None:
    """Raise `LawBroken` if two states of the same rows differ; shorter trailing sizes are padded with fill values."""
    for path, both in walk(concatenate([one, other])):
        if isinstance(both, Tensor) and not _same(both[:rows], both[rows:]):
            row = next(r for r in range(rows) if not _same(both[r], both[rows + r]))
            raise LawBroken(f"{where} {path} of row {row} is {_shown(both[row])} and {_shown(both[rows + row])}")


def check_same_logits(ones: Sequence[Tensor], others: Sequence[Tensor], where: str, first_step: int = 0) -> None:
    """Raise `LawBroken` for the first step at which two runs have different logits, each [B, V]."""
    for step, (one, other) in enumerate(zip(ones, others, strict=True), first_step):
        if not _same(one, other):
            cells = ((r, c) for r in range(len(one)) for c in range(one.shape[1]))
            row, column = next((r, c) for r, c in cells if not _same(one[r, c], other[r, c]))
            shown = f"is {one[row, column]:g} and {other[row, column]:g}"
            raise LawBroken(f"{where}, after {step} tokens, logit {column} of row {row} {shown}")


def _same(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are the same: bit for bit, or for floating point with the same infinities and close numbers."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if not one.is_floating_point():
        return torch.equal(one, other)
    close = TOLERANCE.get(one.dtype, 1e-5)
    return torch.allclose(one, other, rtol=close, atol=close, equal_nan=True)


def _shown(value: Tensor) -> str:
    listed = str(value.tolist())
    return listed if len(listed) <= 80 else f"{listed[:77]}..."


def contents(value: Any, name: str = "") -> dict[str, Any]:
    """Copy the numbers, texts and tensors in a processor, by name; other objects may be caches, and are left out.

    Args:
        value: A processor, or a value in one.
        name: Its name, with a dot before each attribute.
    """
    if isinstance(value, np.ndarray):
        value = torch.from_numpy(value.copy()) if value.dtype.kind in "biuf" else value.tolist()
    if isinstance(value, Tensor):
        return {name: value.detach().clone()}
    if isinstance(value, bool | int | float | str | bytes):
        return {name: value}
    found, parts = {}, {}
    if isinstance(value, tuple | list):
        found, parts = {name: len(value)}, {f"{name}[{place}]": part for place, part in enumerate(value)}
    elif is_processor(value):
        names = [f.name for f in fields(value)] if is_dataclass(value) else list(getattr(value, "__dict__", ()))
        parts = {f"{name}.{attribute}": getattr(value, attribute) for attribute in names}
    for inside, part in parts.items():
        found |= contents(part, inside)
    return found


def changed(before: dict[str, Any], after: dict[str, Any]) -> str | None:
    """Return the name of the first of the `contents` of a processor that has changed, or None."""
    return next((name for name, was in before.items() if not _unchanged(was, after.get(name))), None)


def _unchanged(was: Any, now: Any) -> bool:
    """Whether a value is the same as before; NaN counts as equal to NaN."""
    if not isinstance(was, Tensor):
        return type(was) is type(now) and bool(was == now or was != was)
    alike = isinstance(now, Tensor) and was.dtype == now.dtype and was.shape == now.shape
    return alike and bool(((was == now) | ((was != was) & (now != now))).all())
