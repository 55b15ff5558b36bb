"""Run a processor on a case, and compare states and logits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from random import Random
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from logitkit.conformance.cases import Case
from logitkit.protocol.calls import advance_checked, count_tokens, init_checked, process_checked
from logitkit.protocol.context import Context
from logitkit.protocol.processor import Processor, is_processor
from logitkit.protocol.state import concatenate

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
    "unchanged",
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
    found = [process_checked(processor, state, logits[0].clone(), context)]
    for step in range(tokens.shape[1]):
        state = advance_checked(processor, state, tokens[:, step])
        context = longer(context, tokens[:, step])
        found.append(process_checked(processor, state, logits[step + 1].clone(), context))
    return Run(state, found, context)


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
            allowed = process_checked(processor, state, ones, context) > -torch.inf
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
    difference = _different(concatenate([one, other]), rows, "state")
    if difference is not None:
        raise LawBroken(f"{where} {difference}")


def _different(both: Any, rows: int, path: str) -> str | None:
    if isinstance(both, Tensor):
        one, other = both[:rows], both[rows:]
        if _same(one, other):
            return None
        row = next(r for r in range(rows) if not _same(one[r], other[r]))
        return f"{path} of row {row} is {_shown(one[row])} and {_shown(other[row])}"
    names = getattr(both, "_fields", range(len(both)))
    found = (_different(part, rows, f"{path}.{name}") for name, part in zip(names, both, strict=True))
    return next((difference for difference in found if difference is not None), None)


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


def unchanged(before: Tensor, after: Tensor) -> bool:
    """Whether a tensor has the same values as before; NaN counts as equal to NaN."""
    alike = before.dtype == after.dtype and before.shape == after.shape
    return alike and bool(((before == after) | ((before != before) & (after != after))).all())


def _shown(value: Tensor) -> str:
    listed = str(value.tolist())
    return listed if len(listed) <= 80 else f"{listed[:77]}..."


def contents(value: Any) -> Any:
    """Copy the numbers, texts and tensors in a processor; other objects may be caches, and always compare as equal."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value.copy()) if value.dtype.kind in "biuf" else value.tolist()
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return value
    if isinstance(value, tuple | list):
        return [contents(part) for part in value]
    if is_processor(value):
        names = [f.name for f in fields(value)] if is_dataclass(value) else list(getattr(value, "__dict__", ()))
        return {name: contents(getattr(value, name)) for name in names}
    return None


def changed(before: Any, after: Any) -> str | None:
    """Return the name of the first attribute of a processor whose `contents` have changed, or None."""
    if isinstance(before, dict):
        for name, was in before.items():
            found = changed(was, after.get(name))
            if found is not None:
                return f"{name}.{found}" if found else name
        return None
    if isinstance(before, Tensor):
        return None if isinstance(after, Tensor) and unchanged(before, after) else ""
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return next((c for b, a in zip(before, after, strict=True) if (c := changed(b, a)) is not None), None)
    return None if before == after or before is None or before != before else ""
