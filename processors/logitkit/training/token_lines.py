"""Prompts and outputs as lists of token ids, without their padding."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from logitkit.errors import ArgumentTypeError, BatchMismatch, ConfigurationError
from logitkit.parameters.scalars import as_integer

__all__ = ["output_lines", "prompt_lines"]


def prompt_lines(prompts: Any, rows: int, pad_id: int | None) -> list[list[int]]:
    """Return the tokens of each prompt, without padding.

    Args:
        prompts: [B, P] ids, padded on any side, or B lists of ids.
        rows: The number of rows of the logits.
        pad_id: The id of padding besides -1, or None.

    Raises:
        ConfigurationError: They are something else.
        BatchMismatch: They have another number of rows.
    """
    if isinstance(prompts, Tensor):
        if prompts.dim() != 2 or prompts.is_floating_point() or prompts.dtype == torch.bool:
            raise ConfigurationError(
                f"prompts is a {prompts.dtype} tensor of shape {list(prompts.shape)}; give token ids [B, P], or B lists of ids"
            )
        lines = [_inner(line, pad_id) for line in prompts.tolist()]
    elif isinstance(prompts, Sequence) and not isinstance(prompts, str):
        lines = [_ids("prompts", row, line) for row, line in enumerate(prompts)]
    else:
        raise ArgumentTypeError(
            f"prompts is of type {type(prompts).__name__}; give token ids [B, P], or B lists of ids"
        )
    if len(lines) != rows:
        raise BatchMismatch(f"prompts has {len(lines)} rows, but logits have {rows}; they must agree")
    return lines


def _inner(line: list[int], pad_id: int | None) -> list[int]:
    """Return a line without the padding at its two ends."""
    pads = (-1, pad_id)
    start, end = 0, len(line)
    while start < end and line[start] in pads:
        start += 1
    while end > start and line[end - 1] in pads:
        end -= 1
    return line[start:end]


def output_lines(
    outputs: Any, shape: tuple[int, int, int], pad_id: int | None, eos_ids: Sequence[Sequence[int]]
) -> list[list[int]]:
    """Return the tokens of each output, without padding.

    Args:
        outputs: [B, T] ids, or B lists of ids.
        shape: The shape of the logits.
        pad_id: The id of padding besides -1, or None.
        eos_ids: The EOS ids that the processor of each row knows.

    Raises:
        ConfigurationError: They are something else, padding is followed by a token, or an id is not a column of the logits.
        BatchMismatch: They have another number of rows or steps than the logits.
    """
    lines = _outputs(outputs, *shape[:2])
    lines = [_without_padding(row, line, pad_id, eos_ids[row]) for row, line in enumerate(lines)]
    for row, line in enumerate(lines):
        _check_columns(row, line, shape[2])
    return lines


def _outputs(outputs: Any, rows: int, steps: int) -> list[list[int]]:
    """Return the tokens of each output, with their padding."""
    if isinstance(outputs, Tensor):
        if outputs.dim() != 2 or outputs.is_floating_point() or outputs.dtype == torch.bool:
            raise ConfigurationError(
                f"outputs is a {outputs.dtype} tensor of shape {list(outputs.shape)}; give token ids [B, T], or B lists of ids"
            )
        if list(outputs.shape) != [rows, steps]:
            raise BatchMismatch(
                f"outputs has shape {list(outputs.shape)}, but logits {[rows, steps]} and the columns; give logits whose step t "
                "predicts token t: those of a causal model from the last token of the prompt on, without the last one"
            )
        lines: list[list[int]] = outputs.tolist()
        return lines
    if not isinstance(outputs, Sequence) or isinstance(outputs, str):
        raise ArgumentTypeError(
            f"outputs is of type {type(outputs).__name__}; give token ids [B, T], or B lists of ids"
        )
    if len(outputs) != rows:
        raise BatchMismatch(f"outputs has {len(outputs)} rows, but logits have {rows}; they must agree")
    lines = [_ids("outputs", row, line) for row, line in enumerate(outputs)]
    for row, line in enumerate(lines):
        if len(line) > steps:
            raise BatchMismatch(
                f"outputs[{row}] has {len(line)} tokens, but logits have {steps} steps; cut or pad them"
            )
    return lines


def _ids(name: str, row: int, line: Any) -> list[int]:
    if isinstance(line, Tensor):
        line = line.tolist() if line.dim() == 1 and not line.is_floating_point() else None
    if not isinstance(line, Iterable) or isinstance(line, str):
        raise ArgumentTypeError(f"{name}[{row}] is not a list of token ids; give one list for each row")
    found = []
    for given in line:
        token = as_integer(given)
        if token is None:
            raise ConfigurationError(f"{name}[{row}] contains {given!r}; allowed are token ids")
        found.append(token)
    return found


def _without_padding(row: int, line: list[int], pad_id: int | None, eos_ids: Sequence[int]) -> list[int]:
    """Return the tokens of an output before its padding.

    Padding is -1 or `pad_id`. If `pad_id` is an EOS, the first one ends the text and is a token of it.
    """
    pads = {-1} if pad_id is None else {-1, pad_id}
    ends = next((i for i, token in enumerate(line) if token in pads), len(line))
    for step in range(ends, len(line)):
        if line[step] not in pads:
            what = "-1" if line[ends] == -1 else f"pad_id {pad_id}"
            raise ConfigurationError(
                f"outputs[{row}] has padding ({what}) at step {ends}, and the token {line[step]} at step {step}; padding is "
                "allowed at the end of a row only"
            )
    if ends < len(line) and line[ends] == pad_id and pad_id in eos_ids:
        ends += 1
    return line[:ends]


def _check_columns(row: int, line: Sequence[int], columns: int) -> None:
    for step, token in enumerate(line):
        if not 0 <= token < columns:
            raise ConfigurationError(
                f"outputs[{row}] is {token} at step {step}, but the logits have {columns} columns; allowed are ids from 0 to "
                f"{columns - 1}, and -1 or pad_id for padding"
            )
